"""How a reopen is recorded: its slice is planned again, and what is beside it keeps its share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, Scope, Write, counted
from airflow_kafka_lake.core.ledger.leaving import dissolved
from airflow_kafka_lake.core.ledger.records import ReceiptRow, range_receipt
from airflow_kafka_lake.core.ledger.reopening import Cut, Reopening
from airflow_kafka_lake.core.ledger.rows import ConfigurationRow, PlanRow, SnapshotRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, AttemptRecord, RangeState, Token
from airflow_kafka_lake.core.slices import Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen(Write[int]):
    """Plan a slice again that was committed or skipped; answers with the stream's watermark, which falls to the slice's
    start where it was above: the only other move backwards is a rebuild's.

    Refused with ConcurrentError unless the stream has the version of `what`, and the ranges of its slice are its
    sources. Each range becomes its cuts; those read again are in new waves, of which the first has the token's attempt,
    already abandoned, so that the ledger `knows` the token. Puts into the outbox a `reopen` receipt for each reopened
    piece and a `published` one for each that stays committed of a range that was cut.
    """

    name: ClassVar[str] = "reopen"
    what: Reopening
    actor: str

    def scope(self) -> Scope:
        what = self.what
        return Scope(
            pipeline=what.pipeline,
            streams=(what.stream,),
            waves=sorted({item.wave for item in what.sources} | {*what.waves}),
            crossing=Slice(what.stream, what.interval),
            counts=True,
            attempts=True,
            plan_ids=(what.id,),
            configurations=True,
        )

    def decide(self, records: Records) -> Change[int]:
        what = self.what
        stream = self._stream(records)
        assert records.newest is not None
        watermark = max(stream.origin, min(stream.watermark, what.interval.start))
        changed = [
            Edit(before=cut.source if cut.record.id == cut.source.id else None, after=cut.record) for cut in what.cuts
        ]
        homes = {item.wave for item in what.sources if item.state is RangeState.CANCELLED}
        return Change(
            result=watermark,
            edits=(
                Edit(before=stream, after=replace(stream.decided, watermark=watermark)),
                *self._plan(records, records.newest),
                *(Edit(after=wave) for wave in self._waves()),
                Edit(after=self._moved_main(records)),
                *dissolved((records.waves[name] for name in sorted(homes)), counted(records, changed)),
                *changed,
            ),
            outbox=tuple(self._receipts(records)),
            entries=(
                Entry(
                    pipeline=what.pipeline,
                    actor=self.actor,
                    kind="reopen",
                    subject=what.id,
                    detail=history.reopened(what, stream.watermark, watermark),
                ),
            ),
        )

    def _stream(self, records: Records) -> StreamRow:
        """Return the stream; refuse when others have changed anything since the reopen was decided."""
        what, stream = self.what, records.streams.get(self.what.stream)
        if stream is None or stream.version != what.version or records.ranges != what.sources:
            raise guards.overtaken_reopen(what)
        if what.id in records.plans or {*what.waves} & records.waves.keys():
            raise guards.taken_id("plan", what.id)
        return stream

    def _plan(self, records: Records, newest: ConfigurationRow) -> Iterator[Edit]:
        what, now = self.what, records.now
        yield Edit(
            after=PlanRow(
                id=what.id,
                spec=newest.spec,
                version=newest.version,
                observed_at=now,
                recorded_at=now,
                actor=self.actor,
                detail={},
            )
        )
        seen = (what.interval.start, what.interval.end)
        yield Edit(after=SnapshotRow(plan=what.id, seen=what.seen, range=seen, reason=what.reason))

    def _waves(self) -> Iterator[WaveRow]:
        what, token = self.what, self.what.token
        for ordinal, name in enumerate(what.waves):
            fence = token.fence if name == token.wave else 0
            yield WaveRow(id=name, pipeline=what.pipeline, plan=what.id, ordinal=ordinal, table=what.table, fence=fence)

    def _moved_main(self, records: Records) -> AttemptRecord:
        token, now = self.what.token, records.now
        return AttemptRecord(
            wave=token.wave,
            fence=token.fence,
            attempt=token.attempt,
            holder=guards.REOPEN_HOLDER,
            outcome=AttemptOutcome.ABANDONED,
            error=guards.MOVED_MAIN.format(actor=self.actor),
            started_at=now,
            ended_at=now,
        )

    def _receipts(self, records: Records) -> Iterator[tuple[str, ReceiptRow]]:
        what, token = self.what, self.what.token
        brought = {item.wave: item for item in records.attempts if item.outcome is AttemptOutcome.COMMITTED}
        for cut in what.cuts:
            if cut.is_reopened:
                yield what.table, self._receipt("reopen", cut, token, records)
            elif cut.is_kept:
                attempt = brought[cut.source.wave]
                yield what.table, self._receipt("published", cut, attempt, records)

    @staticmethod
    def _receipt(kind: str, cut: Cut, by: Token | AttemptRecord, records: Records) -> ReceiptRow:
        return range_receipt(kind, cut.record, attempt=by.attempt, fence=by.fence, at=records.now)
