"""The cutover from what a pipeline has committed to what a live stream writes: nothing missing, nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.inputs import SHOWN, Finding, FindingKind
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.lake.accounting import EXPLAINED, Explanation
from airflow_kafka_lake.core.lake.positions import PositionColumns
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import NAMED, RangeSet
from airflow_kafka_lake.core.slices import Stream


def position_columns(text: str, topics: Sequence[str]) -> PositionColumns:
    """Read `topic=…,partition=…,offset=…`, each of which may be left out; `topic=` says that there is no such column,
    which needs a pipeline of one topic. Raises UsageError for anything else."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not equals or name not in {"topic", "partition", "offset"} or name in given:
            raise UsageError("cutover columns are given as topic=COLUMN,partition=COLUMN,offset=COLUMN")
        given[name] = column
    if given.get("topic") != "":
        return PositionColumns(**given)
    if len(topics) != 1:
        raise UsageError("a live table without a column for the topic needs a pipeline of one topic")
    return PositionColumns(**{**given, "topic": None}, only_topic=topics[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverQuestion:
    """One stream at its cutover, before Kafka is asked.

    `at`: the end of the unbroken committed run; `live_from`: the live stream's first row from there on; `pending`:
    planned and uncommitted offsets between them; `open`: unplanned offsets that neither table has, for Kafka to
    explain. Not `judged`: the live stream has not reached the cutover yet.
    """

    stream: Stream
    at: int
    live_from: int | None
    twice: RangeSet
    pending: RangeSet
    open: RangeSet
    judged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """One stream at its cutover."""

    question: CutoverQuestion
    missing: RangeSet = field(default_factory=RangeSet)

    @property
    def sound(self) -> bool:
        """Return whether nothing is missing, pending or twice."""
        return not (self.missing or self.question.pending or self.question.twice)

    def findings(self) -> Iterator[Finding]:
        """Name offsets that neither table has, and those that both have."""
        asked = self.question
        if self.missing:
            message = f"behind the cutover at {asked.at} neither table has what Kafka has at {named(self.missing)}"
            yield Finding(kind=FindingKind.CUTOVER_MISSING, stream=asked.stream, offsets=self.missing, message=message)
        if asked.pending:
            message = (
                f"behind the cutover at {asked.at} these are planned and not committed yet: {named(asked.pending)}"
            )
            yield Finding(kind=FindingKind.CUTOVER_MISSING, stream=asked.stream, offsets=asked.pending, message=message)
        if asked.twice:
            message = f"the live stream has rows at offsets that the pipeline has committed: {named(asked.twice)}"
            yield Finding(kind=FindingKind.CUTOVER_TWICE, stream=asked.stream, offsets=asked.twice, message=message)

    def to_json(self) -> dict[str, Any]:
        """Return the stream's entry in `audit --json` under `cutover`."""
        asked = self.question
        topic, topic_id, partition = asked.stream
        sets = {"missing": self.missing, "pending": asked.pending, "twice": asked.twice}
        return {
            "topic": topic,
            "topic_id": topic_id,
            "partition": partition,
            "at": asked.at,
            "live_from": asked.live_from,
            **{name: found.to_pairs()[:SHOWN] for name, found in sets.items()},
            **{f"{name}_span": found.span for name, found in sets.items()},
        }

    def line(self) -> str:
        """Return one line for people: where the cutover is, and its state."""
        asked = self.question
        live = "has no row from there on" if asked.live_from is None else f"begins at {asked.live_from}"
        state = (
            "nothing missing, nothing twice"
            if asked.judged
            else "nothing twice; there is nothing to judge behind it yet"
        )
        if not self.sound:
            state = (
                f"{self.missing.span:,} missing, {asked.pending.span:,} not committed yet, {asked.twice.span:,} in both"
            )
        return f"{asked.stream}: committed up to {asked.at}, the live stream {live}: {state}"


def ask(
    stream: Stream,
    origin: int,
    ranges: Iterable[RangeRecord],
    *,
    live: RangeSet,
    group_offset: int | None,
) -> CutoverQuestion:
    """Find a stream's cutover: from the end of the unbroken committed run to the live stream's first row.

    Without such a row, up to the live stream's group offset.
    """
    mine = tuple(ranges)
    covered = RangeSet(item.range for item in mine if item.state in RESOLVED)
    at = covered.unbroken_end(origin)
    live_from = next((max(item.start, at) for item in live if item.end > at), None)
    end = live_from if live_from is not None else max(at, group_offset or 0)
    between = RangeSet.between(at, end) - covered
    pending = between & RangeSet(item.range for item in mine if item.state in UNRESOLVED)
    committed = RangeSet(item.range for item in mine if item.state is RangeState.COMMITTED)
    return CutoverQuestion(
        stream=stream,
        at=at,
        live_from=live_from,
        twice=committed & live,
        pending=pending,
        open=between - pending,
        judged=live_from is not None or end > at,
    )


def judge(question: CutoverQuestion, explanations: Iterable[Explanation]) -> Cutover:
    """Return the cutover: open offsets that Kafka explains (markers, aborted and cleaned records) are not missing."""
    explained = RangeSet(item.range for item in explanations if item.fate in EXPLAINED)
    return Cutover(question=question, missing=question.open - explained)


def named(offsets: RangeSet) -> str:
    """Return a few slices by name, and how many offsets there are."""
    first = offsets.named(NAMED)
    more = ", …" if offsets.range_count > NAMED else ""
    return f"{first}{more} ({count(offsets.span, 'offset')})"
