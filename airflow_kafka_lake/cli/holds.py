"""Commands that put ranges on hold and take them off: `cancel`, `release`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import (
    DROP_STAGED,
    REASON,
    SUBJECT,
    free_text,
    ports_of,
    spec_of_subject,
)
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.wiring.assemble import open_ledger


def cancel(arguments: argparse.Namespace, output: Output) -> Result:
    """Put a wave or a range on hold."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.subject)
    with ports_of(arguments, output, spec) as ports:
        ranges = decisions.cancel(ports, arguments.subject, arguments.reason, drop_staged=arguments.drop_staged)
    return Result(document={"cancelled": list(ranges)}, beside={"subject": arguments.subject})


def show_cancelled(output: Output, document: Json) -> None:
    """Show how many ranges are on hold, and the remedy."""
    ranges, subject = document["cancelled"], document["subject"]
    output.line(f"cancelled {count(len(ranges), 'range')}; take the hold off with: {remedies.release(subject)}")


def release(arguments: argparse.Namespace, output: Output) -> Result:
    """Take a wave or a range off hold."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.subject)
    with ports_of(arguments, output, spec) as ports:
        wave_id, ranges = decisions.release(ports, arguments.subject, arguments.reason)
    return Result(document={"wave": wave_id, "released": list(ranges)}, beside={"pipeline": spec.name})


def show_released(output: Output, document: Json) -> None:
    """Show the wave that the ranges are in now."""
    ranges, wave = document["released"], document["wave"]
    run = remedies.run(document["pipeline"])
    output.line(f"released {count(len(ranges), 'range')} into wave {wave}; run it with: {run}")


COMMANDS = (
    Command(
        name="cancel",
        help="put a wave or a range on hold",
        arguments=(SUBJECT, REASON, DROP_STAGED),
        action=cancel,
        view=show_cancelled,
    ),
    Command(
        name="release",
        help="take a wave or a range off hold",
        arguments=(SUBJECT, Argument("--reason", metavar="TEXT", type=free_text, help="why")),
        action=release,
        view=show_released,
    ),
)
