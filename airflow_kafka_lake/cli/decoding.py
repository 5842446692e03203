"""Decoding anew: `decode`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import PIPELINE, TOPIC, ports_of, spec_of
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.services import redecoding


def decode(arguments: argparse.Namespace, output: Output) -> Result:
    """Decode once more what is in the lake."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        done = redecoding.redecode(ports, spec, topic=arguments.topic, only_failed=arguments.failed)
    tables = [{"table": table, **item.to_json()} for table, item in done.items()]
    return Result(document={"pipeline": spec.name, "tables": tables})


def show_decoded(output: Output, document: Json) -> None:
    """Show what was decoded again, and how much of it still is not."""
    for item in document["tables"]:
        left = f"{item['failed']:,} of them do not decode" if item["failed"] else "all of them decode"
        output.line(
            f"{item['table']}: {item['rows']:,} rows decoded again; {left}"
            if item["rows"]
            else f"{item['table']}: no such rows"
        )


COMMANDS = (
    Command(
        name="decode",
        help="decode once more what is in the lake, from its raw bytes",
        arguments=(
            PIPELINE,
            TOPIC,
            Argument("--failed", action="store_true", help="only rows that did not decode"),
        ),
        action=decode,
        view=show_decoded,
    ),
)
