"""Record a commit: what a wave brought is in the lake, and every offset of it is accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Change, Edit, Records, Scope, abandoned
from airflow_kafka_lake.core.ledger.records import RangeRecord, range_receipt
from airflow_kafka_lake.core.ledger.waves import WAVE_TRANSITIONS, Act, AttemptKey, RangeState


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCommit(AttemptWrite[None]):
    """Wave → COMMITTED, its PLANNED ranges → COMMITTED with their receipts' numbers.

    `attempt` is the one whose commit is in the lake: `key.attempt`, or an earlier one that is adopted. The other
    attempts end. Puts one `published` receipt per range into the outbox. Refused with ValueError unless the receipts
    are exactly the wave's PLANNED ranges, and each accounting is complete with 0 unexplained.
    """

    name: ClassVar[str] = "record_commit"
    key: AttemptKey
    attempt: str
    snapshot: int | None
    receipts: Sequence[Receipt]

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), attempts=True, planned=True)

    def decide(self, records: Records) -> Change[None]:
        transition = WAVE_TRANSITIONS[Act.COMMIT]
        wave = self.held(records, transition)
        brought = next((item for item in records.attempts if item.attempt == self.attempt), None)
        if brought is None:
            raise ValueError(f"attempt {self.attempt} is none of wave {wave.id}")
        guards.check_receipts(records.ranges, self.receipts)
        given = {item.range_id: item for item in self.receipts}
        committed = [_committed(item, given[item.id]) for item in records.ranges]
        done = replace(wave.free(transition[1]), snapshot=self.snapshot, committed_at=records.now)
        others = [edit for edit in abandoned(records, wave.id, guards.ENDED_BY_RECOVER) if edit.before != brought]
        return Change(
            result=None,
            edits=(
                Edit(before=wave, after=done),
                Edit(before=brought, after=brought.committed(records.now)),
                *others,
                *(Edit(before=before, after=after) for before, after in zip(records.ranges, committed, strict=True)),
            ),
            outbox=tuple(
                (
                    wave.table,
                    range_receipt("published", item, attempt=self.attempt, fence=brought.fence, at=records.now),
                )
                for item in committed
            ),
            entries=(self.entry(wave, "commit", history.committed(self.attempt, self.receipts)),),
        )


def _committed(item: RangeRecord, receipt: Receipt) -> RangeRecord:
    return replace(
        item,
        state=RangeState.COMMITTED,
        rows=receipt.rows,
        first_offset=receipt.first_offset,
        last_offset=receipt.last_offset,
        accounting=receipt.accounting,
    )
