"""Arms on workloads, interleaved: every round runs each arm once, and each second round runs them backwards.

So what changes slowly (a warmer disk, a busier neighbour) meets all of them alike, and ratios are taken within a round.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.arms import Arm, Place
from bench.broker import CountingKafka
from bench.content import Content
from bench.measuring import Cost, busy_cpu, measured, tree_cpu
from bench.workloads import Workload, content_of, fill

_FAILED_LINES, _FAILED_TEXT = 15, 1500
BROKER = {
    "log.retention.ms": "-1",  # records of other days stay
    "log.segment.delete.delay.ms": "1000",  # what a workload leaves makes room for the next
}

Turn = tuple[str, tuple[float, float], str, int]
"""Workload, scale, arm and round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One arm on one workload, once. A run with a `problem` has no time: what it did was not the work.

    `scale` is how many times the workload's records and partitions. `others_cpu_seconds` is what the machine did
    meanwhile for anybody else: a run beside much of that is no evidence.
    """

    workload: str
    arm: str
    start: str
    scale: tuple[float, float]
    round: int
    records: int
    bytes: int
    problem: str | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    broker_cpu_seconds: float | None = None
    others_cpu_seconds: float | None = None
    peak_mib: float | None = None
    bytes_at_rest: int | None = None
    files: int | None = None
    requests: int | None = None
    requests_by_kind: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    load_before: float = 0.0

    @property
    def turn(self) -> Turn:
        """Which of a race's runs this is."""
        return self.workload, self.scale, self.arm, self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What is run: the arms on each workload, `rounds` times after a round that warms up and is thrown away."""

    workloads: Sequence[Workload]
    arms: Sequence[Arm]
    rounds: int = 5
    warm_up: bool = True
    scales: Sequence[tuple[float, float]] = ((1.0, 1.0),)
    cores: int = 2
    heap: str = "2g"
    keep: Path | None = None
    """Where the folders of runs stay that have a problem."""

    def run(self, show: Callable[[str], None], done: Collection[Turn] = ()) -> Iterator[Run]:
        """Yield every run that counts and is not done yet, as soon as it is over."""
        with tempfile.TemporaryDirectory() as home, CountingKafka(Path(home), heap="1g", settings=BROKER) as broker:
            for workload in self.workloads:
                for scale in self.scales:
                    if turns := self.turns(workload, scale, done):
                        for run in self._on(broker, workload.scaled(*scale), turns, show=show):
                            yield replace(run, scale=scale)

    def turns(self, workload: Workload, scale: tuple[float, float], done: Collection[Turn]) -> list[tuple[int, Arm]]:
        """Return the rounds and arms that are left of a workload: none where only the warm-up would be."""
        arms = [arm for arm in self.arms if arm.fits(workload)]
        every = order(arms, self.rounds, warm_up=self.warm_up)
        left = [(number, arm) for number, arm in every if (workload.name, scale, arm.name, number) not in done]
        return left if any(number for number, _ in left) else []

    def _on(
        self,
        broker: CountingKafka,
        workload: Workload,
        turns: Sequence[tuple[int, Arm]],
        *,
        show: Callable[[str], None],
    ) -> Iterator[Run]:
        topics = workload.names(secrets.token_hex(3))
        show(f"{workload.name}: producing {workload.records:,} records, {workload.bytes / 1e6:,.0f} MB")
        fill(broker.bootstrap, workload, topics)
        expected = content_of(broker.bootstrap, workload, topics)
        for number, arm in turns:
            with self._place(broker, workload, topics) as place:
                run = _once(arm, place, expected, broker=broker)
                if run.problem and self.keep:
                    self.keep.mkdir(parents=True, exist_ok=True)
                    shutil.move(place.home, self.keep / f"{run.workload}-{run.arm}-{place.home.name}")
            shown = run.problem or f"{run.seconds:.1f} s, {run.cpu_seconds:.1f} CPU-s"
            show(f"{workload.name}, {arm.name}, {f'round {number}' if number else 'warm-up'}: {shown}")
            if number:
                yield replace(run, round=number)
        _delete(broker.bootstrap, topics)

    @contextmanager
    def _place(self, broker: CountingKafka, workload: Workload, topics: Sequence[str]) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-", ignore_cleanup_errors=True) as home:
            yield Place(
                home=Path(home),
                bootstrap=broker.bootstrap,
                login=broker.login,
                topics=topics,
                workload=workload,
                cores=self.cores,
                heap=self.heap,
            )


def order(arms: Sequence[Arm], rounds: int, *, warm_up: bool) -> Iterator[tuple[int, Arm]]:
    """Yield which arm runs when: round 0 warms up, each second round is backwards."""
    for number in range(0 if warm_up else 1, rounds + 1):
        for arm in arms if number % 2 else reversed(arms):
            if arm.most_repeats is None or 0 < number <= arm.most_repeats:
                yield number, arm


def _once(arm: Arm, place: Place, expected: Content, *, broker: CountingKafka) -> Run:
    load = os.getloadavg()[0]
    try:
        arm.prepare(place)
        with arm.around(place) as servers:
            command, environment = arm.command(place), arm.environment(place)
            before = broker.counted()
            begun = _Clocks.now(broker.pid, servers)
            cost = measured(command, env=environment, home=place.home)
            ended = _Clocks.now(broker.pid, servers)
            after = broker.counted()
            return judged(arm, place, expected, spent=Spent(cost, after - before, ended.since(begun), load))
    except Exception as error:  # noqa: BLE001  # one arm that cannot be run must not end hours of others
        problem = f"it could not be run: {type(error).__name__}: {str(error)[:_FAILED_TEXT]}"
        return Run(**_known(arm, place, load), problem=problem)


@dataclass(frozen=True, slots=True)
class _Clocks:
    """CPU seconds until a moment, of the broker, of an arm's servers, of the whole machine."""

    broker: float
    servers: float
    machine: float

    @classmethod
    def now(cls, broker: int, servers: Sequence[int]) -> _Clocks:
        return cls(tree_cpu(broker), sum(map(tree_cpu, servers)), busy_cpu())

    def since(self, before: _Clocks) -> _Clocks:
        return _Clocks(self.broker - before.broker, self.servers - before.servers, self.machine - before.machine)


@dataclass(frozen=True, slots=True)
class Spent:
    """All that one run has cost."""

    cost: Cost
    requests: Counter[str]
    clocks: _Clocks
    load: float


def judged(arm: Arm, place: Place, expected: Content, *, spent: Spent) -> Run:
    """Return the run with its numbers if its work is right, else with the problem alone."""
    cost, known = spent.cost, _known(arm, place, spent.load)
    if problem := _problem(arm, place, expected, cost=cost):
        return Run(**known, problem=problem)
    seconds, cpu = arm.counted(cost)
    sizes = arm.files(place)
    return Run(
        **known,
        seconds=seconds,
        cpu_seconds=cpu + spent.clocks.servers,
        broker_cpu_seconds=spent.clocks.broker,
        others_cpu_seconds=max(
            0.0, spent.clocks.machine - cost.cpu_seconds - spent.clocks.broker - spent.clocks.servers
        ),
        peak_mib=None if spent.clocks.servers else cost.peak_mib,
        bytes_at_rest=sum(sizes),
        files=len(sizes),
        requests=spent.requests.total(),
        requests_by_kind=dict(spent.requests.most_common()),
        phases={name: round(took, 3) for name, took in arm.phases(cost).items()},
    )


def _known(arm: Arm, place: Place, load: float) -> dict[str, Any]:
    """Return what is told of every run; scale and round are the race's."""
    return {
        "workload": place.workload.name,
        "arm": arm.name,
        "start": arm.start.value,
        "scale": (1.0, 1.0),
        "round": 0,
        "records": place.workload.records,
        "bytes": place.workload.bytes,
        "load_before": load,
    }


def _problem(arm: Arm, place: Place, expected: Content, *, cost: Cost) -> str | None:
    if cost.code:
        said = "\n".join(line for _, line in cost.lines[-_FAILED_LINES:])
        return f"it ended with {cost.code}: {said[-_FAILED_TEXT:]}"
    if cost.left:
        return f"it left processes behind: {', '.join(cost.left)}"
    try:
        return arm.problem(place, expected, cost)
    except Exception as error:  # noqa: BLE001  # whatever keeps the work from being compared, it has no time
        return f"what it left cannot be read: {type(error).__name__}: {str(error)[:500]}"


def _delete(bootstrap: str, topics: Sequence[str]) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})  # which must live until it has answered
    for future in admin.delete_topics(list(topics)).values():
        future.result(60)
