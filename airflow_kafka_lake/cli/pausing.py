"""Commands that keep a pipeline or a plan from going on, and let it go on: `pause`, `resume`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import REASON, free_text, is_file, ports_of, spec_of, subject_id
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.services import pausing
from airflow_kafka_lake.services.pausing import PauseSubject
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger

_SUBJECT = Argument("subject", metavar="PIPELINE|PLAN", type=subject_id, help="a pipeline, or one plan of it")


def pause(arguments: argparse.Namespace, output: Output) -> Result:
    """Pause a pipeline or a plan."""
    subject, spec = _named(arguments)
    with ports_of(arguments, output, spec) as ports:
        done = pausing.pause(ports, subject, arguments.reason, now=arguments.now)
    return Result(document=done.to_json())


def resume(arguments: argparse.Namespace, output: Output) -> Result:
    """Resume a pipeline or a plan."""
    subject, spec = _named(arguments)
    with ports_of(arguments, output, spec) as ports:
        done = pausing.resume(ports, subject, arguments.reason)
    return Result(document=done.to_json())


def _named(arguments: argparse.Namespace) -> tuple[PauseSubject, PipelineSpec]:
    name = arguments.subject
    if is_file(name):
        name = spec_of(name, arguments.ledger).name
    with open_ledger(arguments.ledger) as ledger:
        subject = pausing.find_pausable(ledger, name)
        return subject, known_spec(ledger, subject.pipeline)


def show_paused(output: Output, document: Json) -> None:
    """Show what is paused, what goes on to its end, and how to resume."""
    since = document["paused"]
    already = "" if document["changed"] else " already"
    output.line(f"{_what(document)} is paused{already}, since {since['since']} by {since['by']}: {since['reason']}")
    if document["stopped"]:
        output.line(
            f"taken from their workers, and planned still: {', '.join(document['stopped'])}. They are not in the lake "
            "now; a commit that was on its way may still land, and the next run finds it"
        )
    if document["landed"]:
        output.line(f"was published meanwhile, and has landed: {', '.join(document['landed'])}")
    if document["at_work"]:
        output.line(f"goes on to its end: {', '.join(document['at_work'])}")
    output.line(
        f"{count(document['waiting'], 'wave waits', 'waves wait')}; go on with: {remedies.resume(_subject(document))}"
    )


def show_resumed(output: Output, document: Json) -> None:
    """Show what goes on, and what was paused."""
    before = document["paused"]
    if before is None:
        output.line(f"{_what(document)} is not paused: nothing was changed")
        return
    was = f"it was paused since {before['since']} by {before['by']}: {before['reason']}"
    output.line(f"{_what(document)} goes on; {was}")
    output.line(
        f"{count(document['waiting'], 'wave waits', 'waves wait')} for a run: {remedies.run(document['pipeline'])}"
    )


def _subject(document: Json) -> str:
    return str(document["plan"] or document["pipeline"])


def _what(document: Json) -> str:
    if document["plan"] is None:
        return f"pipeline {document['pipeline']}"
    return f"plan {document['plan']} of pipeline {document['pipeline']}"


COMMANDS = (
    Command(
        name="pause",
        help="begin nothing new of a pipeline or a plan until it is resumed",
        arguments=(
            _SUBJECT,
            REASON,
            Argument("--now", action="store_true", help="also stop the waves that are at work; they stay planned"),
        ),
        action=pause,
        view=show_paused,
    ),
    Command(
        name="resume",
        help="let a paused pipeline or plan go on",
        arguments=(_SUBJECT, Argument("--reason", metavar="TEXT", type=free_text, help="why")),
        action=resume,
        view=show_resumed,
    ),
)
