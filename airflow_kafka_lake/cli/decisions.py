"""What the commands do with which a person decides about offsets: `withdraw`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import is_file, ports_of, selection_of, spec_of
from airflow_kafka_lake.hooks.assembly import open_ledger
from airflow_kafka_lake.services import withdrawing
from airflow_kafka_lake.services.reporting import known_spec

Json = Mapping[str, Any]
REFUSED = 1


def withdraw(arguments: argparse.Namespace, output: Output) -> int:
    """`withdraw PIPELINE|PLAN|WAVE|RANGE`."""
    selection = selection_of(arguments)
    name = spec_of(arguments.subject, arguments.ledger).name if is_file(arguments.subject) else arguments.subject
    with open_ledger(arguments.ledger) as ledger:
        subject = withdrawing.named(ledger, name)
        spec = known_spec(ledger, subject.pipeline)
    with ports_of(arguments, output, spec) as ports:
        done = withdrawing.withdraw(ports, subject, selection, reason=arguments.reason, dry_run=arguments.dry_run)
    document = _withdrawn(spec.name, done, dry_run=arguments.dry_run)
    output.result(document, _show_withdrawn)
    return REFUSED if done.kept else 0


def _withdrawn(pipeline: str, done: withdrawing.Done, *, dry_run: bool) -> Json:
    what = done.what
    return {
        "pipeline": pipeline,
        "dry_run": dry_run,
        "offsets": what.offsets,
        "ranges": len(what.ranges),
        "waves": list(what.waves),
        "streams": [
            {"topic": key[0], "topic_id": key[1], "partition": key[2], "withdrawn": offsets.to_pairs()}
            for key, offsets in what.by_stream.items()
        ],
        "kept": [
            {
                "range": item.record.id,
                "wave": item.record.wave,
                "topic": item.record.topic,
                "partition": item.record.partition,
                "start": item.record.range.start,
                "end": item.record.range.end,
                "reason": item.reason,
            }
            for item in done.kept
        ],
    }


def _show_withdrawn(output: Output, document: Json) -> None:
    verb = "would withdraw" if document["dry_run"] else "withdrew"
    output.line(
        f"{verb} {document['offsets']} offsets in {document['ranges']} ranges of wave {', '.join(document['waves'])}: "
        f"nothing of them was read; a later plan takes them again"
    )
    rows = [
        (f"{item['topic']}/{item['partition']}", ", ".join(f"{start}-{end}" for start, end in item["withdrawn"]))
        for item in document["streams"]
    ]
    output.table("not planned any more", ("stream", "offsets"), rows)
    for item in document["kept"]:
        output.line(f"stays: {item['topic']}/{item['partition']} {item['start']}-{item['end']}: {item['reason']}")
