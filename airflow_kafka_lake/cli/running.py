"""Commands that move records: `plan`, `run`, `ingest`, `advance`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import (
    BYTES_PER_SECOND,
    PERIOD,
    PIPELINE,
    WAVE,
    bounds_of,
    go_on,
    ports_of,
    spec_of,
    spec_of_subject,
    wave_count,
)
from airflow_kafka_lake.cli.command import REFUSED, Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text, word_of
from airflow_kafka_lake.cli.status import show_waiting, show_wave
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.documents.explanation import everything, heading, in_grace, remarks
from airflow_kafka_lake.core.documents.plan import plan_document, waiting_document
from airflow_kafka_lake.core.documents.status import advance_document
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.services import decisions, planning, recovery, reporting, running, staging
from airflow_kafka_lake.services.advance import advance as move_watermarks
from airflow_kafka_lake.services.ingesting import Most
from airflow_kafka_lake.wiring.assemble import open_ledger


def plan(arguments: argparse.Namespace, output: Output) -> Result:
    """Plan, and record it unless it is a dry run."""
    spec, bounds = _asked(arguments)
    with ports_of(arguments, output, spec) as ports:
        where = ports.runner.where()  # first: a Spark connection that is not there refuses the plan, not its display
        made = planning.plan(
            ports,
            spec,
            bounds,
            plan_id=decisions.new_id(),
            dry_run=arguments.dry_run,
            timeout=spec.timeout,
        )
    return Result(
        document=plan_document(made.plan, recorded=made.recorded),
        beside={
            "heading": heading(made.plan, dry_run=arguments.dry_run),
            "remarks": list(remarks(made.plan, where, dry_run=arguments.dry_run)),
            "go_on": go_on(arguments, "plan", "run") if arguments.dry_run and made.plan.ranges else None,
        },
        exit_code=REFUSED if made.plan.blocked or made.plan.hanging else 0,
    )


def _asked(arguments: argparse.Namespace) -> tuple[PipelineSpec, Bounds]:
    """Read PIPELINE and the bounds, and check the bounds before anything is opened."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    bounds = bounds_of(arguments, acknowledge_order=arguments.acknowledge_order)
    planning.check_bounds(bounds)
    return spec, bounds


def show_plan(output: Output, document: Json) -> None:
    """Show a plan: ranges, bytes, time and deadline."""
    rows = [
        (
            number if wave["wave"] is None else wave["wave"],
            wave["table"],
            stream_text(item),
            item["start"],
            item["end"],
            item["end"] - item["start"],
            size(item["estimated_bytes"]),
        )
        for number, wave in enumerate(document["waves"])
        for item in wave["ranges"]
    ]
    columns = ("wave", "table", "stream", "#from", "#to", "#offsets", "#bytes in Kafka")
    output.long_table(document["heading"], columns, rows)
    for text in document["remarks"]:
        output.line(text)
    if document["go_on"]:
        output.line(f"read it with: {document['go_on']}")


def run(arguments: argparse.Namespace, output: Output) -> Result:
    """Plan, bring every wave into the lake, advance."""
    spec, bounds = _asked(arguments)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        most = Most(waves=arguments.max_waves, bytes_per_second=arguments.bytes_per_second)
        done = running.run(ports, spec, bounds, everything=arguments.all, most=most)
    document = {
        "pipeline": spec.name,
        "plan": done.plan.id if done.plan and done.plan.waves else None,
        "period": done.plan.period.to_json() if done.plan and done.plan.period else None,
        "waves": [{"wave": item.id, "state": item.state.value, "rows": item.rows} for item in done.waves],
        "left": [item.to_json() for item in done.left],
        "rows": sum(item.rows or 0 for item in done.waves),
        "advanced": advance_document(spec.name, done.moves)["streams"],
        **done.followed,
        "waiting_for_stable": waiting_document(done.plan) if done.plan else [],
        "notes": list(done.plan.notes) if done.plan else [],
        "held": list(done.held),
        "problems": [problem.to_json() for problem in done.problems],
    }
    beside = {"found": everything("landed", done.plan), "in_grace": list(in_grace(done.plan))} if done.plan else {}
    return Result(document=document, beside=beside, exit_code=done.exit_code)


def show_run(output: Output, document: Json) -> None:
    """Show what a run did."""
    if not document["waves"] and not document["problems"] and not document["held"]:
        found = document["period"]["messages"][0] if document["period"] else document["found"]
        output.line(f"nothing to do: {found}")
    else:
        rows = [(item["wave"], word_of(item["state"]), item["rows"]) for item in document["waves"]]
        output.long_table(
            f"run of {document['pipeline']}: {count(document['rows'], 'row')}", ("wave", "state", "#rows"), rows
        )
    for text in document["notes"]:
        output.line(f"note: {text}")
    _show_moves(output, "watermarks moved", document["advanced"])
    for text in document["period"]["messages"][1:] if document["period"] else ():
        output.line(text)
    if document["left"]:
        bytes_left = size(sum(item["estimated_bytes"] for item in document["left"]))
        output.line(
            f"left: {count(len(document['left']), 'wave')}, planned and not asked for, about {bytes_left} in "
            f"Kafka; take them too with --all, or with: {remedies.run(document['pipeline'])}"
        )
    show_waiting(output, document)
    for text in document.get("in_grace", ()):
        output.line(text)
    for text in document["held"]:
        output.line(f"held: {text}")
    for problem in document["problems"]:
        output.line(f"problem: {problem['message']}")


def ingest(arguments: argparse.Namespace, output: Output) -> Result:
    """Stage and publish one wave."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.wave)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        record = staging.ingest(ports, arguments.wave, bytes_per_second=arguments.bytes_per_second)
        recovery.clean_up(ports, record)
        document = reporting.wave(ports.ledger, record.id)
    return Result(document=document, exit_code=0 if record.state is WaveState.COMMITTED else REFUSED)


def advance(arguments: argparse.Namespace, output: Output) -> Result:
    """Move the watermarks."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        reporting.known_spec(ports.ledger, spec.name)
        document = advance_document(spec.name, move_watermarks(ports, spec.name))
        document |= ports.features.after_advance(ports, spec)
    return Result(document=document)


def show_advance(output: Output, document: Json) -> None:
    """Show the watermarks that moved."""
    if not document["streams"]:
        output.line("no watermark moved: nothing new has landed in an unbroken run")
        return
    _show_moves(output, f"{count(document['rows'], 'row')} passed", document["streams"])


def _show_moves(output: Output, title: str, moves: list[Json]) -> None:
    output.long_table(
        title, ("stream", "#from", "#to"), [(stream_text(item), item["from"], item["to"]) for item in moves]
    )


COMMANDS = (
    Command(
        name="plan",
        help="observe Kafka and record what is read next, or only show it",
        arguments=(PIPELINE, Argument("--dry-run", action="store_true", help="show, record nothing"), *PERIOD),
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
        name="advance",
        help="move watermarks to the end of what has landed",
        arguments=(PIPELINE,),
        action=advance,
        view=show_advance,
    ),
)
