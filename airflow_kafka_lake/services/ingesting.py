"""The waves of a run: which it takes, and one after another into the lake."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_kafka_lake.core.errors import (
    GateClosedError,
    KafkaLakeError,
    LimitReachedError,
    PausedError,
    expected,
)
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import UNFINISHED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.work import Choice, choose
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.advance import Advances
from airflow_kafka_lake.services.recovery import clean_up
from airflow_kafka_lake.services.staging import ingest
from airflow_kafka_lake.services.watching import Places


def chosen(ports: Ports, pipeline: str, plan: Plan | None) -> Choice:
    """Choose the unfinished waves that have offsets a plan was asked for; without a plan, all of them."""
    waves = ports.ledger.waves(pipeline, UNFINISHED)
    if not waves:
        return Choice()
    asked = None
    if plan is not None:
        streams = [item for item in plan.streams if item.start < item.end]
        asked = {item.snapshot.stream: OffsetRange(item.start, item.end) for item in streams}
    return choose(waves, ports.ledger.ranges(pipeline=pipeline, states=(RangeState.PLANNED,)), asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """How much one run may do: begin so many `waves`, and read so many `bytes_per_second`; None: as the pipeline has
    it."""

    waves: int | None = None
    bytes_per_second: int | None = None


@dataclass(slots=True, kw_only=True)
class Ingesting:
    """The waves of one run, each of them once, also those that are split from others meanwhile.

    Watermarks advance after each. Waves that wait for their turn are tried again as long as other waves come to an end.
    Those of a paused plan are left, and all that are left when the pipeline is paused, or has as many waves at work as
    it allows at once.
    """

    ports: Ports
    advances: Advances
    scope: Plan | None = None
    most: Most = field(default_factory=Most)
    finished: list[WaveRecord] = field(default_factory=list)
    _problems: list[KafkaLakeError] = field(default_factory=list)
    _waiting: dict[str, GateClosedError] = field(default_factory=dict)
    _refused: dict[object, PausedError | LimitReachedError] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _begun: int = 0
    _places: Places = field(init=False)
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        self._places = Places(self.ports)

    @property
    def problems(self) -> tuple[KafkaLakeError, ...]:
        """The errors of waves, in wave order; of a pause or a limit one, however many waves it kept."""
        waiting = (error for wave, error in self._waiting.items() if wave not in self._ended)
        return (*self._problems, *self._refused.values(), *waiting)

    def choice(self) -> Choice:
        """Return what the run takes that it has not tried yet, and what it leaves."""
        found = chosen(self.ports, self.advances.spec.name, self.scope)
        most = None if self.most.waves is None else self.most.waves - self._begun
        return found.without(self._ended).only(most)

    def run(self) -> None:
        """Ingest until nothing of the choice is left to try."""
        before = -1
        while before < len(self._ended) and not self._is_stopped:
            before = len(self._ended)
            for work in self._places.of(self.choice().taken):
                self._ingest(work.wave)
                if self._is_stopped:
                    return

    def _ingest(self, wave: str) -> None:
        try:
            ports = self._places.at(wave, self._ended)
            self.finished.append(ingest(ports, wave, bytes_per_second=self.most.bytes_per_second))
            self.advances.after_wave()
            clean_up(self.ports, self.finished[-1])
        except GateClosedError as error:
            self._waiting[wave] = error
            return
        except (PausedError, LimitReachedError) as error:
            plan = error.facts.get("plan")
            self._refused.setdefault(plan, error)
            self._is_stopped = plan is None
            self._ended.add(wave)
            return
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problem = expected(error, f"wave {wave}", wave=wave)
            # The rest, such as a job's last words, is with the problems at the end.
            self.ports.progress(f"wave {wave}: {str(problem).partition(chr(10))[0]}")
            self._problems.append(problem)
        self._ended.add(wave)
        self._begun += 1
