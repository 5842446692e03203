"""A small world for the services: Kafka, ledger and lake in memory, several workers, and the truth about every record.

What is visible is told by the producer's side (`World.visible`), never by the code under test.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.records import Advance, StreamRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.progress import Progress
from airflow_kafka_lake.core.reports.status import PipelineReport
from airflow_kafka_lake.core.reports.streams import GoneState, StreamState, StreamStatus, UnknownState
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import advance, planning, recovery, reopening, running, staging
from tests import truth
from tests.gates import Passing, gated
from tests.kit.clock import FakeClock
from tests.kit.memory_kafka import MemoryKafka
from tests.kit.memory_lake import MemoryLake, MemoryTable
from tests.kit.memory_lake.store import Commit
from tests.kit.memory_ledger import MemoryLedger
from tests.kit.memory_registry import MemoryRegistry
from tests.kit.memory_runner import MemoryRunner


def in_state(like: StreamStatus, partition: int, state: StreamState, *, lag: int = 0) -> StreamStatus:
    """Return the status of another partition in a state; `like` is one of which all has landed."""
    record, bounds = replace(like.record, key=like.key._replace(partition=partition)), like.bounds
    assert bounds is not None
    end = bounds.last_stable
    bounds = replace(bounds, stream=record.key, last_stable=end + lag, high_watermark=end + lag)
    ahead = RangeSet((OffsetRange(end, end + 1),))
    behind_it = replace(bounds, log_start=end + 1, last_stable=end + 1, high_watermark=end + 1)
    changes: dict[StreamState, dict[str, Any]] = {
        StreamState.BLOCKED: {"held": ahead},
        StreamState.LOST: {"bounds": behind_it},
        StreamState.UNKNOWN: {"bounds": None, "bounds_state": UnknownState("no answer")},
        StreamState.GONE: {"bounds": None, "bounds_state": GoneState("the topic was deleted")},
        StreamState.RUNNING: {"running": ahead},
        StreamState.WAITING: {"bounds": replace(bounds, high_watermark=end + 1)},
        StreamState.BEHIND: {} if lag else {"planned": ahead},
    }
    return replace(like, **{"record": record, "bounds": bounds, **changes.get(state, {})})


def with_progress(report: PipelineReport, progress: Progress) -> PipelineReport:
    """Return a report in which every attempt has told this of its work."""
    recorded = report.facts.recorded
    recorded = replace(recorded, attempts=[replace(item, progress=progress) for item in recorded.attempts])
    return replace(report, facts=replace(report.facts, recorded=recorded))


SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
FOLLOW = Bounds()
AFTER_THE_LEASE = timedelta(minutes=3)
LEDGER_ID = "1" * 32
STARTED = 1.0


class FakeProcesses:
    """`ports.Processes`: a process is dead when the world says so."""

    def __init__(self, pid: int, dead: set[int]) -> None:
        self._holder = LeaseHolder(host="alpha", pid=pid, started=STARTED)
        self._dead = dead

    def this(self) -> LeaseHolder:
        """Return this process."""
        return self._holder

    def dead(self, holder: LeaseHolder) -> bool:
        """Return whether the world has declared a holder dead, or another process of this host has its pid now."""
        if holder.host != self._holder.host:
            return False
        return holder.pid in self._dead or (holder.started, holder.boot) != (STARTED, None)


def read_again(
    ports: Ports, spec: PipelineSpec, stream: StreamRecord, interval: OffsetRange, **how: Any
) -> reopening.ReopenResult:
    """Decide a reopen, and carry it out."""
    return reopening.carry_out(ports, spec, reopening.prepare(ports, spec, stream, interval, **how))


class World:
    """Topic `orders` of one partition (or more), pipeline `orders`, and as many workers as a test wants."""

    def __init__(self, partitions: int = 1, spec: PipelineSpec = SPEC, *, clock: FakeClock | None = None) -> None:
        self.spec = spec
        self._identifier = spec.table_for("orders")
        self.clock = clock or FakeClock()
        self.kafka = MemoryKafka(now=self.clock.now)
        self.ledger = MemoryLedger(self.clock, ledger_id=LEDGER_ID)
        self.lake = MemoryLake(self.clock.now)
        self.runner = MemoryRunner(self.kafka, self.lake)
        self.schemas = MemoryRegistry()
        self.said: list[str] = []
        self.dead: set[int] = set()
        self.visible: dict[Stream, dict[int, bytes]] = defaultdict(dict)
        self.deleted: dict[Stream, set[int]] = defaultdict(set)
        self.watermarks: dict[Stream, int] = {}
        self.in_order: set[str] = set()
        self.judged: tuple[Commit | None, truth.Seen] | None = None
        self.right: tuple[truth.Seen, object, object] | None = None
        self.topic_ids: dict[str, str] = {}
        self._open: dict[str, list[tuple[Stream, int, bytes]]] = defaultdict(list)
        self._pids, self._plans, self._values = itertools.count(1), itertools.count(1), itertools.count(1)
        self.create("orders", partitions)

    @property
    def table(self) -> MemoryTable:
        """The table that the pipeline lands `orders` in."""
        return self.lake.table(self._identifier)

    # Kafka

    def create(self, topic: str, partitions: int = 1) -> str:
        """Create a topic, or create it anew; return its id."""
        self.topic_ids[topic] = self.kafka.create_topic(topic, partitions)
        return self.topic_ids[topic]

    def key(self, partition: int = 0, topic: str = "orders") -> Stream:
        """Return the stream of a partition of a topic as it is now."""
        return Stream(topic, self.topic_ids[topic], partition)

    def produce(
        self, count: int = 1, partition: int = 0, *, topic: str = "orders", transaction: str | None = None
    ) -> list[int]:
        """Append records with a value of their own each; a transaction stays open until `end`."""
        stream = self.key(partition, topic)
        offsets = []
        for _ in range(count):
            value = b"value %d" % next(self._values)
            offsets += self.kafka.produce(topic, partition, value, transaction=transaction)
            if transaction is None:
                self.visible[stream][offsets[-1]] = value
            else:
                self._open[transaction].append((stream, offsets[-1], value))
        return offsets

    def end(self, transaction: str, *, commit: bool = True) -> None:
        """Commit or abort a transaction."""
        self.kafka.end(transaction, commit=commit)
        for stream, offset, value in self._open.pop(transaction, []):
            if commit:
                self.visible[stream][offset] = value

    def retain_from(self, offset: int, partition: int = 0) -> None:
        """Let retention delete what lies below an offset."""
        self.kafka.log("orders", partition).delete_before(offset)

    # Workers

    def worker(self, passing: Passing | None = None) -> Ports:
        """Return the ports of one more process; `passing` is called with the name of every port call before it."""
        pid = next(self._pids)
        ports = Ports(
            ledger=self.ledger,
            source=self.kafka,
            batches=self.kafka,
            lake=self.lake,
            runner=self.runner,
            clock=self.clock,
            processes=FakeProcesses(pid, self.dead),
            actor=f"worker-{pid}",
            progress=self.said.append,
            group_sync=self.kafka,
            schemas=self.schemas,
        )
        return gated(ports, passing) if passing else ports

    def plan(self, bounds: Bounds = FOLLOW, *, worker: Ports | None = None, dry_run: bool = False) -> Plan:
        """Plan with the world's pipeline."""
        plan_id = f"p{next(self._plans)}"
        return planning.plan(worker or self.worker(), self.spec, bounds, plan_id=plan_id, dry_run=dry_run).plan

    def planned_wave(self, bounds: Bounds = FOLLOW) -> str:
        """Plan, and return the id of the one wave that came out."""
        (wave,) = self.plan(bounds).waves
        return wave.id

    def ingest(self, wave: str, worker: Ports | None = None) -> WaveRecord:
        """Bring one wave into the lake."""
        return landed(staging.ingest(worker or self.worker(), wave))

    def run(self, bounds: Bounds = FOLLOW, worker: Ports | None = None, *, everything: bool = False) -> running.Run:
        """Do the main job."""
        return running.run(worker or self.worker(), self.spec, bounds, everything=everything)

    def recover(self, worker: Ports | None = None) -> recovery.RecoveryResult:
        """Finish what was left."""
        return recovery.recover(worker or self.worker(), self.spec.name)

    def advance(self) -> tuple[Advance, ...]:
        """Move watermarks."""
        return advance.advance(self.worker(), self.spec.name)

    def reopen(
        self, start: int, end: int, partition: int = 0, *, worker: Ports | None = None, accept_fewer: bool = False
    ) -> reopening.ReopenResult:
        """Have a slice read again; watermarks may fall for it."""
        done = read_again(
            worker or self.worker(),
            self.spec,
            self.stream(partition),
            OffsetRange(start, end),
            reason="wrong",
            accept_fewer=accept_fewer,
        )
        self.watermarks.pop(self.key(partition), None)
        return done

    def lease_ends(self) -> None:
        """Let so much time pass that no lease is live, also where the clock was set back since it was given."""
        now = self.clock.now()
        left = [wave.lease_until - now for wave in self.ledger.waves(self.spec.name) if wave.lease_until]
        self.clock.advance(max([AFTER_THE_LEASE, *left]))

    def lose_ledger(self, ledger_id: str) -> None:
        """Go on with a ledger that nothing is on record in; workers that are at work keep the old one."""
        self.ledger = MemoryLedger(self.clock, ledger_id=ledger_id)

    def with_spec(self, **changes: object) -> None:
        """Change the pipeline's configuration."""
        self.spec = replace(self.spec, **changes)  # type: ignore[arg-type]
        self._identifier = self.spec.table_for("orders")

    # What there is

    def stream(self, partition: int = 0, topic: str = "orders") -> StreamRecord:
        """Return what the ledger has of a partition of a topic as it is now."""
        key = self.key(partition, topic)
        return next(item for item in self.ledger.streams(self.spec.name) if item.key == key)

    def offsets(self, partition: int = 0, topic: str = "orders") -> list[int]:
        """Return the offsets that a reader of the table sees, sorted, as often as it sees them."""
        key = self.key(partition, topic)
        return sorted(row.offset for row in self.table.rows() if (row.topic, row.topic_id, row.partition) == key)

    def check(self) -> None:
        """Hold ledger and lake against the truth, after everything that was begun has ended and watermarks moved."""
        truth.check_always(self)
        truth.check_at_rest(self)
