"""Commands after an accident: `recover` open waves, `rebuild` a ledger."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import DROP_STAGED, PIPELINE, ports_of, spec_of
from airflow_kafka_lake.cli.command import REPEAT, Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.documents.status import advance_document
from airflow_kafka_lake.services import rebuilding, recovery
from airflow_kafka_lake.services.reporting import known_spec


def recover(arguments: argparse.Namespace, output: Output) -> Result:
    """Look in the lake for the commits of open waves."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        known_spec(ports.ledger, spec.name)  # of another one nothing is open, and nothing was looked for
        done = recovery.recover(ports, spec.name)
    document = {
        "pipeline": spec.name,
        "adopted": list(done.adopted),
        "returned": list(done.returned),
        "busy": list(done.busy),
        "dropped": list(done.swept.dropped),
        "foreign": list(done.swept.foreign),
        "unswept": [{"table": table, "reason": reason} for table, reason in done.swept.left.items()],
    }
    return Result(document=document, exit_code=REPEAT if done.busy else 0)


def show_recovered(output: Output, document: Json) -> None:
    """Show what became of each open wave."""
    for found, what in (
        ("adopted", "found in the lake and recorded as landed"),
        ("returned", "not there, to be staged again"),
        ("busy", "in others' hands"),
    ):
        output.line(f"{count(len(document[found]), 'wave')} {what}: {', '.join(document[found]) or 'none'}")
    output.line(f"{count(len(document['dropped']), 'abandoned staging branch', 'abandoned staging branches')} dropped")
    for item in document["unswept"]:
        output.line(
            f"staging branches of {item['table']} could not be looked at, and go the next time: {item['reason']}"
        )


def rebuild(arguments: argparse.Namespace, output: Output) -> Result:
    """Make a ledger agree with the lake."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        done = rebuilding.rebuild(
            ports, spec, accept_rollback=arguments.accept_rollback, drop_staged=arguments.drop_staged
        )
    document = {
        "pipeline": spec.name,
        "rebuild": done.id,
        "waves": done.waves,
        "ranges": done.ranges,
        "skips": done.skips,
        "reopened": [item.to_json() for item in done.reopened],
        "deleted": [item.to_json() for item in done.deleted],
        "advanced": advance_document(spec.name, done.moves)["streams"],
    }
    return Result(document=document)


def show_rebuilt(output: Output, document: Json) -> None:
    """Show what was restored from the lake, and what is read again."""
    waves, ranges = count(document["waves"], "wave"), count(document["ranges"], "range")
    output.line(f"{waves} with {ranges} came back from the lake, which has {count(document['skips'], 'skip')}")
    reopened = [
        (stream_text(item), item["from"], item["to"], item["expected"], item["attempt"])
        for item in document["reopened"]
    ]
    columns = ("stream", "#from", "#to", "#rows", "attempt")
    output.long_table("vanished from the lake: the next run reads it again", columns, reopened)
    if deleted := document["deleted"]:
        rows = sum(item["expected"] - item["found"] for item in deleted)
        output.line(
            f"others have deleted {count(rows, 'row')} of {count(len(deleted), 'committed range')} from the lake: "
            "nothing of that is read again. If it was on purpose, record it with: "
            f"{remedies.accept_deletes(document['pipeline'])}"
        )
    output.line(f"go on with: {remedies.run(document['pipeline'])}")


COMMANDS = (
    Command(
        name="recover",
        help="ask the lake about waves that were left open",
        arguments=(PIPELINE,),
        action=recover,
        view=show_recovered,
    ),
    Command(
        name="rebuild",
        help="make a lost or older ledger agree with the lake",
        arguments=(
            PIPELINE,
            Argument(
                "--accept-rollback",
                action="store_true",
                help="the lake was rolled back or re-created: plan again exactly what vanished from it",
            ),
            DROP_STAGED,
        ),
        action=rebuild,
        view=show_rebuilt,
    ),
)
