"""Audit of an attempt: every offset of every range accounted for, before anybody can see a row (law L8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.accounting import EXPLAINED, Explanation, Gap, Receipt, StreamContent, gaps, receipt
from airflow_kafka_lake.core.errors import LogStartMovedError, UnavailableError, UnexplainedError
from airflow_kafka_lake.core.holds import hold
from airflow_kafka_lake.core.losses import fewer_rows, gone_topic, held_by
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.records import Claim, Holding, RangeRecord, Staged, Verdict
from airflow_kafka_lake.core.streams import StreamKey
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.losses import look
from airflow_kafka_lake.services.topics import changed_topics

NAMED_STRETCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The receipts of a staged attempt; `failed` names the ranges that must not be published, with the reason."""

    receipts: tuple[Receipt, ...]
    failed: tuple[Verdict, ...]


def audit_attempt(ports: Ports, claim: Claim, staged: Staged, heartbeat: Callable[[], None] = lambda: None) -> Audited:
    """Compare what is staged with what was planned, and explain every offset without a row from Kafka's batches.

    Topic ids are compared before and after the explanations, ends and leader epochs after them: they bracket the
    accounting (fine print of §3). Raises UnavailableError when they cannot be compared.
    """
    contents = {(item.topic, item.topic_id, item.partition): item for item in staged.streams}
    if foreign := sorted(set(contents) - {item.stream for item in claim.ranges}):
        raise UnexplainedError(f"attempt {claim.key.attempt} staged rows of streams that its wave has not: {foreign}")
    failed = _changed(ports, claim.ranges)
    open_ranges = [item for item in claim.ranges if item.id not in failed]
    explained = _explained(ports, claim, open_ranges, contents, heartbeat)
    seen = look(ports, open_ranges)
    if seen.unknown:
        raise UnavailableError(f"{next(iter(seen.unknown.values()))}, so what was read of it is not proven: repeat")
    # Rows that are staged need no log start to prove them: they were read before it moved.
    failed |= {i: held_by(i, e) for i, e in seen.failed.items() if not isinstance(e, LogStartMovedError)}
    receipts = []
    for item in claim.ranges:
        content = contents.get(item.stream)
        result = receipt(
            item.id,
            *item.stream,
            item.range,
            content.offsets if content else RangeSet(),
            explained.get(item.id, ()),
        )
        receipts.append(result)
        if result.accounting.unexplained and item.id not in failed:
            lost = seen.failed.get(item.id)
            failed[item.id] = held_by(item.id, lost) if lost else _unexplained(item, content, explained[item.id])
    failed |= {i: hold(i, reason) for i, reason in _strays(claim.ranges, contents).items()}
    return Audited(receipts=tuple(receipts), failed=tuple(failed.values()))


def _changed(ports: Ports, ranges: Sequence[RangeRecord]) -> dict[str, Verdict]:
    changed = changed_topics(ports, {(item.topic, item.topic_id) for item in ranges})
    return {
        item.id: held_by(item.id, gone_topic(item, changed[key]))
        for item in ranges
        if (key := (item.topic, item.topic_id)) in changed
    }


def _explained(
    ports: Ports,
    claim: Claim,
    ranges: Sequence[RangeRecord],
    contents: dict[StreamKey, StreamContent],
    heartbeat: Callable[[], None],
) -> dict[str, tuple[Explanation, ...]]:
    wanted: dict[Gap, str] = {}
    for item in ranges:
        content = contents.get(item.stream)
        for stretch in gaps(item.range, content.offsets if content else RangeSet()):
            gap = Gap(topic=item.topic, topic_id=item.topic_id, partition=item.partition, range=stretch)
            wanted[gap] = item.id
    if not wanted:
        return {}
    ports.say(f"explaining {len(wanted)} gaps of wave {claim.key.wave}")
    found: dict[str, list[Explanation]] = defaultdict(list)
    for gap, explanations in ports.batches.explain(tuple(wanted), claim.spec.isolation, heartbeat).items():
        found[wanted[gap]] += explanations
    return {range_id: tuple(explanations) for range_id, explanations in found.items()}


def _unexplained(item: RangeRecord, content: StreamContent | None, explanations: Sequence[Explanation]) -> Verdict:
    left = gaps(item.range, content.offsets if content else RangeSet())
    for known in explanations:
        if known.fate in EXPLAINED:
            left = left - RangeSet((known.range,))
    named = ", ".join(str(stretch) for stretch in left.ranges[:NAMED_STRETCHES])
    more = "" if len(left.ranges) <= NAMED_STRETCHES else f" and {len(left.ranges) - NAMED_STRETCHES} more stretches"
    seen = "; ".join(dict.fromkeys(known.seen for known in explanations if known.fate not in EXPLAINED and known.seen))
    said = f"{left.span} offsets are not explained: {named}{more}" + (f" ({seen})" if seen else "")
    return hold(item.id, UnexplainedError(said).named, left)


def _strays(ranges: Sequence[RangeRecord], contents: dict[StreamKey, StreamContent]) -> dict[str, str]:
    """Name the ranges of streams with rows twice, or with rows that nobody planned."""
    planned: dict[StreamKey, list[OffsetRange]] = defaultdict(list)
    for item in ranges:
        planned[item.stream].append(item.range)
    failed: dict[str, str] = {}
    for item in ranges:
        content = contents.get(item.stream)
        if content is None:
            continue
        stray = content.offsets - RangeSet(planned[item.stream])
        if content.duplicates:
            failed[item.id] = f"{content.duplicates} rows of {item.topic}/{item.partition} were staged twice"
        elif stray:
            failed[item.id] = f"rows outside the planned ranges of {item.topic}/{item.partition} were staged: {stray}"
    return failed


def refuse_fewer(ports: Ports, claim: Claim, staged: Staged) -> tuple[Verdict, ...]:
    """Hold reopened ranges whose new rows lack an offset that the lake shows now, unless a person has accepted that."""
    asked = [item for item in claim.ranges if item.generation and not item.fewer_accepted]
    if not asked:
        return ()
    shown = _offsets(ports.lake.table(claim.table).visible([item.stretch for item in asked]))
    read = _offsets(staged.streams)
    verdicts = []
    for item in asked:
        before = shown.get(item.stream, RangeSet()).within(item.range)
        after = read.get(item.stream, RangeSet()).within(item.range)
        if lost := before - after:
            reason = fewer_rows(item, before.span, after.span, lost)
            verdicts.append(hold(item.id, reason))
    return tuple(verdicts)


def _offsets(found: Iterable[Holding | StreamContent]) -> dict[StreamKey, RangeSet]:
    offsets: dict[StreamKey, list[OffsetRange]] = defaultdict(list)
    for item in found:
        offsets[item.topic, item.topic_id, item.partition].extend(item.offsets)
    return {stream: RangeSet(parts) for stream, parts in offsets.items()}
