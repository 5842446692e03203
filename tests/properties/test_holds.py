"""Holds: however and in whatever order ranges of a partition end, the watermark stands at the first one that has not.

Every step is done by a process of its own: between any two of them everybody was restarted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.errors import HeldError, KafkaLakeError
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions
from tests import truth
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.properties.scheduler import Jobs, Worker
from tests.world import World

OFFSETS = 5
STALE_AT = ("runner.stage", "table.publish", "ledger.record_commit")
WAYS = ("ok", "cancelled", "cancelled at work", "cancelled by range", "failed", "died", "late", *STALE_AT)


@dataclass(slots=True)
class Partition:
    """One partition with one range, of one offset, per wave; the model is the set of offsets that were committed."""

    world: World = field(default_factory=World)
    waves: list[str] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    stale: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.produce(OFFSETS)
        self.waves = [self.world.planned_wave(Bounds(start=n, end=n + 1)) for n in range(OFFSETS)]

    def end(self, offset: int, way: str) -> None:
        """Let one range end, or stop, in some way."""
        world, wave = self.world, self.waves[offset]
        match way:
            case "ok":
                world.ingest(wave)
                self.committed.add(offset)
            case "cancelled":
                decisions.cancel(world.worker(), wave, "not now")
            case "cancelled by range":
                decisions.cancel(world.worker(), world.ledger.ranges(wave=wave)[0].id, "not now")
            case "cancelled at work":
                self._die(offset, "table.publish")
                decisions.cancel(world.worker(), wave, "not now")
            case "failed":
                world.runner.tamper = lambda rows: rows[1:]
                with pytest.raises(HeldError):
                    world.ingest(wave)
                world.runner.tamper = lambda rows: rows
            case "died":
                self._die(offset, "runner.stage")
            case "late":
                self._answer_late(offset)
            case _:
                self._cancel_under(offset, way)

    def _die(self, offset: int, call: str) -> None:
        with pytest.raises(KilledError):
            self.world.ingest(self.waves[offset], self.world.worker(Killed(call)))

    def _answer_late(self, offset: int) -> None:
        """Send a commit that does not arrive, die, and have the range cancelled; the commit arrives afterwards."""
        late = Before("table.publish", lambda: setattr(self.world.table, "next_answer", Answer.LATE))
        dead = Killed("table.find_commit", nth=3)

        def passing(call: str) -> None:
            dead(call)
            late(call)

        with pytest.raises(KilledError):
            self.world.ingest(self.waves[offset], self.world.worker(passing))
        decisions.cancel(self.world.worker(), self.waves[offset], "not now")
        self.world.table.land_late()

    def _cancel_under(self, offset: int, call: str) -> None:
        """Cancel what a worker is about to bring in; he wakes up later, with a fence that is old by then."""
        wave = self.waves[offset]
        worker = Worker(self.world, "ingest", lambda ports: self.world.ingest(wave, ports), Jobs())
        while worker.waits_at != call:
            worker.step()
        self.stale.append(worker)
        with suppress(KafkaLakeError):
            decisions.cancel(self.world.worker(), wave, "not now")
        if self.world.ledger.wave(wave).state is WaveState.COMMITTED:
            self.committed.add(offset)

    def wake(self) -> None:
        """Let everybody who was overtaken finish what he was about to do."""
        for worker in self.stale:
            while not worker.done:
                worker.step()
            assert isinstance(worker.error, KafkaLakeError), worker.error

    def look(self) -> None:
        """Hold ledger and lake against the model, in a process of its own."""
        self.world.advance()
        expected = next(offset for offset in range(OFFSETS + 1) if offset not in self.committed)
        stream = self.world.stream()
        assert (stream.watermark, stream.covered.span) == (expected, len(self.committed))
        assert self.world.offsets() == sorted(self.committed)
        truth.check_always(self.world)

    def repair(self) -> None:
        """Take every hold off, and run what is left."""
        read = len(self.world.runner.jobs)
        for item in self.world.ledger.ranges(pipeline="orders", states=UNRESOLVED - {RangeState.PLANNED}):
            decisions.release(self.world.worker(), item.id, None)
        self.world.lease_ends()
        assert self.world.run().exit_code == 0
        again = {s.range.start for job in self.world.runner.jobs[read:] for s in job.slices}
        assert again == set(range(OFFSETS)) - self.committed, "only what was not committed is read again"
        self.committed = set(range(OFFSETS))


@given(order=st.permutations(range(OFFSETS)), ways=st.lists(st.sampled_from(WAYS), min_size=OFFSETS, max_size=OFFSETS))
def test_watermark_stands_at_the_first_hold_whatever_the_order(order: list[int], ways: list[str]) -> None:
    """Cancelled, failed and lost ranges hold it, later successes are kept, and a retry of just those lets it jump."""
    partition = Partition()
    for offset, way in zip(order, ways, strict=True):
        partition.end(offset, way)
        partition.look()
    partition.wake()
    partition.look()
    partition.repair()
    partition.look()
    partition.world.check()


def test_the_trace_of_one_partition() -> None:
    """9 ok, 10 cancelled, 11 and 12 ok: 10. 13 ok: still 10. Only 10 again: 14, and every offset is there once."""
    world = World()
    world.produce(14)
    world.run(Bounds(start=0, end=9))
    waves = {n: world.planned_wave(Bounds(start=n, end=n + 1)) for n in range(9, 14)}

    def watermark() -> int:
        world.advance()
        return world.stream().watermark

    world.ingest(waves[9])
    decisions.cancel(world.worker(), waves[10], "poison")
    world.ingest(waves[11])
    world.ingest(waves[12])
    assert watermark() == 10
    world.ingest(waves[13])
    assert watermark() == 10
    jobs = len(world.runner.jobs)
    decisions.release(world.worker(), waves[10], None)
    assert world.run().exit_code == 0
    assert [str(s.range) for job in world.runner.jobs[jobs:] for s in job.slices] == ["10-11"]
    assert watermark() == 14
    world.check()
    assert world.offsets() == list(range(14))
