"""Runs: the waves that a run takes, one after another into the lake; and the worker that does it for tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    KafkaLakeError,
    LedgerSchemaError,
    NotWantedError,
    PausedError,
    TransientError,
    UnfinishedError,
    UnknownSubjectError,
    expected,
    worst,
)
from airflow_kafka_lake.core.kafka.snapshots import hanging_error
from airflow_kafka_lake.core.ledger.guards import Postponement, WaitReason, outcome_of
from airflow_kafka_lake.core.ledger.moves import joined
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord, explained
from airflow_kafka_lake.core.ledger.requests import AnswerRequests, RequestRecord, is_wanted, next_request
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNFINISHED, UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import WaveChoice, Work, choose
from airflow_kafka_lake.core.reports.plan import waiting_of
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Clock, Ledger, Ports, Processes
from airflow_kafka_lake.services.advance import Advances, SyncedGroup
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.planning import plan_after_others
from airflow_kafka_lake.services.recovery import clean_up, recover
from airflow_kafka_lake.services.reporting import wave as reported
from airflow_kafka_lake.services.staging import ingest
from airflow_kafka_lake.services.watching import Places

# One wave into the lake: for a run, a command, a task, a worker.


def land(
    ports: Ports,
    wave: str,
    *,
    advances: Advances | None = None,
    bytes_per_second: int | None = None,
    during: AbstractContextManager[object] | None = None,
) -> WaveRecord | Postponement:
    """Ingest a wave, inside of `during`; then advance the watermarks and drop the branches of earlier attempts, whose
    errors do not fail the wave. Raises the errors of `ingest`."""
    with during or nullcontext():
        outcome = ingest(ports, wave, bytes_per_second=bytes_per_second)
    if not isinstance(outcome, Postponement):
        if advances is not None:
            advances.after_wave()
        clean_up(ports, outcome)
    return outcome


# The waves of a run: which it takes, and one after another into the lake.


def chosen(ports: Ports, pipeline: str, plan: Plan | None) -> WaveChoice:
    """Choose the unfinished waves that have offsets a plan was asked for; without a plan, all of them. Those of paused
    plans are the last: none takes the place of one that can go on."""
    waves = ports.ledger.waves(pipeline, UNFINISHED)
    if not waves:
        return WaveChoice()
    known = ports.ledger.pipeline(pipeline)
    paused = {item.plan for item in known.pauses} if known else set()
    asked = None
    if plan is not None:
        streams = [item for item in plan.streams if item.start < item.end]
        asked = {item.snapshot.stream: OffsetRange(item.start, item.end) for item in streams}
    planned = ports.ledger.ranges(pipeline=pipeline, states=(RangeState.PLANNED,))
    return choose(sorted(waves, key=lambda wave: wave.plan in paused), planned, asked)


@dataclass(slots=True, kw_only=True)
class RunWaves:
    """The waves of one run, each of them once, also waves that are split from others meanwhile.

    Watermarks advance after each. Waves that wait for their turn are tried again as long as other waves come to an end.
    Waves of a paused plan are passed over. The run ends where the pipeline is paused, or has as many waves at work as
    it allows at once.
    """

    ports: Ports
    advances: Advances
    scope: Plan | None = None
    max_waves: int | None = None
    bytes_per_second: int | None = None
    finished: list[WaveRecord] = field(default_factory=list)
    _problems: list[KafkaLakeError] = field(default_factory=list)
    _waiting: dict[str, KafkaLakeError] = field(default_factory=dict)
    _refused: dict[object, KafkaLakeError] = field(default_factory=dict)
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

    def choice(self) -> WaveChoice:
        """Return the waves that the run takes and has not tried yet, and the ones that it leaves."""
        found = chosen(self.ports, self.advances.spec.name, self.scope)
        return found.without(self._ended).only(None if self.max_waves is None else self.max_waves - self._begun)

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
        ports, rate = self._places.at(wave, self._ended), self.bytes_per_second
        outcome: WaveRecord | Postponement | KafkaLakeError
        try:
            outcome = land(ports, wave, advances=self.advances, bytes_per_second=rate)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            outcome = expected(error, f"wave {wave}", wave=wave)
        match outcome:
            case Postponement(reason=WaitReason.TURN):
                # It may wait for another wave of this run: once that has landed it is tried again.
                self._waiting[wave] = outcome.refusal
                return
            case Postponement(reason=WaitReason.RESUME | WaitReason.LIMIT):
                plan = outcome.refusal.facts.get("plan")
                self._refused.setdefault(plan, outcome.refusal)
                # A pause of the pipeline, and its limit, keep every wave; a pause of a plan keeps that plan's alone.
                self._is_stopped = plan is None
                self._ended.add(wave)
                return
            case WaveRecord():
                self.finished.append(outcome)
            case _:
                problem = outcome.refusal if isinstance(outcome, Postponement) else outcome
                # The rest, such as a job's last words, is with the problems at the end.
                self.ports.progress(f"wave {wave}: {problem.headline}")
                self._problems.append(problem)
        self._ended.add(wave)
        self._begun += 1


# A run without Airflow: recover, plan, ingest every wave that may start, advance after each.


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The outcome of a run. `problems` are the errors of waves, in wave order, and of hanging transactions; `left` are
    the unfinished waves that it was not asked for; `moves` has one move of each stream, however many waves moved it;
    `group` has the watermarks that its group was told, `decoding` the remarks on the values of each wave."""

    pipeline: str
    plan: Plan | None
    waves: tuple[WaveRecord, ...]
    moves: tuple[Advance, ...]
    held: tuple[str, ...]
    problems: tuple[KafkaLakeError, ...]
    group: SyncedGroup | None = None
    left: tuple[Work, ...] = ()
    decoding: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows that have landed."""
        return sum(item.rows or 0 for item in self.waves)

    def to_json(self) -> dict[str, Any]:
        """Return `run --json`."""
        plan = self.plan
        return {
            "pipeline": self.pipeline,
            "plan": plan.id if plan and plan.waves else None,
            "period": plan.period.to_json() if plan and plan.period else None,
            "waves": [
                {"wave": item.id, "state": item.state.value, "rows": item.rows, "decoding": self.decoding.get(item.id)}
                for item in self.waves
            ],
            "left": [item.to_json() for item in self.left],
            "rows": self.rows,
            "advanced": [move.to_json() for move in self.moves],
            "group_sync": self.group and self.group.to_json(),
            "in_grace": [item.to_json() for item in plan.layout_change.in_grace] if plan else [],
            "waiting_for_stable": [item.to_json() for item in waiting_of(plan)] if plan else [],
            "notes": list(plan.notes) if plan else [],
            "held": list(self.held),
            "problems": [problem.to_json() for problem in self.problems],
        }

    @property
    def exit_code(self) -> int:
        """0 done; 1 something needs a person; 3 worth repeating, or in the layout grace; 4 an outcome is unknown."""
        codes = {problem.exit_code for problem in self.problems} | ({1} if self.held else set())
        codes |= {3} if self.plan and self.plan.layout_change.in_grace else set()
        return worst(codes)


def run(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    *,
    everything: bool = False,
    max_waves: int | None = None,
    bytes_per_second: int | None = None,
) -> Run:
    """Bring everything that is missing into the lake; a wave that fails does not stop the others.

    Nothing is planned or begun while the pipeline is paused: that is a problem of the run, which lists the waves of
    before. With bounds only these offsets, and of earlier plans the unfinished waves that have some of them; all of
    them with `everything`. `max_waves` are begun at most; None: as many as there are. `bytes_per_second` is read
    instead of the pipeline's rate. Every wave that is taken or left is named first.
    """
    bounded = bounds.is_bounded and not everything
    if ports.ledger.pipeline(spec.name) is not None:
        try:
            # A commit that a killed run has left unrecorded: found now, its offsets are not planned again.
            recover(ports, spec.name)
        except Exception as error:  # noqa: BLE001  # a problem of an open wave comes up again when it is ingested
            ports.progress(f"not everything could be committed: {expected(error, 'recovering open waves')}")
    problems: list[KafkaLakeError] = []
    decided: Plan | None = None
    try:
        decided = plan_after_others(ports, spec, bounds, timeout=spec.timeout).plan
    except (ConcurrentError, PausedError) as error:
        if bounded and isinstance(error, ConcurrentError):
            raise  # the offsets asked for are not known
        problems.append(error)
    advances = Advances(ports, spec)
    scope = decided if bounded else None
    work = RunWaves(ports=ports, advances=advances, scope=scope, max_waves=max_waves, bytes_per_second=bytes_per_second)
    if not any(isinstance(problem, PausedError) for problem in problems):
        for line in work.choice().describe(decided.id if decided else None):
            ports.progress(line)
        work.run()
        problems += work.problems
    if decided and decided.hanging:
        problems.append(hanging_error(decided.hanging, decided.observed_at))
    advances.at_end()
    return Run(
        pipeline=spec.name,
        plan=decided,
        waves=tuple(work.finished),
        moves=joined(advances.moves),
        held=describe_blocked(ports, spec.name, decided),
        problems=tuple(problems),
        group=advances.group,
        left=work.choice().left,
        decoding={item.id: reported(ports.ledger, item.id).decoding for item in work.finished if spec.decoding},
    )


def describe_blocked(ports: Ports, pipeline: str, decided: Plan | None = None) -> tuple[str, ...]:
    """Return the tasks of a person: held and cancelled ranges, and the slices that a plan had to leave out."""
    stuck = ports.ledger.ranges(pipeline=pipeline, states=(RangeState.HELD, RangeState.CANCELLED))
    lines = [f"{item.stream} {item.range} {item.state.lower()}: {explained(item)}" for item in stuck]
    lines += [f"{item.where}: {item.reason}" for item in (decided.blocked if decided else ())]
    return tuple(lines)


def finish_plan(
    ports: Ports, pipeline: str, plan_id: str, *, leaving: Collection[str] = (), later: Collection[str] = ()
) -> None:
    """Raise while ranges of a plan are unresolved, naming the first of them; the waves in `leaving` were not asked for,
    and for those in `later` the run had no room.

    Raises UnknownSubjectError for a plan that the ledger does not know: of such a one nothing is unresolved either.
    """
    found = ports.ledger.ranges(plan=plan_id)
    if not found and all(wave.plan != plan_id for wave in ports.ledger.waves(pipeline)):
        raise UnknownSubjectError(
            f"the ledger knows no plan {plan_id} of pipeline {pipeline}: it is another one than the plan was recorded "
            "in, or was set back since. Whether anything of that plan is in the lake is not known. Run: "
            f"{remedies.status(pipeline)}",
            plan=plan_id,
        )
    leaving, later = frozenset(leaving), frozenset(later)
    left = [item for item in found if item.state in UNRESOLVED and item.wave not in leaving]
    left.sort(key=lambda item: item.wave in later)  # waves that this run has tried come first
    if not left:
        return
    first = left[0]
    ranges = count(len(left), f"range of plan {plan_id} is", f"ranges of plan {plan_id} are")
    message = f"{ranges} not committed"
    where = f"{first.stream} {first.range}, {first.state}"
    if all(item.state is RangeState.PLANNED for item in left):
        if first.wave in later:
            waves = count(len({item.wave for item in left}), "wave")
            raise UnfinishedError(
                f"{message}, in {waves} for which this run had no room; first {where}. The next run takes them, "
                f"or: {remedies.run(first.pipeline)}",
                plan=plan_id,
            )
        _refuse_closed_for_good(ports, first, f"{message}; first {where}")
        raise UnfinishedError(
            f"{message}; first {where}: not run to its end. The log of its ingest says why; the next run takes it up, "
            f"or: {remedies.run(first.pipeline)}",
            plan=plan_id,
        )
    why = explained(first) if first.state in ON_HOLD else "not run to its end"
    raise HeldError(f"{message} (see {remedies.status(first.pipeline)}); first {where}: {why}", plan=plan_id)


def _refuse_closed_for_good(ports: Ports, planned: RangeRecord, where: str) -> None:
    """Raise HeldError when a range waits only for a person to acknowledge the order: another run would wait too."""
    closed = ports.ledger.gate(planned.wave)
    refusal = gate_closed(planned.wave, planned.pipeline, closed) if closed else None
    if isinstance(refusal, HeldError):
        raise HeldError(f"{where}: {refusal.message}", plan=planned.plan, wave=planned.wave)


def refuse_holds(ports: Ports, pipeline: str) -> None:
    """Raise HeldError while any range of a pipeline is on hold, of whatever plan (law L3)."""
    stuck = describe_blocked(ports, pipeline)
    if stuck:
        ranges = count(len(stuck), f"range of pipeline {pipeline} is", f"ranges of pipeline {pipeline} are")
        raise HeldError(f"{ranges} on hold (see {remedies.status(pipeline)}); first {stuck[0]}", pipeline=pipeline)


# What a worker does: bring into the lake what tasks have asked for, wave after wave, as long as it is wanted.

POLL_SECONDS = 3.0

PortsFor = Callable[[RequestRecord], AbstractContextManager[Ports]]
"""Opens the ports of the pipeline whose wave is asked for."""


def _require_wanted(ports: Ports, wave: str) -> None:
    ports.wanted(wave)
    if not is_wanted(ports.ledger.requests(wave)):
        raise NotWantedError(
            f"Wave {wave} is not wanted any more: the task that asked for it has ended, or no triggerer has renewed "
            "its request. Its work is ended, nothing of it is visible, and it can be asked for again",
            wave=wave,
        )


@dataclass(slots=True, kw_only=True)
class WaveWorker:
    """One worker: it takes the first wave that is asked for and that no living process has, one after another.

    Which worker brings a wave is decided by the claim, and so are pauses, limits and the order of records. An error
    that ends a wave is the answer to the tasks that asked for it, and so is the refusal of one that has to wait. A wave
    that another process has is left to it, and its turn comes again when all others had theirs or one has landed.
    `waves`, `rows` and `problems` are the worker's own counts.
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

        A ledger that does not answer is asked again; with `until_idle` its error is raised: it is not known then that
        nothing is asked for.
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
        self.progress(f"wave {request.wave} of pipeline {request.pipeline}, asked for by {request.actor}")
        try:
            outcome = outcome_of(partial(self._land, request))
        except LedgerSchemaError:
            raise  # this process can record nothing more: one of the version that the ledger is of takes its place
        except Exception as error:  # noqa: BLE001  # whatever it is, the worker goes on, and the task is told
            self._answer(request, expected(error, f"wave {request.wave}", wave=request.wave))
            return False
        if not isinstance(outcome, Postponement):
            self._left.clear()
            self.waves += 1
            self.rows += outcome.rows or 0
            return True
        if outcome.reason in {WaitReason.HOLDER, WaitReason.REQUEST}:  # another process has it, or no task wants it
            self._left.add(request.wave)
            self.progress(outcome.refusal.message)
        else:
            self._answer(request, outcome.refusal)
        return False

    def _land(self, request: RequestRecord) -> WaveRecord | Postponement:
        """Land a wave; once no request of it holds any more, its attempt ends, and so does its Spark driver."""
        with self.opened(request) as ports:
            advances = Advances(ports, known_spec(ports.ledger, request.pipeline))
            asking = replace(ports, wanted=partial(_require_wanted, ports))
            return land(asking, request.wave, advances=advances, bytes_per_second=request.bytes_per_second)

    def _answer(self, request: RequestRecord, problem: KafkaLakeError) -> None:
        """Record an error as the answer; where that fails too, the wave is tried again."""
        self.problems += 1
        self._failed[request.wave] = problem.exit_code
        self.progress(f"wave {request.wave}: {problem}")
        try:
            self.ledger.commit(AnswerRequests(wave=request.wave, error=problem, actor=self.actor))
        except KafkaLakeError as error:
            self.progress(f"the answer could not be recorded: {error.message}")
