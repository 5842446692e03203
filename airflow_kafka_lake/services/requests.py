"""What a worker does: bring into the lake what tasks have asked for, wave after wave, as long as it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    KafkaLakeError,
    LedgerSchemaError,
    LimitReachedError,
    NotWantedError,
    StaleFenceError,
    TransientError,
    expected,
    worst,
)
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.requests import AnswerRequests, RequestRecord, is_wanted, next_request
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.ports import Clock, Ledger, Ports, Processes
from airflow_kafka_lake.services.advance import Advances
from airflow_kafka_lake.services.recovery import clean_up
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.services.staging import ingest

POLL_SECONDS = 3.0

PortsFor = Callable[[RequestRecord], AbstractContextManager[Ports]]
"""Opens the ports of the pipeline whose wave is asked for."""


def bring(ports: Ports, request: RequestRecord) -> WaveRecord:
    """Bring a wave that is asked for into the lake, and advance.

    Raises what `ingest` raises; NotWantedError once no request of the wave holds any more: its attempt has ended then,
    and so has its Spark driver.
    """
    asking = replace(ports, wanted=partial(_require_wanted, ports))
    record = ingest(asking, request.wave, bytes_per_second=request.bytes_per_second)
    Advances(ports, known_spec(ports.ledger, request.pipeline)).after_wave()
    clean_up(ports, record)
    return record


def _require_wanted(ports: Ports, wave: str) -> None:
    ports.wanted(wave)
    if not is_wanted(ports.ledger.requests(wave)):
        raise NotWantedError(
            f"Wave {wave} is not wanted any more: the task that asked for it has ended, or no triggerer has renewed "
            "its request. Its work is ended, nothing of it is visible, and it can be asked for again",
            wave=wave,
        )


@dataclass(slots=True, kw_only=True)
class Serving:
    """One worker: it takes the first wave that is asked for and that no living process has, one after another.

    Which worker brings a wave is decided by the claim, and so are pauses, limits and the order of records. An error
    that ends a wave is the answer to the tasks that asked for it. A wave that another process has is left to it, and
    its turn comes again when all others had theirs or one has landed. `waves`, `rows` and `problems` count what was
    done.
    """

    ledger: Ledger
    clock: Clock
    processes: Processes
    opened: PortsFor
    progress: Callable[[str], None]
    actor: str
    pipelines: Collection[str] = ()
    is_ending: Callable[[], bool] = lambda: False
    alive: Callable[[], None] = lambda: None
    waves: int = 0
    rows: int = 0
    problems: int = 0
    _left: set[str] = field(default_factory=set)
    _failed: dict[str, int] = field(default_factory=dict)

    def exit_code(self) -> int:
        """Return the exit code of the waves that ended in an error and are not in the lake, as the ledger has them now:
        another process may have landed one."""
        failed = self._failed.items()
        return worst({code for wave, code in failed if self.ledger.wave(wave).state is not WaveState.COMMITTED})

    def run(self, *, until_idle: bool = False) -> None:
        """Work until `is_ending`, or until nothing is asked for that could be taken.

        A ledger that does not answer is asked again; `until_idle` raises what keeps it from answering: it is not known
        then that nothing is asked for.
        """
        while not self.is_ending():
            self.alive()
            try:
                request = self._next()
            except TransientError as error:
                if until_idle:
                    raise
                self.progress(f"not known what is asked for: {error.message}")
                request = None
            if request is None and until_idle:
                return
            if request is None or not self._serve(request):
                self.clock.sleep(POLL_SECONDS)

    def _next(self) -> RequestRecord | None:
        requests = self.ledger.requests()
        others = [item for item in requests if item.wave not in self._left]
        for left in (others, requests):
            if found := next_request(left, pipelines=self.pipelines, dead=self.processes.dead):
                return found
            self._left.clear()
        return None

    def _serve(self, request: RequestRecord) -> bool:
        """Return whether the wave has landed."""
        try:
            self.progress(f"wave {request.wave} of pipeline {request.pipeline}, asked for by {request.actor}")
            with self.opened(request) as ports:
                record = bring(ports, request)
        except LimitReachedError as full:
            self._answer(request, full)
        except (ConcurrentError, StaleFenceError, NotWantedError) as left:
            self._left.add(request.wave)
            self.progress(left.message)
        except LedgerSchemaError:
            raise  # this process can record nothing more: one of the version that the ledger is of takes its place
        except Exception as error:  # noqa: BLE001  # whatever it is, the worker goes on, and the task is told
            self._answer(request, expected(error, f"wave {request.wave}", wave=request.wave))
        else:
            self._left.clear()
            self.waves += 1
            self.rows += record.rows or 0
            return True
        return False

    def _answer(self, request: RequestRecord, problem: KafkaLakeError) -> None:
        """Record an error as the answer; where that fails too, the wave is tried again."""
        self.problems += 1
        self._failed[request.wave] = problem.exit_code
        self.progress(f"wave {request.wave}: {problem}")
        try:
            self.ledger.commit(AnswerRequests(wave=request.wave, error=problem, actor=self.actor))
        except KafkaLakeError as error:
            self.progress(f"the answer could not be recorded: {error.message}")
