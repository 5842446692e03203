"""What `accept-deletes` does."""

from __future__ import annotations

import argparse
from collections import defaultdict

from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import ports_of, scope_of, spec_of
from airflow_kafka_lake.core.audit.report import counted
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import accepting, reporting

BEYOND = 2**63 - 1
"""No offset is as large."""


def accept_deletes(arguments: argparse.Namespace, output: Output) -> int:
    """`accept-deletes PIPELINE`."""
    asked = _asked(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        reporting.known_spec(ports.ledger, spec.name)
        done = accepting.accept_deletes(
            ports, spec, scope_of(arguments), asked, reason=arguments.reason, dry_run=arguments.dry_run
        )
    document = {
        "pipeline": spec.name,
        "decision": done.decision,
        "rows": done.rows,
        "deleted": [
            {
                "topic": found.item.stream.topic,
                "topic_id": found.item.stream.topic_id,
                "partition": found.item.stream.partition,
                "from": found.item.range.start,
                "to": found.item.range.end,
                "rows": found.rows,
            }
            for found in done.deleted
        ],
    }
    if output.as_json:
        output.document(document)
        return 0
    rows: dict[str, int] = defaultdict(int)
    for found in done.deleted:
        rows[f"{found.item.stream}"] += found.rows
    for name, number in rows.items():
        output.line(f"{name}: {counted(number, 'row')} deleted on purpose")
    output.line("nothing was recorded: a dry run" if done.decision is None else f"recorded as {done.decision}")
    return 0


def _asked(arguments: argparse.Namespace) -> OffsetRange | None:
    """Read `--from --to`, each of which may be left out."""
    if arguments.from_ is None and arguments.to is None:
        return None
    start, end = arguments.from_ or 0, BEYOND if arguments.to is None else arguments.to
    if start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    return OffsetRange(start, end)
