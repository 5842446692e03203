"""What every ledger compares before it writes a change, whatever decided it: the row is as it was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import (
    Change,
    Edit,
    Entry,
    Records,
    Row,
    Write,
    WriteScope,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.ports import Ledger, LedgerReader
from tests.contracts.ledger_world import SPEC, claimed, committed, key_of, planned

Read = Callable[[Records], Row]


class FromOther(Write[None]):
    """A change that was decided from a row which is not the one on record."""

    name = "from other"
    wave: str
    read: Read
    removes: bool = False

    def scope(self) -> WriteScope:
        """All kinds of rows."""
        return WriteScope(pipeline=SPEC.name, streams=(key_of(),), waves=(self.wave,), attempts=True, planned=True)

    def decide(self, records: Records) -> Change[None]:
        """Change the one row, and a second that is as it was read."""
        row, wave = self.read(records), records.wave(self.wave)
        changed = {"end_seen": 77} if hasattr(row, "end_seen") else {}
        changed |= {"job": "other"} if hasattr(row, "job") else {}
        changed |= {"snapshot": 77} if hasattr(row, "snapshot") else {}
        changed |= {"reason": "other"} if hasattr(row, "reason") else {}
        edits = [Edit(before=row, after=None if self.removes else replace(row, **changed))]
        if row != wave and not hasattr(row, "lease_until"):
            edits.append(Edit(before=wave, after=replace(wave, snapshot=78)))
        entry = Entry(pipeline=SPEC.name, actor="t", kind="other", subject="other", detail="other")
        return Change(result=None, edits=tuple(edits), entries=(entry,))


AS_READ: dict[str, Read] = {
    "stream": lambda records: records.streams[key_of()],
    "wave": lambda records: next(iter(records.waves.values())),
    "attempt": lambda records: records.attempts[0],
    "range": lambda records: records.ranges[0],
}
OTHERS: dict[str, Read] = {
    "version of a stream": lambda records: replace(records.streams[key_of()], version=9),
    "fence of a wave": lambda records: replace(next(iter(records.waves.values())), fence=9),
    "attempt of a wave": lambda records: replace(next(iter(records.waves.values())), attempt="f" * 16),
    "state of a wave": lambda records: replace(next(iter(records.waves.values())), state=WaveState.STAGED),
    "outcome of an attempt": lambda records: replace(records.attempts[0], outcome=AttemptOutcome.FAILED),
    "fence of an attempt": lambda records: replace(records.attempts[0], fence=9),
    "state of a range": lambda records: replace(records.ranges[0], state=RangeState.HELD),
    "start of a range": lambda records: replace(
        records.ranges[0], slice=records.ranges[0].slice.part(OffsetRange(1, 10))
    ),
    "end of a range": lambda records: replace(records.ranges[0], slice=records.ranges[0].slice.part(OffsetRange(0, 9))),
}


def everything(ledger: Ledger) -> object:
    """Return all that is on record."""
    return (
        ledger.streams(SPEC.name),
        ledger.waves(SPEC.name),
        ledger.ranges(pipeline=SPEC.name),
        ledger.attempts(pipeline=SPEC.name),
        ledger.events(SPEC.name),
    )


@pytest.mark.parametrize("other", OTHERS)
def test_change_of_a_row_that_is_not_as_it_was_read_writes_nothing(ledger: Ledger, other: str) -> None:
    """Neither that row nor any other of the change."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    claimed(ledger, wave)
    before = everything(ledger)
    with pytest.raises(ConcurrentError, match="another writer"):
        ledger.commit(FromOther(wave=wave, read=OTHERS[other]))
    assert everything(ledger) == before


@pytest.mark.parametrize("other", ["state of a range", "start of a range", "end of a range"])
def test_row_that_is_not_as_it_was_read_is_not_removed(ledger: Ledger, other: str) -> None:
    """The same for what goes from the record."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    claimed(ledger, wave)
    before = everything(ledger)
    with pytest.raises(ConcurrentError, match="another writer"):
        ledger.commit(FromOther(wave=wave, read=OTHERS[other], removes=True))
    assert everything(ledger) == before


@pytest.mark.parametrize("kind", AS_READ)
def test_change_of_a_row_that_is_as_it_was_read_is_written(ledger: Ledger, kind: str) -> None:
    """The same writes, so that the refusals above are about the one difference."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    claimed(ledger, wave)
    before = everything(ledger)
    ledger.commit(FromOther(wave=wave, read=AS_READ[kind]))
    assert everything(ledger) != before
    assert ledger.events(SPEC.name)[-1].kind == "other"


def test_reads_at_once_are_of_one_moment(ledger: Ledger) -> None:
    """A wave that is claimed and staged in between is for all of them as it was, and is not at the next moment."""
    (wave,) = planned(ledger, [(0, 0, 10)])

    def look(moment: LedgerReader) -> tuple[object, ...]:
        before = moment.ledger_id(), moment.waves("orders"), moment.ranges(pipeline="orders"), moment.streams("orders")
        committed(ledger, wave)
        assert ledger.wave(wave).state is WaveState.COMMITTED
        assert moment.wave(wave).state is WaveState.PLANNED
        after = moment.ledger_id(), moment.waves("orders"), moment.ranges(pipeline="orders"), moment.streams("orders")
        assert before == after
        assert not moment.attempts(pipeline="orders")
        return after

    assert len(ledger.at_once(look)) == 4
    assert ledger.at_once(lambda moment: moment.wave(wave).state) is WaveState.COMMITTED
