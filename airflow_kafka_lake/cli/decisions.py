"""Commands that record a decision about offsets: `skip`, `reopen`, `withdraw`."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import (
    DROP_STAGED,
    DRY_RUN,
    PIPELINE,
    REASON,
    SELECTION,
    THE_PERIOD,
    go_on,
    is_file,
    period_of,
    ports_of,
    selection_of,
    spec_of,
    subject_id,
)
from airflow_kafka_lake.cli.command import REFUSED, Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.services import bulk_decisions, decisions
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger


def skip(arguments: argparse.Namespace, output: Output) -> Result:
    """Skip offsets, or show what a skip would change."""
    selection = period_of(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        document = bulk_decisions.skip(
            ports,
            spec,
            selection,
            reason=arguments.reason,
            acknowledge_order=arguments.acknowledge_order,
            drop_staged=arguments.drop_staged,
            dry_run=arguments.dry_run,
        )
    return Result(document=document, beside={"go_on": go_on(arguments)})


def show_skipped(output: Output, document: Json) -> None:
    """Show what was or would be skipped, and which held offsets go on after it."""
    dry = document["dry_run"]
    for item in document["streams"]:
        where = f"{stream_text(item)} {item['from']}-{item['to']}"
        skipped = f"{count(item['skipped'], 'offset')} of {where}"
        if not dry:
            output.line(f"skipped {skipped}")
            continue
        fenced = f"; fenced first, as they were claimed: {', '.join(item['fenced'])}" if item["fenced"] else ""
        freed = ", ".join(f"{start}-{end}" for start, end in item["goes_on"])
        goes_on = f"; {freed} was held for these and would go on" if freed else ""
        waves = ", ".join(item["waves"]) or "none"
        output.line(f"would skip {skipped}; taken from waves: {waves}{fenced}{goes_on}")
    if dry:
        _nothing_changed(output, document)
    elif document["waves"]:
        waves = ", ".join(document["waves"])
        output.line(f"what was held for them goes on in wave {waves}: {remedies.run(document['pipeline'])}")
    else:
        output.line(f"move the watermark with: {remedies.advance(document['pipeline'])}")


def reopen(arguments: argparse.Namespace, output: Output) -> Result:
    """Reopen committed offsets, or show what that would change."""
    selection = period_of(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        document = bulk_decisions.reopen(
            ports,
            spec,
            selection,
            reason=arguments.reason,
            accept_fewer=arguments.accept_fewer,
            drop_staged=arguments.drop_staged,
            dry_run=arguments.dry_run,
        )
    return Result(document=document, beside={"go_on": go_on(arguments)})


def show_reopened(output: Output, document: Json) -> None:
    """Show what is or would be read again, and by which command."""
    for item in document["streams"]:
        where = f"{count(item['reopened'], 'offset')} of {stream_text(item)} {item['from']}-{item['to']}"
        if document["dry_run"]:
            output.line(
                f"would reopen {where} with {count(item['rows'], 'row')} in {count(len(item['waves']), 'wave')}; the "
                f"watermark would be {item['watermark']}"
            )
        else:
            waves = ", ".join(item["waves"])
            output.line(f"reopened {where} in wave {waves}; the watermark is {item['watermark']}")
    if document["dry_run"]:
        _nothing_changed(output, document)
        return
    output.line(f"What is in the lake stays until it is read again with: {remedies.run(document['pipeline'])}")
    for item in document["started"]:
        output.line(
            f"order: {stream_text(item)} from {item['start']} continues it and is in the lake in part "
            "already: what is read again comes after it"
        )


def withdraw(arguments: argparse.Namespace, output: Output) -> Result:
    """Withdraw planned ranges that no attempt has begun to read."""
    selection = selection_of(arguments)
    name = spec_of(arguments.subject, arguments.ledger).name if is_file(arguments.subject) else arguments.subject
    with open_ledger(arguments.ledger) as ledger:
        spec = known_spec(ledger, decisions.find_subject(ledger, name).pipeline)
    with ports_of(arguments, output, spec) as ports:
        document = bulk_decisions.withdraw(ports, name, selection, reason=arguments.reason, dry_run=arguments.dry_run)
    return Result(document=document, beside={"go_on": go_on(arguments)}, exit_code=REFUSED if document["kept"] else 0)


def show_withdrawn(output: Output, document: Json) -> None:
    """Show what is not planned any more, and what is kept."""
    verb = "would withdraw" if document["dry_run"] else "withdrew"
    output.line(
        f"{verb} {count(document['offsets'], 'offset')} in {count(document['ranges'], 'range')} of wave "
        f"{', '.join(document['waves'])}: nothing of them was read; a later plan takes them again"
    )
    rows = [
        (stream_text(item), ", ".join(f"{start}-{end}" for start, end in item["withdrawn"]))
        for item in document["streams"]
    ]
    output.table("not planned any more", ("stream", "offsets"), rows)
    for item in document["kept"]:
        output.line(f"stays: {stream_text(item)} {item['start']}-{item['end']}: {item['reason']}")
    if document["dry_run"]:
        _nothing_changed(output, document)


def _nothing_changed(output: Output, document: Json) -> None:
    output.line(f"nothing was changed; do it with: {document['go_on']}")


COMMANDS = (
    Command(
        name="skip",
        help="pass offsets unread, by your decision",
        arguments=(
            PIPELINE,
            *THE_PERIOD,
            REASON,
            DRY_RUN,
            Argument("--acknowledge-order", action="store_true", help="later segments may start over it"),
            DROP_STAGED,
        ),
        action=skip,
        view=show_skipped,
    ),
    Command(
        name="reopen",
        help="read a committed or skipped slice again; the new rows take the place of the old ones in one commit",
        arguments=(
            PIPELINE,
            *THE_PERIOD,
            REASON,
            DRY_RUN,
            Argument("--accept-fewer", action="store_true", help="also if it has fewer rows than the lake has now"),
            DROP_STAGED,
        ),
        action=reopen,
        view=show_reopened,
    ),
    Command(
        name="withdraw",
        help="take off the plan what no attempt has begun to read; a later plan takes it again",
        arguments=(
            Argument("subject", metavar="PIPELINE|PLAN|WAVE|RANGE", type=subject_id, help="what was planned"),
            *SELECTION,
            REASON,
            DRY_RUN,
        ),
        action=withdraw,
        view=show_withdrawn,
    ),
)
