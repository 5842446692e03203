"""Setting up: `db`, `jars`, and the `demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.amounts import count


def db(arguments: argparse.Namespace, _: Output) -> Result:
    """Bring the ledger's schema up to date, or only check it."""
    from airflow_kafka_lake.wiring.ledger import LedgerConnection

    schema = LedgerConnection(arguments.ledger).schema()
    text = schema.upgrade() if arguments.act == "upgrade" else schema.check()
    return Result(document={"ledger": arguments.ledger, "schema": text})


def show_schema(output: Output, document: Json) -> None:
    """Show which schema the ledger has."""
    output.line(document["schema"])


def jars(arguments: argparse.Namespace, output: Output) -> Result:
    """Fetch and verify the jars of all jobs, and of lakes in the stores that are named."""
    from airflow_kafka_lake.wiring.spark import fetch_jars

    found = fetch_jars(output.progress, arguments.stores or ())
    folders = list(dict.fromkeys(str(path.parent) for path in found))
    return Result(document={"jars": [path.name for path in found], "folder": folders[0], "folders": folders})


def show_jars(output: Output, document: Json) -> None:
    """Show where the jars are."""
    output.line(
        f"{count(len(document['jars']), 'jar is', 'jars are')} there and verified: {', '.join(document['folders'])}"
    )


def demo(arguments: argparse.Namespace, output: Output) -> Result:
    """Run the demonstration, which prints its result while its services run."""
    from airflow_kafka_lake.local.demo import demonstrate

    report = Path(arguments.report) if arguments.report else None
    code = demonstrate(output, keep_running=not arguments.exit_, report=report)
    return Result(document={}, exit_code=code)


STORES = Argument(
    "--for", dest="stores", action="append", choices=("s3",), help="also what Spark needs for a lake in that store"
)

COMMANDS = (
    Command(
        name="db",
        help="the ledger's schema",
        arguments=(Argument("act", choices=("upgrade", "check"), help="bring it up to date, or only look"),),
        action=db,
        view=show_schema,
    ),
    Command(
        name="jars",
        help="the Spark jars of this package",
        arguments=(Argument("act", choices=("fetch",), help="fetch and verify"), STORES),
        action=jars,
        view=show_jars,
    ),
    Command(
        name="demo",
        help="a real Kafka, Spark, Iceberg and Airflow on this machine, and the proof",
        arguments=(
            Argument("--exit", action="store_true", dest="exit_", help="stop everything at the end"),
            Argument("--report", metavar="FILE", help="write the result as JSON"),
        ),
        action=demo,
    ),
)
