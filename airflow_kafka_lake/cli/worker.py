"""The command `worker`: a process beside Airflow that brings into the lake what tasks ask for."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from airflow_kafka_lake.cli.arguments import pipeline_name, ports_of
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.services.requests import Serving
from airflow_kafka_lake.wiring.assemble import clock_and_processes, open_ledger
from airflow_kafka_lake.wiring.spark import Engine


def worker(arguments: argparse.Namespace, output: Output) -> Result:
    """Serve until a signal ends it, or nothing is left to do."""
    alive = _touching(arguments.alive)
    clock, processes = clock_and_processes()
    this = processes.this()
    holder = str(this)

    @contextmanager
    def opened(request: RequestRecord) -> Iterator[Ports]:
        """Open what one wave needs; Spark is kept for the next one."""
        spec = known_spec(ledger, request.pipeline)
        with ports_of(arguments, output, spec, need_spark=True, engine=engine) as ports:
            yield replace(ports, wanted=lambda _: alive())

    with Engine() as engine, open_ledger(arguments.ledger) as ledger, _drained(wanted=arguments.drain) as is_ending:
        serving = Serving(
            ledger=ledger,
            clock=clock,
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
    document = {"worker": holder, "waves": serving.waves, "rows": serving.rows, "problems": serving.problems}
    return Result(document=document, exit_code=code)


def show_worker(output: Output, document: Json) -> None:
    """Show what a worker has done."""
    output.line(
        f"worker {document['worker']}: {count(document['waves'], 'wave')}, {count(document['rows'], 'row')}, "
        f"{count(document['problems'], 'wave')} that ended in an error"
    )


def _touching(file: Path | None) -> Callable[[], None]:
    """Return what shows that the worker lives: it sets the time of a file; UsageError where that cannot be written."""
    if file is None:
        return lambda: None
    try:
        file.touch()
    except OSError as error:
        raise UsageError(f"--alive: {file} cannot be written: {error.strerror}") from None

    def alive() -> None:
        with suppress(OSError):  # who looks at the file sees it grow old
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


COMMANDS = (
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
        view=show_worker,
    ),
)
