"""A deterministic scheduler: every worker is a coroutine that waits at each port call; one at a time is let go."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from greenlet import getcurrent, greenlet

from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import StageJob, Tip
from airflow_kafka_lake.ports import JobRunner, Ports
from tests.gates import KilledError
from tests.world import World

Action = Callable[[Ports], object]


class Jobs:
    """Who runs which job, and which jobs have outlived the worker that started them, by job reference."""

    def __init__(self) -> None:
        self.owners: dict[str, int] = {}
        self.orphans: dict[str, StageJob] = {}


class OrphaningRunner:
    """One worker's job runner: a job goes on when its worker is killed, until another one ends it or lets it finish."""

    def __init__(self, runner: JobRunner, jobs: Jobs, pid: int, dead: set[int], passing: Callable[[str], None]) -> None:
        self._runner = runner
        self._passing = passing
        self._jobs = jobs
        self._pid = pid
        self._dead = dead
        self._reference = ""

    def where(self) -> str:
        """Return where jobs run."""
        return self._runner.where()

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        """Run the job, and let others go on while it reads; one whose worker is killed meanwhile is an orphan."""

        def noted(reference: str) -> None:
            self._reference = reference
            self._jobs.owners[reference] = self._pid
            started(reference)

        def amid(so_far: Counters) -> None:
            self._passing("job.read")
            counted(so_far)

        try:
            self._runner.stage(job, started=noted, heartbeat=heartbeat, counted=amid, read=read)
        except KilledError:
            self._jobs.orphans[self._reference] = job
            raise

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End a dead worker's job; to end a living worker's is a mistake."""
        if job is None:
            return False
        assert name.startswith("kafka-lake orders ")
        assert self._jobs.owners[job] in self._dead, f"{job} has a living worker"
        return self._jobs.orphans.pop(job, None) is not None


class Worker:
    """One action of one process. `waits_at` names the call it would make next; `error` is what it ended with."""

    def __init__(self, world: World, name: str, action: Action, jobs: Jobs) -> None:
        self.name = name
        self.waits_at = "start"
        self.done = False
        self.error: BaseException | None = None
        self._action = action
        self._killed = False
        self._work = greenlet(self._do)
        ports = world.worker(self._pass)
        self.pid = ports.processes.this().pid
        self._ports = replace(ports, runner=OrphaningRunner(ports.runner, jobs, self.pid, world.dead, self._pass))

    def step(self) -> None:
        """Let the worker make the call it waits at, and wait until it waits again or is done."""
        if not self.done:
            self._work.parent = getcurrent()
            self._work.switch()

    def kill(self) -> None:
        """End the process where it stands."""
        self._killed = True
        self.step()

    def _pass(self, call: str) -> None:
        if not self._killed:
            self.waits_at = call
            self._let_others()
        if self._killed:
            raise KilledError

    def _let_others(self) -> None:
        parent = self._work.parent
        assert parent is not None
        parent.switch()

    def _do(self) -> None:
        try:
            if not self._killed:
                self._action(self._ports)
        except BaseException as error:  # noqa: BLE001 - the test judges it
            self.error = error
        self.done = True


@contextmanager
def counted_ids() -> Iterator[None]:
    """Let ids be numbers in their order, so that the same schedule is the same history."""
    real, numbers = secrets.token_hex, itertools.count(1)
    secrets.token_hex = lambda size=None: f"{next(numbers):0{2 * (size or 32)}x}"
    try:
        yield
    finally:
        secrets.token_hex = real
