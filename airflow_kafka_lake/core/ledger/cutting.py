"""How verdicts about parts cut the ranges of a wave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.ledger.guards import not_planned
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.waves import RangeState


def cut_for_revocation(
    wave: str, found: Mapping[str, RangeRecord], verdicts: Sequence[Verdict]
) -> tuple[tuple[RangeRecord, ...], tuple[Verdict, ...]]:
    """Return the pieces that replace the ranges which verdicts speak of in part, and the verdicts about whole pieces.

    The first piece of a range keeps its id; all pieces keep its state. Raises StateError for a range that is no
    PLANNED one of the wave, ValueError for parts that are not inside their range or that overlap.
    """
    parts: dict[str, list[Verdict]] = defaultdict(list)
    whole: list[Verdict] = []
    for item in verdicts:
        (whole if item.part is None else parts[item.range_id]).append(item)
    pieces: list[RangeRecord] = []
    for name, its in parts.items():
        source = found.get(name)
        if source is None or source.wave != wave or source.state is not RangeState.PLANNED:
            raise not_planned(name, wave)
        by_part = {item.part: item for item in its if item.part is not None}
        cuts = source.range.split_at(edge for part in by_part for edge in (part.start, part.end))
        if by_part.keys() - set(cuts) or len(by_part) != len(its):
            raise ValueError(f"the parts of range {name} are not inside {source.range}, or overlap")
        for cut in cuts:
            pieces.append(source.piece(cut))
            if cut in by_part:
                whole.append(replace(by_part[cut], range_id=pieces[-1].id, part=None))
    return tuple(pieces), tuple(whole)
