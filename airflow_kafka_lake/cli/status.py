"""Commands that show progress: `status`, `wave`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import PARTITION, PIPELINE, TOPIC, WAVE, ports_of, spec_of
from airflow_kafka_lake.cli.command import Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.documents.explanation import waiting_text
from airflow_kafka_lake.services import reporting
from airflow_kafka_lake.wiring.assemble import open_ledger


def status(arguments: argparse.Namespace, output: Output) -> Result:
    """Read the progress of every stream of a pipeline."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        reporting.known_spec(ports.ledger, spec.name)
        document = reporting.status(ports, spec, topic=arguments.topic, partitions=arguments.partition)
    return Result(document=document)


def show_status(output: Output, document: Json) -> None:
    """Show streams, what blocks them, and the waves that are not done."""
    rows = [
        (
            stream_text(item),
            item["origin"],
            item["watermark"],
            item["hold"],
            item["planned_until"],
            item["last_stable"],
            item["lag"],
            "" if item["bounds_state"] == "observed" else item["bounds_state"],
        )
        for item in document["streams"]
    ]
    columns = ("stream", "#origin", "#watermark", "#hold", "#planned until", "#last stable", "#lag", "note")
    output.long_table(f"pipeline {document['pipeline']} at {document['observed_at']}", columns, rows)
    if not rows:
        output.line(f"no stream is known that fits: see what would be read with {remedies.plan(document['pipeline'])}")
    for item in document["streams"]:
        for start, end in item["reopened"]:
            output.line(f"{stream_text(item)} {start}-{end} was reopened: it waits to be read again")
        for text in item["blocked_by"]:
            output.line(f"{stream_text(item)} blocked by {text}")
    show_waiting(output, document)
    waves = [
        (item["wave"], item["table"], item["state"], item["fence"], item["ranges"], item["rows"])
        for item in reversed(document["waves"])
    ]
    output.long_table("waves, newest first", ("wave", "table", "state", "#fence", "#ranges", "#rows"), waves)


def show_waiting(output: Output, document: Json) -> None:
    """Show the partitions that wait for an open transaction."""
    for item in document["waiting_for_stable"]:
        output.line(waiting_text(item))


def wave(arguments: argparse.Namespace, _: Output) -> Result:
    """Read what the ledger knows of one wave."""
    with open_ledger(arguments.ledger) as ledger:
        return Result(document=reporting.wave(ledger, arguments.wave))


def show_wave(output: Output, document: Json) -> None:
    """Show one wave: its ranges with their accounting, and its attempts."""
    accounts = ("visible", "control", "aborted", "compacted", "skipped", "unexplained")
    rows = [
        (
            item["range"],
            stream_text(item),
            item["start"],
            item["end"],
            item["state"],
            *((item["accounting"] or {}).get(name) for name in accounts),
            item["reason"] or "",
        )
        for item in document["ranges"]
    ]
    title = f"wave {document['wave']} {document['state']} in {document['table']}, snapshot {document['snapshot_id']}"
    columns = ("range", "stream", "#from", "#to", "state", *(f"#{name}" for name in accounts), "reason")
    output.long_table(title, columns, rows)
    attempts = [
        (item["fence"], item["attempt"], item["outcome"], item["started_at"], item["ended_at"], item["error"])
        for item in document["attempts"]
    ]
    output.long_table("attempts", ("#fence", "attempt", "outcome", "started", "ended", "error"), attempts)


COMMANDS = (
    Command(
        name="status",
        help="how far, and what blocks",
        arguments=(PIPELINE, TOPIC, PARTITION),
        action=status,
        view=show_status,
    ),
    Command(
        name="wave",
        help="one wave: ranges, attempts, accounting",
        arguments=(WAVE,),
        action=wave,
        view=show_wave,
    ),
)
