"""How the numbers of a committed range are shared by its pieces, when it is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_lake.core.lake.accounting import Accounting, Explanation, account
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet

CLASSES = ("control", "aborted", "compacted")
"""The classes of offsets without a row that a committed range counts."""


def shares(
    whole: Accounting, pieces: Sequence[OffsetRange], visible: RangeSet, said: Iterable[Explanation]
) -> tuple[Accounting, ...]:
    """Return the accounting of each piece: they add up to the whole, class by class, and each to its piece's span.

    `visible` are the offsets with a row, which are exact; `said` is what Kafka's batches still say of the others, and
    holds as far as the whole's numbers allow (what was aborted may have been compacted since). What nobody says is
    shared out in the order of the pieces. Raises ValueError when `visible` is not what the whole counts.
    """
    told = tuple(said)
    known = [account(piece, visible, told) for piece in pieces]
    if sum(item.visible for item in known) != whole.visible or whole.span != sum(piece.span for piece in pieces):
        raise ValueError(f"{visible} are not the {whole.visible} visible offsets of a range of {whole.span}")
    left = {name: getattr(whole, name) for name in CLASSES}
    given = [_at_most(item, left) for item in known]
    return tuple(
        _filled(Accounting(visible=item.visible, **numbers), piece.span, left)
        for item, numbers, piece in zip(known, given, pieces, strict=True)
    )


def _at_most(item: Accounting, left: dict[str, int]) -> dict[str, int]:
    """Take what is said of a piece out of what is left of each class."""
    taken = {name: min(getattr(item, name), left[name]) for name in CLASSES}
    for name, number in taken.items():
        left[name] -= number
    return taken


def _filled(item: Accounting, span: int, left: dict[str, int]) -> Accounting:
    """Take from what is left whatever a piece still lacks: no class can run out, because both sides add up."""
    missing = span - item.span
    for name in CLASSES:
        number = min(missing, left[name])
        left[name] -= number
        missing -= number
        item += Accounting(**{name: number})
    return item
