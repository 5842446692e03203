"""What the commands about order do: `segments`, `seal`, `migrate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_lake.cli import views
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import ports_of, spec_of, stream_of
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.hooks.assembly import open_ledger
from airflow_kafka_lake.offsets_file import read_offsets_file
from airflow_kafka_lake.registration import FEATURES
from airflow_kafka_lake.services import reporting, sealing


def segments(arguments: argparse.Namespace, output: Output) -> int:
    """`segments PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with open_ledger(arguments.ledger) as ledger:
        reporting.known_spec(ledger, spec.name)
        document = reporting.segments(ledger, spec)
    if arguments.svg:
        _write(Path(arguments.svg), FEATURES.page("segments")(document))
        output.note(f"drawn into {arguments.svg}")
    output.result(document, views.segments)
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a NUL"
        raise UsageError(f"{str(path)!r} cannot be written: {reason}", file=str(path)) from None


def seal(arguments: argparse.Namespace, output: Output) -> int:
    """`seal PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        stream = stream_of(ports.ledger, spec.name, arguments)
        made = sealing.seal(ports, spec, stream, arguments.at)
    if output.as_json:
        output.document(
            {"topic": stream.key.topic, "partition": stream.key.partition, "start": made.start, "seal": made.seal}
        )
    else:
        output.line(
            f"{stream} is declared to end at {made.seal}: it counts once a plan has found it "
            f"so again, {spec.settle_time} s from now"
        )
    return 0


def migrate(arguments: argparse.Namespace, output: Output) -> int:
    """`migrate PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    given = read_offsets_file(Path(arguments.seal))
    if strangers := sorted({topic for topic, _, _ in given} - {arguments.from_topic}):
        raise UsageError(f"{arguments.seal} names {', '.join(strangers)}: only {arguments.from_topic} is sealed")
    seals = {partition: offset for _, partition, offset in given}
    with ports_of(arguments, output, spec) as ports:
        waiting = sealing.migrate(ports, spec, arguments.from_topic, arguments.to_topic, seals)
    document = {
        "from": arguments.from_topic,
        "to": arguments.to_topic,
        "seals": {str(partition): offset for partition, offset in sorted(seals.items())},
        "waiting": [{"partition": item.stream.partition, "start": item.start} for item in waiting],
    }
    if output.as_json:
        output.document(document)
    else:
        output.line(
            f"{arguments.to_topic} continues {arguments.from_topic}: it is published once every partition of "
            f"{arguments.from_topic} is drained to its seal; the seals count {spec.settle_time} s from now"
        )
    return 0
