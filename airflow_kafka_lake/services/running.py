"""A run without Airflow: recover, plan, ingest every wave that may start, advance after each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    KafkaLakeError,
    PausedError,
    UnfinishedError,
    UnknownSubjectError,
    expected,
    worst,
)
from airflow_kafka_lake.core.kafka.transactions import hanging_error
from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.moves import joined
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNRESOLVED, RangeState
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.work import Work
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.advance import Advances
from airflow_kafka_lake.services.ingesting import Ingesting, Most
from airflow_kafka_lake.services.planning import plan_after_others
from airflow_kafka_lake.services.recovery import recover

NO_LIMIT = Most()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run did. `problems` are the errors of waves, in wave order, and of hanging transactions; `left` are the
    unfinished waves that it was not asked for; `moves` has one move of each stream, however many waves moved it;
    `followed` is what features did after the watermarks moved."""

    plan: Plan | None
    waves: tuple[WaveRecord, ...]
    moves: tuple[Advance, ...]
    held: tuple[str, ...]
    problems: tuple[KafkaLakeError, ...]
    followed: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[Work, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 done; 1 something needs a person; 3 worth repeating, or in the layout grace; 4 an outcome is unknown."""
        codes = {problem.exit_code for problem in self.problems} | ({1} if self.held else set())
        codes |= {3} if self.plan and self.plan.layout_change.in_grace else set()
        return worst(codes)


def run(ports: Ports, spec: PipelineSpec, bounds: Bounds, *, everything: bool = False, most: Most = NO_LIMIT) -> Run:
    """Bring everything that is missing into the lake; a wave that fails does not stop the others.

    Nothing is planned or begun while the pipeline is paused: that is a problem of the run, which lists what was done
    before. With bounds only the offsets asked for: of the unfinished waves of earlier plans those that have some of
    them, or all with `everything`. `most` bounds what this run does; what is beyond stays planned and is left. Every
    wave that is taken or left is named first.
    """
    bounded = bounds.is_bounded and not everything
    if ports.ledger.pipeline(spec.name) is not None:
        _recover(ports, spec.name)
    problems: list[KafkaLakeError] = []
    decided: Plan | None = None
    try:
        decided = plan_after_others(ports, spec, bounds, timeout=spec.timeout).plan
    except (ConcurrentError, PausedError) as error:
        if bounded and isinstance(error, ConcurrentError):
            raise  # the offsets asked for are not known
        problems.append(error)
    advances = Advances(ports, spec)
    work = Ingesting(ports=ports, advances=advances, scope=decided if bounded else None, most=most)
    if not any(isinstance(problem, PausedError) for problem in problems):
        for line in work.choice().describe(decided.id if decided else None):
            ports.progress(line)
        work.run()
        problems += work.problems
    if decided and decided.hanging:
        problems.append(hanging_error(decided.hanging, decided.observed_at))
    advances.at_end()
    return Run(
        plan=decided,
        waves=tuple(work.finished),
        moves=joined(advances.moves),
        held=describe_blocked(ports, spec.name, decided),
        problems=tuple(problems),
        followed=advances.followed,
        left=work.choice().left,
    )


def _recover(ports: Ports, pipeline: str) -> None:
    """Record waves that are in the lake already; a problem of a wave comes up again when it is ingested."""
    try:
        recover(ports, pipeline)
    except Exception as error:  # noqa: BLE001  # what is wrong with an open wave must not keep the others waiting
        ports.progress(f"not everything could be committed: {expected(error, 'recovering open waves')}")


def describe_blocked(ports: Ports, pipeline: str, decided: Plan | None = None) -> tuple[str, ...]:
    """Return what needs a person: held and cancelled ranges, and what a plan had to leave out."""
    stuck = ports.ledger.ranges(pipeline=pipeline, states=(RangeState.HELD, RangeState.CANCELLED))
    lines = [f"{item.stream} {item.range} {item.state.lower()}: {HoldReason.of(item).text}" for item in stuck]
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
    why = HoldReason.of(first).text if first.state in ON_HOLD else "not run to its end"
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
        raise HeldError(
            f"{ranges} on hold (see {remedies.status(pipeline)}); first {stuck[0]}",
            pipeline=pipeline,
        )
