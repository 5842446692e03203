"""Commands about the order of segments: `segments`, `seal`, `migrate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_lake.cli.arguments import (
    PIPELINE,
    THE_STREAM,
    offset_number,
    ports_of,
    spec_of,
    stream_of,
    topic_name,
)
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.pipeline.offsets_file import read_offsets_file
from airflow_kafka_lake.registration import FEATURES
from airflow_kafka_lake.services import reporting, segment_declarations
from airflow_kafka_lake.wiring.assemble import open_ledger


def segments(arguments: argparse.Namespace, output: Output) -> Result:
    """Read the graph of segments, and draw it with --svg."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with open_ledger(arguments.ledger) as ledger:
        reporting.known_spec(ledger, spec.name)
        document = reporting.segments(ledger, spec)
    if arguments.svg:
        _write(Path(arguments.svg), FEATURES.page("segments")(document))
        output.note(f"drawn into {arguments.svg}")
    return Result(document=document)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a NUL"
        raise UsageError(f"{str(path)!r} cannot be written: {reason}", file=str(path)) from None


def show_segments(output: Output, document: Json) -> None:
    """Show the graph of segments as lines: what each continues, and what it waits for."""
    rows = [
        (
            stream_text(stream),
            item["start"],
            "open" if item["seal"] is None else item["seal"] if item["sealed"] else f"{item['seal']} (declared)",
            item["layout"],
            _state(item),
            ", ".join(f"{stream_text(parent)} from {parent['start']}" for parent in item["parents"]) or "-",
        )
        for stream in document["streams"]
        for item in stream["segments"]
    ]
    columns = ("stream", "#from", "#seal", "#partitions", "state", "continues")
    output.long_table(f"segments of {document['pipeline']}", columns, rows)
    for stream in document["streams"]:
        for text in stream["blocked_by"]:
            output.line(f"{stream_text(stream)} {text}")


def _state(item: Json) -> str:
    if item["drained"]:
        return "drained"
    return "may start" if item["launchable"] else "waits"


def seal(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare the end of one partition's log."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        stream = stream_of(ports.ledger, spec.name, arguments)
        made = segment_declarations.seal(ports, spec, stream, arguments.at)
    document = {"topic": stream.key.topic, "partition": stream.key.partition, "start": made.start, "seal": made.seal}
    return Result(document=document, beside={"layout_grace": spec.layout_grace})


def show_sealed(output: Output, document: Json) -> None:
    """Show the declared end, and when it counts."""
    output.line(
        f"{stream_text(document)} is declared to end at {document['seal']}: it counts once a plan has found it "
        f"so again, {document['layout_grace']} s from now"
    )


def migrate(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare that one topic continues another."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    given = read_offsets_file(Path(arguments.seal))
    if others := sorted({topic for topic, _, _ in given} - {arguments.from_topic}):
        raise UsageError(f"{arguments.seal} names {', '.join(others)}: only {arguments.from_topic} is sealed")
    seals = {partition: offset for _, partition, offset in given}
    with ports_of(arguments, output, spec) as ports:
        waiting = segment_declarations.migrate(
            ports, spec, arguments.from_topic, target=arguments.to_topic, seals=seals
        )
    document = {
        "from": arguments.from_topic,
        "to": arguments.to_topic,
        "seals": {str(partition): offset for partition, offset in sorted(seals.items())},
        "waiting": [{"partition": item.stream.partition, "start": item.start} for item in waiting],
    }
    return Result(document=document, beside={"layout_grace": spec.layout_grace})


def show_migration(output: Output, document: Json) -> None:
    """Show which topic continues which, and when its rows are published."""
    output.line(
        f"{document['to']} continues {document['from']}: it is published once every partition of "
        f"{document['from']} is drained to its seal; the seals count {document['layout_grace']} s from now"
    )


COMMANDS = (
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
        view=show_sealed,
    ),
    Command(
        name="migrate",
        help="declare that one topic continues another",
        arguments=(
            PIPELINE,
            Argument("--from-topic", metavar="A", type=topic_name, required=True, help="the topic that ends"),
            Argument("--to-topic", metavar="B", type=topic_name, required=True, help="the topic that continues it"),
            Argument(
                "--seal",
                metavar="FILE.json",
                required=True,
                help='where each partition of A ends: {"A": {"0": 120}}',
            ),
        ),
        action=migrate,
        view=show_migration,
    ),
)
