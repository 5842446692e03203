"""Commands that compare ledger and lake: `audit`, and `accept-deletes` for rows that were deleted on purpose."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.actions.offsets import SkipAction
from airflow_kafka_lake.adapters.machine import report_file, write_report
from airflow_kafka_lake.cli.command import (
    DRY_RUN,
    PARTITION,
    PIPELINE,
    REASON,
    REFUSED,
    TOPIC,
    Argument,
    Command,
    Result,
    field_argument,
    go_on,
    offset_number,
    ports_of,
    scope_of,
    spec_of,
)
from airflow_kafka_lake.cli.output import SHOWN, Output
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.report import AuditReport, OffsetStatus
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.offsets import OffsetRange, names_of, summed
from airflow_kafka_lake.pipeline.keys import parse_size
from airflow_kafka_lake.services import pipeline_audit
from airflow_kafka_lake.services.identity import known_spec

BEYOND = 2**63 - 1
"""An end above every offset."""
NOTED = 3
"""How many notes are shown; --json and the report have all, each with its stream."""


def audit(arguments: argparse.Namespace, output: Output) -> Result:
    """Compare ledger and lake, and with options Kafka or a live table."""
    report = report_file(arguments.report) if arguments.report else None
    checks = pipeline_audit.further_checks(
        deep=arguments.deep,
        deep_rate=parse_size(arguments.deep_rate) if arguments.deep_rate else None,
        cutover=arguments.cutover,
        cutover_columns=arguments.cutover_columns,
    )
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, need_spark=any(check.needs_spark for check in checks)) as ports:
        known_spec(ports.ledger, spec.name)
        found = pipeline_audit.audit(ports, spec, scope=scope_of(arguments), ask_kafka=bool(report), checks=checks)
    code = 0 if found.ok else REFUSED
    if report:
        from airflow_kafka_lake.pages.charts import audit_page

        try:
            write_report(report, audit_page(found))
            output.note(f"report: {report}")
        except UsageError as error:
            output.note(error.message)  # the result is shown all the same: it may have taken hours
            code = code or error.exit_code
    return Result(document=found, exit_code=code)


def show_audit(output: Output, report: AuditReport) -> None:
    """Show each stream's accounting and rows, and every finding."""
    streams, totals = report.streams, report.totals
    names = names_of(item.record.key for item in streams)
    rows = [(names[item.record.key], item.sentence, item.rows, item.duplicates, item.missing) for item in streams]
    columns = ("stream", "landed offsets", "#rows", "#twice", "#missing")
    output.long_table(f"audit of {report.pipeline}", columns, rows)
    if totals.streams != 1:
        output.line(totals.sentence)
    if totals.unread:
        output.line(
            f"the tables of {count(totals.unread, 'stream')} could not be read: the numbers are the recorded ones"
        )
    for note in sorted({note for item in streams for note in item.notes})[:NOTED]:
        output.line(f"note: {note}")
    spans = summed((part.status, part.range.span) for item in streams for part in item.timeline)
    left = [status for status in spans if status not in {OffsetStatus.COMMITTED, OffsetStatus.SKIPPED}]
    if said := ", ".join(f"{spans[status]:,} {status.value}" for status in left):
        output.line(f"offsets seen, not landed, and not audited: {said}; see {remedies.status(report.pipeline)}")
    for line in report.check_lines(SHOWN):
        output.line(line)
    found = [(item.kind, item.where, item.message) for item in report.findings]
    output.long_table(count(len(found), "finding"), ("finding", "where", "what"), found)
    output.line("nothing that landed is missing, twice or unexplained" if report.ok else "the audit failed")


def accept_deletes(arguments: argparse.Namespace, output: Output) -> Result:
    """Record that rows were deleted on purpose."""
    asked = _asked(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        known_spec(ports.ledger, spec.name)
        decision, deleted = pipeline_audit.accept_deletes(
            *(ports, spec, scope_of(arguments), asked),
            reason=arguments.reason,
            dry_run=arguments.dry_run,
            shown=arguments.shown,
        )
    document = {
        "pipeline": spec.name,
        "decision": decision,
        "shown": (digest := pipeline_audit.digest_of(deleted)),
        "rows": sum(found.rows for found in deleted),
        "deleted": [found.item.slice.entry() | {"rows": found.rows} for found in deleted],
    }
    rows = summed((found.item.stream, found.rows) for found in deleted)
    as_meant = "deleted on purpose" if decision else "would count as deleted on purpose"
    lines = [f"{stream}: {count(number, 'row')} {as_meant}" for stream, number in rows.items()]
    tried = f"nothing was recorded; do it with: {go_on(arguments)} --shown {digest}"
    return Result(document=document, lines=[*lines, f"recorded as {decision}" if decision else tried])


def _asked(arguments: argparse.Namespace) -> OffsetRange | None:
    """Read `--from --to`, each of which may be left out."""
    if arguments.from_ is None and arguments.to is None:
        return None
    start, end = arguments.from_ or 0, BEYOND if arguments.to is None else arguments.to
    if start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    return OffsetRange(start, end)


COMMANDS = (
    Command(
        name="audit",
        help="compare ledger and lake: nothing missing, twice or unexplained",
        arguments=(
            PIPELINE,
            Argument("--deep", action="store_true", help="read Kafka again, in Spark, and compare every byte"),
            Argument("--deep-rate", metavar="SIZE", help='with --deep: how much to read a second, such as "20 MiB"'),
            Argument(
                "--cutover", metavar="TABLE", help="also judge the cutover with the table that a live stream writes to"
            ),
            Argument(
                "--cutover-columns",
                metavar="topic=C,partition=C,offset=C",
                help="columns of that table; otherwise kafka_topic, kafka_partition, kafka_offset",
            ),
            Argument("--report", metavar="FILE", help="write a page for a browser, with a strip for every partition"),
            TOPIC,
            PARTITION,
        ),
        action=audit,
        view=show_audit,
    ),
    Command(
        name="accept-deletes",
        help="record that rows were deleted from the lake on purpose: they are not missing then",
        arguments=(
            PIPELINE,
            TOPIC,
            PARTITION,
            Argument("--from", dest="from_", metavar="O", type=offset_number, help="only from this offset on"),
            Argument("--to", metavar="O", type=offset_number, help="only up to this offset, exclusive"),
            REASON,
            DRY_RUN,
            field_argument(SkipAction.field("shown")),
        ),
        action=accept_deletes,
    ),
)
