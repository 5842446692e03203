"""Commands that record a decision of a person, such as `skip`, `reopen`, `cancel` or `pause`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_kafka_lake.actions.action import Action, FieldKind
from airflow_kafka_lake.actions.registry import ACTIONS
from airflow_kafka_lake.cli.command import (
    DRY_RUN,
    PIPELINE,
    REFUSED,
    SELECTION,
    THE_PERIOD,
    THE_STREAM,
    Argument,
    Command,
    Result,
    field_argument,
    go_on,
    is_file,
    offset_number,
    ports_of,
    selection_of,
    spec_of,
    stream_of,
    subject_id,
    topic_name,
)
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ordering.segments import SegmentOrder
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pipeline.keys import read_offsets_file
from airflow_kafka_lake.services import decisions, reporting
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger

# A command for each action of a person: its arguments are the fields of the action.


def command_of(action: type[Action]) -> Command:
    """Return the command of an action."""

    def act(arguments: argparse.Namespace, output: Output) -> Result:
        dry_run = getattr(arguments, "dry_run", False)
        given: dict[str, Any] = {
            field.name: selection_of(arguments) if field.kind is FieldKind.SELECTION else getattr(arguments, field.name)
            for field in action.fields()
            if field.kind is not FieldKind.SUBJECT
        }
        spec, subject = _subject(action, arguments)
        if field := action.subject_field():
            given[field.name] = subject
        with ports_of(arguments, output, spec) as ports:
            outcome = action(**given).outcome(ports, spec, dry_run=dry_run)
        further = dry_run and not outcome.leaves_nothing
        shown = f" --shown {outcome.digest}" if outcome.digest else ""
        last = [f"nothing was changed; do it with: {go_on(arguments)}{shown}"] if further else []
        return Result(
            document=outcome.to_json(), lines=[*outcome.lines, *last], exit_code=REFUSED if outcome.refused else 0
        )

    return Command(name=action.name, help=action.help, arguments=tuple(_arguments(action)), action=act)


def _arguments(action: type[Action]) -> Iterator[Argument]:
    if action.subject_field() is None:
        yield PIPELINE
    for field in action.fields():
        match field.kind:
            case FieldKind.SUBJECT:
                yield Argument("subject", metavar=field.metavar, type=subject_id, help=field.help)
            case FieldKind.SELECTION:
                yield from THE_PERIOD if field.needed else SELECTION
            case _:
                yield field_argument(field)
    if action.has_dry_run:
        yield DRY_RUN


def _subject(action: type[Action], arguments: argparse.Namespace) -> tuple[PipelineSpec, str | None]:
    """Return the meant pipeline, and its meant part."""
    field = action.subject_field()
    if field is None:
        return spec_of(arguments.pipeline, arguments.ledger), None
    name = arguments.subject
    if is_file(name):
        name = spec_of(name, arguments.ledger).name
    with open_ledger(arguments.ledger) as ledger:
        assert field.find is not None
        pipeline, subject = field.find(ledger, name)
        return known_spec(ledger, pipeline), subject


COMMANDS = tuple(command_of(action) for action in ACTIONS if action.is_command)


# Commands about the order of segments: `segments`, `seal`, `migrate`.


def segments(arguments: argparse.Namespace, output: Output) -> Result:
    """Read the graph of segments, and draw it with --svg."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with open_ledger(arguments.ledger) as ledger:
        known_spec(ledger, spec.name)
        order = reporting.segments(ledger, spec)
    if arguments.svg:
        from airflow_kafka_lake.pages.charts import segments_svg

        Path(arguments.svg).write_text(segments_svg(order), encoding="utf-8")
        output.note(f"drawn into {arguments.svg}")
    return Result(document=order)


def show_segments(output: Output, order: SegmentOrder) -> None:
    """Show the graph of segments as lines: the segments that each continues, and those that it waits for."""
    rows = [
        (
            stream,
            item.start,
            "open" if item.seal is None else item.seal if item.sealed else f"{item.seal} (declared)",
            item.layout,
            order.state_of(item),
            ", ".join(f"{parent.stream} from {parent.start}" for parent in order.parents(item)) or "-",
        )
        for stream in order.streams
        for item in order.graph.of(stream)
    ]
    columns = ("stream", "#from", "#seal", "#partitions", "state", "continues")
    output.long_table(f"segments of {order.pipeline}", columns, rows)
    for stream in order.streams:
        for text, _ in order.waits(stream):
            output.line(f"{stream} {text}")


def seal(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare the end of one partition's log."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        stream = stream_of(ports.ledger, spec.name, arguments)
        made = decisions.seal(ports, spec, stream, arguments.at)
    line = (
        f"{stream.key} is declared to end at {made.seal}: it counts once a plan has found it so again, "
        f"{spec.layout_grace} s from now"
    )
    document = {"topic": stream.key.topic, "partition": stream.key.partition, "start": made.start, "seal": made.seal}
    return Result(document=document, lines=[line])


def migrate(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare that one topic continues another."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    given = read_offsets_file(Path(arguments.seal))
    if others := sorted({topic for topic, _, _ in given} - {arguments.from_topic}):
        raise UsageError(f"{arguments.seal} names {', '.join(others)}: only {arguments.from_topic} is sealed")
    seals = {partition: offset for _, partition, offset in given}
    with ports_of(arguments, output, spec) as ports:
        waiting = decisions.migrate(ports, spec, arguments.from_topic, target=arguments.to_topic, seals=seals)
    line = (
        f"{arguments.to_topic} continues {arguments.from_topic}: it is published once every partition of "
        f"{arguments.from_topic} is drained to its seal; the seals count {spec.layout_grace} s from now"
    )
    document = {
        "from": arguments.from_topic,
        "to": arguments.to_topic,
        "seals": {str(partition): offset for partition, offset in sorted(seals.items())},
        "waiting": [{"partition": item.stream.partition, "start": item.start} for item in waiting],
    }
    return Result(document=document, lines=[line])


SEGMENT_COMMANDS = (
    Command(
        name="segments",
        help="which slice of which partition must be finished before which",
        arguments=(PIPELINE, Argument("--svg", metavar="FILE", help="draw the graph into this file")),
        action=segments,
        view=show_segments,
    ),
    Command(
        name="seal",
        help="declare where a partition's log ends for good",
        arguments=(
            PIPELINE,
            *THE_STREAM,
            Argument("--at", metavar="O", type=offset_number, required=True, help="end, exclusive"),
        ),
        action=seal,
    ),
    Command(
        name="migrate",
        help="declare that one topic continues another",
        arguments=(
            PIPELINE,
            Argument("--from-topic", metavar="A", type=topic_name, required=True, help="the topic that ends"),
            Argument("--to-topic", metavar="B", type=topic_name, required=True, help="the topic that continues it"),
            Argument(
                "--seal", metavar="FILE.json", required=True, help='where each partition of A ends: {"A": {"0": 120}}'
            ),
        ),
        action=migrate,
    ),
)
