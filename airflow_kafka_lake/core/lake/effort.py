"""How much Java a Spark job computes with, counted in records that land as they are, and what that is worth.

Java's quick compiler has a driver ready in half the time, and its code takes about 1.8 seconds for a million records on
two cores. Code of the better one takes 0.95, after three to four seconds of compiling. Bytes hardly matter: what is
done to them is not Java's.
"""

from __future__ import annotations

LIGHT = 5_000_000
"""Up to so much effort the quick compiler is the better one."""

_DECODED, _COMPARED = 8, 5


def effort(records: int, *, is_decoded: bool = False, is_compared: bool = False) -> int:
    """Return the effort of a job over so many records."""
    return records * (_DECODED if is_decoded else 1) * (_COMPARED if is_compared else 1)
