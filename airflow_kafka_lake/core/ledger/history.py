"""What the events of a pipeline's history say, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.records import Advance, ReceiptRow, Verdict
from airflow_kafka_lake.core.ledger.reopening import Reopening
from airflow_kafka_lake.core.ledger.waves import AttemptKey, AttemptOutcome, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.rebuilding.restoration import Restoration
from airflow_kafka_lake.core.slices import Stream

LONGEST = 500
NAMED = 5
"""How many streams an event names."""


def planned(plan: Plan) -> str:
    """Tell a plan by its numbers."""
    ranges = plan.ranges
    offsets = sum(item.range.span for item in ranges)
    return f"{len(plan.streams)} streams, {len(plan.waves)} waves, {len(ranges)} ranges, {offsets} offsets"


def committed(attempt: str, receipts: Sequence[Receipt]) -> str:
    """Tell which attempt is in the lake, and how much it brought."""
    return f"attempt {attempt}: {len(receipts)} ranges, {sum(item.rows for item in receipts)} rows"


def refused(write: str, key: AttemptKey, state: WaveState, fence: int) -> str:
    """Tell of a write that came too late: what, by which attempt, and what the wave was by then."""
    return f"{write} of attempt {key.attempt}, fence {key.fence}: the wave is {state} at fence {fence}"


def ended(outcome: AttemptOutcome, error: str | None) -> str:
    """Tell how an attempt ended."""
    return f"{outcome}: {error[:LONGEST]}" if error else outcome.value


def taken(verdicts: Sequence[Verdict]) -> str:
    """Tell which ranges left a wave and why; the first few by name."""
    named = "; ".join(
        f"{item.range_id}{f' ({item.part})' if item.part else ''} {item.state}: {item.reason}" for item in verdicts[:3]
    )
    more = f"; and {len(verdicts) - 3} more" if len(verdicts) > 3 else ""
    return named[:LONGEST] + more


def released(ranges: int, reason: str | None) -> str:
    """Tell how much was released."""
    return f"{ranges} ranges" + (f": {reason}" if reason else "")


def skipped(stream: Stream, interval: OffsetRange, offsets: int, reason: str, waves: Collection[str]) -> str:
    """Tell what was passed unread, and where what was held for it goes on."""
    rest = f"; the rest goes on in {', '.join(waves)}" if waves else ""
    return f"{stream} {interval}, {offsets} offsets{rest}: {reason}"


def deleted(receipts: Sequence[ReceiptRow], reason: str) -> str:
    """Tell how many rows of some ranges are deleted from the lake on purpose in all, of which streams, and why."""
    rows: dict[str, int] = defaultdict(int)
    for item in receipts:
        rows[f"{item.stream}"] += item.rows
    named = ", ".join(f"{name}: {number} rows in all" for name, number in sorted(rows.items())[:NAMED])
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return f"{named}{more}: {reason}"


def reopened(what: Reopening, before: int, after: int) -> str:
    """Tell what is read again, why, and where the watermark went."""
    fell = f"watermark {before} → {after}" if after != before else f"watermark {after}"
    generation = max(cut.record.generation for cut in what.cuts if cut.is_read_again)
    accepted = ", fewer rows accepted" if any(cut.record.fewer_accepted for cut in what.cuts) else ""
    where = f"{what.stream} {what.interval}"
    return f"{where}, {what.offsets} offsets, generation {generation}{accepted}; {fell}: {what.reason}"


def advanced(moves: Sequence[Advance]) -> str:
    """Tell how far the watermarks went."""
    offsets = sum(move.end - move.start for move in moves)
    return f"{len(moves)} watermarks, {offsets} offsets, {sum(move.rows for move in moves)} rows"


def rebuilt(what: Restoration) -> str:
    """Tell what a rebuild brought back, and what it reopened."""
    ranges = sum(len(wave.receipts) for wave in what.waves)
    text = f"{len(what.waves)} waves, {ranges} ranges, {len(what.skips)} skips found in the lake"
    if not what.reopened:
        return text
    return f"{text}; {len(what.reopened)} ranges reopened, their rows are gone: {', '.join(what.reopened)[:LONGEST]}"
