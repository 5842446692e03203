"""Commands that move records: `plan`, `run`, `ingest`, `advance`, `decode`, `worker`, `recover`, `rebuild`."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from airflow_kafka_lake.actions.action import TerminalTable
from airflow_kafka_lake.actions.waves import pipeline_of
from airflow_kafka_lake.adapters.machine import HostProcesses, SystemClock
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.cli.command import (
    BYTES_PER_SECOND,
    DROP_STAGED,
    DRY_RUN,
    PERIOD,
    PIPELINE,
    REFUSED,
    REPEAT,
    TOPIC,
    WAVE,
    Argument,
    Command,
    Result,
    bounds_of,
    go_on,
    pipeline_name,
    ports_of,
    spec_of,
    wave_count,
)
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.status import show_wave
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count, size, word_of
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.offsets import names_of
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.plan import everything, heading, in_grace, remarks, waiting_of
from airflow_kafka_lake.core.reports.status import advance_document
from airflow_kafka_lake.core.spark.job import LIGHT
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, planning, rebuilding, recovery, reporting, running
from airflow_kafka_lake.services.advance import advance as move_watermarks
from airflow_kafka_lake.services.advance import sync_group
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.planning import PlanResult
from airflow_kafka_lake.services.running import Run, WaveWorker
from airflow_kafka_lake.wiring.assemble import open_ledger

# Commands that move records: `plan`, `run`, `ingest`, `advance`.


def plan(arguments: argparse.Namespace, output: Output) -> Result:
    """Plan, and record it unless it is a dry run."""
    spec, bounds = _asked(arguments)
    dry = arguments.dry_run
    with ports_of(arguments, output, spec, dry_run=dry) as ports:
        where = ports.runner.where()  # first: a Spark connection that is not there refuses the plan, not its display
        made = planning.plan(ports, spec, bounds, plan_id=decisions.new_id(), dry_run=dry, timeout=spec.timeout)
        told = [f"held: {hold}" for hold in running.describe_blocked(ports, spec.name)]
        if earlier := [work for work in running.chosen(ports, spec.name, None).taken if work.plan != made.plan.id]:
            weight = size(sum(item.estimated_bytes for item in earlier))
            told.append(
                f"planned earlier: {count(len(earlier), 'wave')}, about {weight} in Kafka, which a run takes too"
            )
    return Result(
        document=made,
        beside={
            "told": told,
            "where": where,
            "dry_run": dry,
            "then": go_on(arguments, "plan", "run") if dry and made.plan.ranges else None,
        },
        exit_code=REFUSED if made.plan.blocked or made.plan.hanging else 0,
    )


def _asked(arguments: argparse.Namespace) -> tuple[PipelineSpec, Bounds]:
    """Read PIPELINE and the bounds, and check the bounds before anything is opened."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    bounds = bounds_of(arguments, acknowledge_order=arguments.acknowledge_order)
    planning.check_bounds(bounds)
    return spec, bounds


def show_plan(
    output: Output, made: PlanResult, *, told: Sequence[str], where: str, dry_run: bool, then: str | None
) -> None:
    """Show a plan: ranges, bytes, time and deadline, earlier holds and waves; `then` is the command that reads them."""
    rows = [
        (
            wave.id if made.recorded else number,
            wave.table,
            item.stream,
            item.range.start,
            item.range.end,
            item.range.span,
            size(item.estimated_bytes),
        )
        for number, wave in enumerate(made.plan.waves)
        for item in wave.ranges
    ]
    columns = ("wave", "table", "stream", "#from", "#to", "#offsets", "#bytes in Kafka")
    output.long_table(heading(made.plan, dry_run=dry_run), columns, rows)
    for text in (*remarks(made.plan, where, dry_run=dry_run), *told):
        output.line(text)
    if then:
        output.line(f"read it with: {then}")


def run(arguments: argparse.Namespace, output: Output) -> Result:
    """Plan, bring every wave into the lake, advance."""
    spec, bounds = _asked(arguments)
    limits = {"max_waves": arguments.max_waves, "bytes_per_second": arguments.bytes_per_second}
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        done = running.run(ports, spec, bounds, everything=arguments.all, **limits)
    return Result(document=done, exit_code=done.exit_code)


def show_run(output: Output, done: Run) -> None:
    """Show the result of a run."""
    plan = done.plan
    period = plan.period.describe() if plan and plan.period else ()
    if plan and not done.waves and not done.problems and not done.held:
        output.line(f"nothing to do: {period[0] if period else everything('landed', plan)}")
    else:
        rows = [(item.id, word_of(item.state), item.rows) for item in done.waves]
        output.long_table(f"run of {done.pipeline}: {count(done.rows, 'row')}", ("wave", "state", "#rows"), rows)
    for text in plan.notes if plan else ():
        output.line(f"note: {text}")
    output.long_table(*_moves("watermarks moved", done.moves))
    for text in period[1:]:
        output.line(text)
    if done.left:
        bytes_left = size(sum(item.estimated_bytes for item in done.left))
        output.line(
            f"left: {count(len(done.left), 'wave')}, planned and not asked for, or beyond --max-waves, about "
            f"{bytes_left} in Kafka; take them too with --all beside bounds, or with: {remedies.run(done.pipeline)}"
        )
    for text in (*(item.describe() for item in waiting_of(plan)), *in_grace(plan)) if plan else ():
        output.line(text)
    for text in done.held:
        output.line(f"held: {text}")
    for problem in done.problems:
        output.line(f"problem: {problem.message}")


def ingest(arguments: argparse.Namespace, output: Output) -> Result:
    """Stage and publish one wave."""
    with open_ledger(arguments.ledger) as ledger:
        spec = known_spec(ledger, pipeline_of(ledger, arguments.wave))
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        record = landed(running.land(ports, arguments.wave, bytes_per_second=arguments.bytes_per_second))
        document = reporting.wave(ports.ledger, record.id)
    return Result(document=document, exit_code=0 if record.state is WaveState.COMMITTED else REFUSED)


def advance(arguments: argparse.Namespace, output: Output) -> Result:
    """Move the watermarks."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        known_spec(ports.ledger, spec.name)
        moves = move_watermarks(ports, spec.name)
        group = sync_group(ports, spec)
    document = advance_document(spec.name, moves) | {"group_sync": group and group.to_json()}
    nothing = [] if moves else ["no watermark moved: nothing new has landed in an unbroken run"]
    return Result(
        document=document, lines=[*nothing, _moves(f"{count(sum(m.rows for m in moves), 'row')} passed", moves)]
    )


def _moves(title: str, moves: Sequence[Advance]) -> TerminalTable:
    names = names_of(item.stream for item in moves)
    return title, ("stream", "#from", "#to"), [(names[item.stream], item.start, item.end) for item in moves]


# The command `decode`.


def decode(arguments: argparse.Namespace, output: Output) -> Result:
    """Decode again the rows in the lake."""
    from airflow_kafka_lake.services.redecoding import redecode

    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        done = redecode(ports, spec, topic=arguments.topic, only_failed=arguments.failed)
    lines = [f"{table}: {item}" for table, item in done.items()]
    if arguments.failed:
        lines.append("rows without a decode_error stay as they are; without --failed, all rows are decoded again")
    tables = [{"table": table, **item.to_json()} for table, item in done.items()]
    return Result(document={"pipeline": spec.name, "tables": tables}, lines=lines)


COMMANDS = (
    Command(
        name="plan",
        help="observe Kafka and record what is read next, or only show it",
        arguments=(PIPELINE, DRY_RUN, *PERIOD),
        action=plan,
        view=show_plan,
    ),
    Command(
        name="run",
        help="plan, bring every wave into the lake, advance; without bounds also what earlier runs left",
        arguments=(
            PIPELINE,
            *PERIOD,
            Argument("--all", action="store_true", help="with bounds, too: finish everything that earlier runs left"),
            Argument("--max-waves", metavar="N", type=wave_count, help="begin at most so many waves; the rest is left"),
            BYTES_PER_SECOND,
        ),
        action=run,
        view=show_run,
    ),
    Command(
        name="ingest",
        help="bring one wave into the lake; does not advance",
        arguments=(WAVE, BYTES_PER_SECOND),
        action=ingest,
        view=show_wave,
    ),
    Command(
        name="advance", help="move watermarks to the end of what has landed", arguments=(PIPELINE,), action=advance
    ),
    Command(
        name="decode",
        help="decode once more what is in the lake, from its raw bytes",
        arguments=(PIPELINE, TOPIC, Argument("--failed", action="store_true", help="only rows that did not decode")),
        action=decode,
    ),
)


# The command `worker`: a process beside Airflow that brings into the lake what tasks ask for.


def worker(arguments: argparse.Namespace, output: Output) -> Result:
    """Serve until a signal ends it, or nothing is left to do."""
    alive = _touching(arguments.alive)
    processes = HostProcesses()
    this = processes.this()
    holder = str(this)

    @contextmanager
    def opened(request: RequestRecord) -> Iterator[Ports]:
        """Open the ports of one wave; Spark is kept for the next one."""
        spec = known_spec(ledger, request.pipeline)
        with ports_of(arguments, output, spec, need_spark=True, engine=engine) as ports:
            yield replace(ports, wanted=lambda _: alive())

    with Engine() as engine, open_ledger(arguments.ledger) as ledger, _drained(wanted=arguments.drain) as is_ending:
        engine.spent(LIGHT)  # as before a heavy job: what lasts is worth the better compiler
        serving = WaveWorker(
            ledger=ledger,
            clock=SystemClock(),
            processes=processes,
            opened=opened,
            progress=output.note,
            actor=f"worker {holder}",
            pipelines=tuple(arguments.pipeline or ()),
            is_ending=is_ending,
            alive=alive,
        )
        output.note(f"worker, {this.shown}, waits for waves")
        serving.run(until_idle=arguments.until_idle)
        code = serving.exit_code() if arguments.until_idle else 0
    waves, rows, problems = serving.waves, serving.rows, serving.problems
    document = {"worker": holder, "waves": waves, "rows": rows, "problems": problems}
    line = f"worker {holder}: {count(waves, 'wave')}, {count(rows, 'row')}, "
    return Result(document=document, lines=[f"{line}{count(problems, 'wave')} that ended in an error"], exit_code=code)


def _touching(file: Path | None) -> Callable[[], None]:
    """Return the worker's sign of life: it sets the time of a file. Raises OSError where that cannot be written."""
    if file is None:
        return lambda: None
    file.touch()

    def alive() -> None:
        with suppress(OSError):  # a probe sees the file grow old
            file.touch()

    return alive


@contextmanager
def _drained(*, wanted: bool) -> Iterator[Callable[[], bool]]:
    """Yield whether the worker has to end after its wave: SIGTERM asks for that once, a second one ends it at once."""
    asked = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGTERM)

    def drain(_number: int, _frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGTERM, before)

    signal.signal(signal.SIGTERM, drain)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGTERM, before)


WORKER_COMMANDS = (
    Command(
        name="worker",
        help="bring into the lake what Airflow's tasks ask for, beside Airflow, until a signal ends it",
        arguments=(
            Argument(
                "--pipeline",
                metavar="NAME",
                action="append",
                type=pipeline_name,
                help="serve only this pipeline; may be repeated (default: all of the ledger)",
            ),
            Argument(
                "--drain",
                action="store_true",
                help="on SIGTERM, finish the wave first; a second SIGTERM ends it at once, as one does without this",
            ),
            Argument(
                "--until-idle",
                action="store_true",
                help="end when nothing is asked for that could be taken; what did not land gives the exit code",
            ),
            Argument(
                "--alive",
                metavar="FILE",
                type=Path,
                help="a file whose time is set every few seconds, for a probe that ends a worker that hangs",
            ),
        ),
        action=worker,
    ),
)


# Commands after an accident: `recover` open waves, `rebuild` a ledger.


def recover(arguments: argparse.Namespace, output: Output) -> Result:
    """Look in the lake for the commits of open waves."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        known_spec(ports.ledger, spec.name)  # of another one nothing is open, and nothing was looked for
        done = recovery.recover(ports, spec.name)
    document = {
        "pipeline": spec.name,
        "adopted": list(done.adopted),
        "returned": list(done.returned),
        "busy": list(done.busy),
        "dropped": list(done.swept.dropped),
        "foreign": list(done.swept.foreign),
        "unswept": [{"table": table, "reason": reason} for table, reason in done.swept.left.items()],
    }
    results = {
        "found in the lake and recorded as landed": done.adopted,
        "not there, to be staged again": done.returned,
        "in others' hands": done.busy,
    }
    dropped, left = len(done.swept.dropped), done.swept.left
    lines = [
        *(f"{count(len(ids), 'wave')} {said}: {', '.join(ids) or 'none'}" for said, ids in results.items()),
        f"{count(dropped, 'abandoned staging branch', 'abandoned staging branches')} dropped",
        *(f"staging branches of {i} could not be looked at, and go the next time: {why}" for i, why in left.items()),
    ]
    return Result(document=document, lines=lines, exit_code=REPEAT if done.busy else 0)


def rebuild(arguments: argparse.Namespace, output: Output) -> Result:
    """Make a ledger agree with the lake."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        done = rebuilding.rebuild(
            ports, spec, accept_rollback=arguments.accept_rollback, drop_staged=arguments.drop_staged
        )
    document = {
        "pipeline": spec.name,
        "rebuild": done.id,
        "waves": done.waves,
        "ranges": done.ranges,
        "skips": done.skips,
        "reopened": [item.to_json() for item in done.reopened],
        "deleted": [item.to_json() for item in done.deleted],
        "advanced": [move.to_json() for move in done.moves],
    }
    waves, skips = f"{count(done.waves, 'wave')} with {count(done.ranges, 'range')}", count(done.skips, "skip")
    reopened = [(item.stream, item.range.start, item.range.end, item.expected, item.attempt) for item in done.reopened]
    gone = count(sum(item.expected - item.found for item in done.deleted), "row")
    deleted = (
        f"others have deleted {gone} of {count(len(done.deleted), 'committed range')} from the lake: nothing of that "
        f"is read again. Rows that an audit calls lost are recorded as deleted by {remedies.accept_deletes(spec.name)}"
    )
    columns = ("stream", "#from", "#to", "#rows", "attempt")
    lines: list[str | TerminalTable] = [
        f"{waves} came back from the lake, which has {skips}",
        ("vanished from the lake: the next run reads it again", columns, reopened),
        *([deleted] if done.deleted else []),
        *([_NO_REASONS] if done.skips or done.deleted else []),
        f"go on with: {remedies.run(spec.name)}",
    ]
    return Result(document=document, lines=lines)


_NO_REASONS = "the lake keeps no reasons: those of skips and deletes were in the history of the ledger that is lost"

RECOVERY_COMMANDS = (
    Command(name="recover", help="ask the lake about waves that were left open", arguments=(PIPELINE,), action=recover),
    Command(
        name="rebuild",
        help="make a lost or older ledger agree with the lake",
        arguments=(
            PIPELINE,
            Argument(
                "--accept-rollback",
                action="store_true",
                help="the lake was rolled back or re-created: plan again exactly what vanished from it",
            ),
            DROP_STAGED,
        ),
        action=rebuild,
    ),
)
