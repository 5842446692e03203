"""Audit of an attempt: every offset of every range is accounted for before a reader can see a row (law L8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Explanation, Receipt, StreamContent, Tally, receipt
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.ddl import columns, leaves
from airflow_kafka_lake.core.decoding import VALUE_COLUMN, Decoding, Format, Limit, column_of
from airflow_kafka_lake.core.errors import DecodeLimitError, LogStartMovedError, UnavailableError, UnexplainedError
from airflow_kafka_lake.core.kafka.losses import (
    Losses,
    deleted_rows,
    epochs_of_tips,
    fewer_rows,
    gone_topic,
    held_loss,
    is_proven,
    leader_epochs,
    not_of_the_leader,
    passed,
)
from airflow_kafka_lake.core.ledger.records import (
    Claim,
    RangeDecision,
    RangeRecord,
    ReceiptRow,
    StagedContent,
    held_by,
    hold,
)
from airflow_kafka_lake.core.ledger.reopening import rows_before
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet, Slice, Stream, grouped, offsets_by
from airflow_kafka_lake.core.spark.job import OWN_COLUMNS, Tip
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.identity import changed_topics, check_losses, planned_epochs

MOST_PASSED = 1_000
"""Gaps of a wave that are held one by one when the log start has passed them; beyond, whole ranges."""
GAPS_AT_ONCE = 20_000
"""Gaps in one question to Kafka: about 15 MB of explanations."""
MANY_VALUES = 100
"""A column that so many values leave empty is told of; of fewer, a rare field would be told every hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAudit:
    """The receipts of a staged attempt; `failed` names the ranges that must not be published, with the reason.

    `rest_is_proven`: the failed ones are parts without a row, and all else is proven, so that the staged rows can be
    published as they are once they are revoked.
    """

    receipts: tuple[Receipt, ...]
    failed: tuple[RangeDecision, ...]
    rest_is_proven: bool = False


def audit_attempt(
    ports: Ports, claim: Claim, staged: StagedContent, heartbeat: Callable[[int], None] = lambda _: None
) -> AttemptAudit:
    """Compare the staged rows with the planned ranges, and explain every offset without a row from Kafka's batches.

    Topic ids are compared before and after the explanations, ends and leader epochs after them, so that all of it is
    told of one log. `heartbeat` gets how many offsets are explained. Raises the error of the missing
    answer when they cannot be compared.
    """
    contents = {item.stream: item for item in staged.streams}
    if foreign := sorted(set(contents) - {item.stream for item in claim.ranges}):
        raise UnexplainedError(
            f"attempt {claim.key.attempt} staged rows of streams that its wave has not: {', '.join(map(str, foreign))}"
        )
    changed = _changed(ports, claim.ranges)
    open_ranges = [item for item in claim.ranges if item.id not in changed]
    tallies = _explain(ports, claim, open_ranges, contents=contents, heartbeat=heartbeat)
    losses = check_losses(ports, open_ranges)
    if losses.unknown:
        raise losses.refusal("{}, so what was read of it is not proven: repeat")
    audited = _judge(claim.ranges, contents, changed, tallies=tallies, losses=losses)
    if staged.read is not None and (audited.rest_is_proven or not audited.failed):
        _require_same_logs(ports, staged.read, contents, losses)
    return audited


def _require_same_logs(
    ports: Ports, read: Sequence[Tip], contents: Mapping[Stream, StreamContent], losses: Losses
) -> None:
    """Refuse rows that were read from another log than the one that the checks have seen.

    The last record that each consumer has read must be in the leader's log. Most are told by the ends of leader epochs,
    which one question per leader brings; of the others the leader's batch is read.
    """
    covered = offsets_by((tip.slice.stream, tip.slice.range) for tip in read)
    for stream, content in contents.items():
        if left := content.offsets - covered[stream]:
            raise UnavailableError(
                f"the Spark job did not say from which log it has read {stream} {left.named(NAMED)}, so that "
                "this cannot be compared with the leader's: repeat the call"
            )
    known = leader_epochs(losses.seen.values())
    asked = epochs_of_tips(read)
    ends = ports.source.epoch_ends(asked, known) if asked else {}
    starts = {stream: seen.log_start for stream, seen in losses.seen.items()}
    if passed_by := [tip for tip in read if tip.offset < starts[tip.slice.stream]]:
        ports.progress(
            f"{count(len(passed_by), 'slice')} cannot be compared with the leader's log, whose start has passed them "
            f"since they were read: {passed_by[0].slice}. From which broker they came is not proven"
        )
    doubtful = [tip for tip in read if not is_proven(tip, ends, starts[tip.slice.stream])]
    places = tuple((tip.slice.stream, tip.offset) for tip in doubtful)
    epochs = {item.stream: item.leader_epoch for item in losses.seen.values() if item.leader_epoch is not None}
    found = ports.batches.held(places, epochs=epochs) if places else {}
    if others := [tip for tip, place in zip(doubtful, places, strict=True) if not tip.is_of(found.get(place))]:
        raise not_of_the_leader(others)


def _judge(
    ranges: Sequence[RangeRecord],
    contents: Mapping[Stream, StreamContent],
    changed: Mapping[str, RangeDecision],
    *,
    tallies: Mapping[str, Tally],
    losses: Losses,
) -> AttemptAudit:
    # Rows that are staged need no log start to prove them: they were read before it moved.
    failed = dict(changed)
    for item in ranges:
        if (error := losses.failed.get(item.id)) and not isinstance(error, LogStartMovedError):
            failed[item.id] = held_loss(item, error)
    receipts = []
    for item in ranges:
        offsets = contents[item.stream].offsets if item.stream in contents else RangeSet()
        result = receipt(item.id, item.slice, offsets, tallies.get(item.id, Tally()))
        receipts.append(result)
        if result.accounting.unexplained and item.id not in failed:
            loss = losses.failed.get(item.id)
            failed[item.id] = held_loss(item, loss) if loss else _unexplained(item, tallies[item.id])
    failed |= {i: hold(i, reason) for i, reason in _unplanned(ranges, contents).items()}
    gaps = _passed(ranges, failed, losses, tallies)
    return AttemptAudit(receipts=tuple(receipts), failed=gaps or tuple(failed.values()), rest_is_proven=bool(gaps))


def _passed(
    ranges: Sequence[RangeRecord], failed: Mapping[str, RangeDecision], losses: Losses, tallies: Mapping[str, Tally]
) -> tuple[RangeDecision, ...]:
    """Return verdicts about the gaps alone, where the only fault is that the log start has passed them since the read.

    None where anything else is wrong, where the ranges are read again, or where there are too many gaps.
    """
    if any(item.generation for item in ranges):
        return ()
    verdicts: list[RangeDecision] = []
    for item in ranges:
        if item.id not in failed:
            continue
        lost, left = losses.failed.get(item.id), tallies.get(item.id, Tally()).unexplained
        if not isinstance(lost, LogStartMovedError) or failed[item.id] != held_loss(item, lost):
            return ()
        if left - RangeSet((lost.lost,) if lost.lost else ()) or len(verdicts) + left.range_count > MOST_PASSED:
            return ()
        verdicts += [passed(item, part) for part in left]
    return tuple(verdicts)


def _changed(ports: Ports, ranges: Sequence[RangeRecord]) -> dict[str, RangeDecision]:
    changed = changed_topics(ports, {(item.stream.topic, item.stream.topic_id) for item in ranges})
    return {
        item.id: held_by(item.id, gone_topic(item, changed[key]))
        for item in ranges
        if (key := (item.stream.topic, item.stream.topic_id)) in changed
    }


def _explain(
    ports: Ports,
    claim: Claim,
    ranges: Sequence[RangeRecord],
    *,
    contents: Mapping[Stream, StreamContent],
    heartbeat: Callable[[int], None],
) -> Mapping[str, Tally]:
    """Ask Kafka's batches about every offset without a row, a group of gaps at a time; only numbers are kept."""
    number = sum(_gaps(item, contents).range_count for item in ranges)
    if number:
        ports.progress(f"explaining {count(number, 'gap')} of wave {claim.key.wave}")
    tallies: dict[str, Tally] = defaultdict(Tally)
    for group in _in_groups(ranges, contents):
        wanted = {Slice(item.stream, gap): number for number, (item, left) in enumerate(group) for gap in left}
        found: list[list[Explanation]] = [[] for _ in group]
        explain = partial(ports.batches.explain, epochs=planned_epochs(ranges))
        for gap, explanations in explain(tuple(wanted), claim.spec.isolation, heartbeat).items():
            found[wanted[gap]] += explanations
        for (item, left), mine in zip(group, found, strict=True):
            tallies[item.id].add(left, mine)
    return tallies


def _gaps(item: RangeRecord, contents: Mapping[Stream, StreamContent]) -> RangeSet:
    return (contents[item.stream].offsets if item.stream in contents else RangeSet()).gaps(item.range)


def _in_groups(
    ranges: Sequence[RangeRecord], contents: Mapping[Stream, StreamContent]
) -> Iterator[list[tuple[RangeRecord, RangeSet]]]:
    """Yield the gaps of all ranges in groups of about `GAPS_AT_ONCE`."""
    group: list[tuple[RangeRecord, RangeSet]] = []
    count = 0
    for item in ranges:
        for part in _gaps(item, contents).sliced(GAPS_AT_ONCE):
            if group and count + part.range_count > GAPS_AT_ONCE:
                yield group
                group, count = [], 0
            group.append((item, part))
            count += part.range_count
    if group:
        yield group


def _unexplained(item: RangeRecord, tally: Tally) -> RangeDecision:
    left = tally.unexplained
    seen = "; ".join(tally.seen)
    offsets = count(left.span, "offset is", "offsets are")
    message = f"{offsets} not explained: {some(left, NAMED, 'range')}" + (f" ({seen})" if seen else "")
    return held_by(item.id, UnexplainedError(message), left)


def _unplanned(ranges: Sequence[RangeRecord], contents: Mapping[Stream, StreamContent]) -> dict[str, str]:
    """Name the ranges of streams with rows twice, or with rows that were not planned."""
    planned = offsets_by((item.stream, item.range) for item in ranges)
    failed: dict[Stream, str] = {}
    for stream, content in contents.items():
        if content.duplicates:
            failed[stream] = (
                f"{count(content.duplicates, f'row of {stream} was', f'rows of {stream} were')} staged twice"
            )
        elif stray := content.offsets - planned[stream]:
            failed[stream] = f"rows outside the planned ranges of {stream} were staged: {stray}"
    return {item.id: failed[item.stream] for item in ranges if item.stream in failed}


def refuse_replacing(
    claim: Claim, staged: StagedContent, shown: Mapping[Stream, RangeSet], receipts: Sequence[ReceiptRow]
) -> tuple[RangeDecision, ...]:
    """Hold reopened ranges whose new rows lack an offset of a row that is `shown` now, or of which rows were deleted
    since the reopen, unless a person has agreed."""
    read = offsets_shown(staged.streams)
    verdicts = []
    for item in claim.ranges:
        if not item.generation:
            continue
        before = shown.get(item.stream, NOTHING).within(item.range)
        after = read.get(item.stream, NOTHING).within(item.range)
        deleted = rows_before(item, receipts) - before
        if gone := deleted & after:
            verdicts.append(deleted_rows(item, gone, come_back=True))
        elif item.fewer_accepted:
            continue
        elif lost := before - after:
            verdicts.append(fewer_rows(item, before.span, after.span, lost))
        elif deleted:
            verdicts.append(deleted_rows(item, deleted, come_back=False))
    return tuple(verdicts)


def offsets_shown(found: Iterable[StreamContent]) -> dict[Stream, RangeSet]:
    """Return the offsets of rows, whichever attempts they are of."""
    offsets = grouped((item.stream, item.offsets) for item in found)
    return {stream: RangeSet.union(parts) for stream, parts in offsets.items()}


# Tell what does not decode, and hold it where it is more than the pipeline allows.


def remarks_on(asked: Decoding | None, staged: StagedContent) -> str:
    """Return the sentences about the values of a wave: how many do not decode, and which fields of a JSON schema are
    empty in all others; nothing where there is neither."""
    failed = sum(item.offsets.span for item in staged.undecoded)
    rows = sum(item.offsets.span for item in staged.streams)
    values = staged.filled.get(VALUE_COLUMN, rows)
    told = list(empty_columns(asked, staged.filled, failed))
    if failed:  # a reason may be long, and the history cuts the end
        first = staged.undecoded[0]
        these = f"{failed:,} of {count(values, 'value')} did not decode, with the reason of each in decode_error"
        told.append(f"{these}. The first, {first.stream} at {first.offsets.ranges[0].start}: {first.reason}")
    return ". ".join(told)


def empty_columns(asked: Decoding | None, filled: Mapping[str, int], failed: int) -> Iterator[str]:
    """Give the sentence about the fields of a JSON schema that none of many decoded values fills, or none of a few
    where these are all fields; `filled` is how many rows have something in each column, by its path, `failed` how many
    values did not decode."""
    decoded = filled.get(VALUE_COLUMN, 0) - failed
    if asked and asked.format is Format.JSON and decoded > 0:
        found, paths = {path.lower(): number for path, number in filled.items()}, [*leaves(columns(asked.schema or ""))]
        places = {".".join(path): ".".join((column_of(path[0], OWN_COLUMNS), *path[1:])) for path in paths}
        empty = [path for path, place in places.items() if found.get(place.lower()) == 0]
        if empty and (decoded >= MANY_VALUES or len(empty) == len(places)):
            these = f"None of the {count(decoded, 'value')} that decoded filled {some(empty, NAMED)}"
            yield f"{these}: fields are found by their exact names, case included"


def refuse_undecoded(asked: Decoding | None, claim: Claim, staged: StagedContent) -> tuple[RangeDecision, ...]:
    """Hold the ranges with values that do not decode when they are more, over the wave, than the pipeline allows."""
    if asked is None or asked.limit is None:
        return ()
    failed = sum(item.offsets.span for item in staged.undecoded)
    rows = sum(item.offsets.span for item in staged.streams)
    if not asked.limit.is_exceeded(failed, rows):
        return ()
    by_stream = {item.stream: item for item in staged.undecoded}
    verdicts = []
    for item in claim.ranges:
        found = by_stream.get(item.stream)
        if found and (here := found.offsets.within(item.range)):
            error = _refusal(item, here, found.reason, failed=failed, rows=rows, limit=asked.limit)
            verdicts.append(held_by(item.id, error, here))
    return tuple(verdicts)


def _refusal(
    item: RangeRecord, here: RangeSet, reason: str, *, failed: int, rows: int, limit: Limit
) -> DecodeLimitError:
    """Return the refusal: too many values of a wave do not decode, which of them are a range's, and the remedy."""
    return DecodeLimitError(
        f"{failed:,} of the wave's {count(rows, 'value')} do not decode, the limit is {limit}; {here.span:,} "
        f"of them are in this range, the first at offset {here.ranges[0].start}. The first of the partition: {reason}. "
        "Nothing of the range is visible. Correct [decode] in the pipeline file, or its limit, and plan once, so that "
        f"it is recorded; then: {remedies.release(item.id)}"
    ).ended_by(remedies.release(item.id))
