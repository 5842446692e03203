"""How much Java a Spark job computes with, counted in records that land as they are, and what that is worth.

With Java's quick compiler alone a job of a thousand records takes half a second less, and each further million about
1.3 seconds on two cores; where the better one compiles what is hot, 0.8. Bytes hardly matter: what is done to them is
not Java's.
"""

from __future__ import annotations

LIGHT = 1_500_000
"""Up to so much effort the quick compiler alone is better."""

_DECODED, _COMPARED = 4, 2


def effort(records: int, *, is_decoded: bool = False, is_compared: bool = False) -> int:
    """Return the effort of a job over so many records."""
    return records * (_DECODED if is_decoded else 1) * (_COMPARED if is_compared else 1)
