"""What the commands do with which a person decides about offsets: `skip`, `reopen`, `withdraw`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_lake.cli import views
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import is_file, period_of, ports_of, selection_of, spec_of
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.hooks.assembly import open_ledger
from airflow_kafka_lake.services import deciding, reopening, withdrawing
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.services.selecting import Chosen, all_or_nothing, choose, one_by_one

Json = Mapping[str, Any]
REFUSED = 1


def skip(arguments: argparse.Namespace, output: Output) -> int:
    """`skip PIPELINE`."""
    selection = period_of(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        chosen = choose(ports, spec.name, selection)
        shown = all_or_nothing(
            chosen,
            lambda item: deciding.preview_skip(ports, spec.name, item.stream, item.stretch, reason=arguments.reason),
        )
        if arguments.dry_run:
            streams = [
                _where(item)
                | {
                    "skipped": part.offsets,
                    "waves": list(part.waves),
                    "fenced": list(part.fenced),
                    "goes_on": part.goes_on.to_pairs(),
                }
                for item, part in zip(chosen, shown, strict=True)
            ]
        else:
            done = one_by_one(
                chosen,
                chosen,
                lambda item: deciding.skip(
                    ports,
                    spec.name,
                    item.stream,
                    item.stretch,
                    reason=arguments.reason,
                    acknowledge_order=arguments.acknowledge_order,
                    drop_staged=arguments.drop_staged,
                ),
            )
            streams = [
                _where(item) | {"skipped": passed.offsets, "waves": list(passed.waves)}
                for item, passed in zip(chosen, done, strict=True)
            ]
    total = {"skipped": sum(item["skipped"] for item in streams)}
    output.result(_of_streams(spec.name, streams, total, dry_run=arguments.dry_run), views.skip)
    return 0


def reopen(arguments: argparse.Namespace, output: Output) -> int:
    """`reopen PIPELINE`."""
    selection = period_of(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        chosen = choose(ports, spec.name, selection)
        prepared = all_or_nothing(
            chosen,
            lambda item: reopening.prepare(
                ports,
                spec,
                item.stream,
                item.stretch,
                reason=arguments.reason,
                accept_fewer=arguments.accept_fewer,
                drop_staged=arguments.drop_staged,
            ),
        )
        streams = [
            _where(item)
            | {
                "reopened": part.offsets,
                "rows": part.rows,
                "waves": list(part.waves),
                "watermark": part.watermark,
                "started": [],
            }
            for item, part in zip(chosen, prepared, strict=True)
        ]
        if not arguments.dry_run:
            done = one_by_one(chosen, prepared, lambda part: reopening.carry_out(ports, spec, part))
            for item, reopened in zip(streams, done, strict=True):
                item |= {
                    "watermark": reopened.watermark,
                    "started": [_segment(segment) for segment in reopened.started],
                }
    total = {
        "reopened": sum(item["reopened"] for item in streams),
        "watermark": streams[0]["watermark"] if len(streams) == 1 else None,
        "started": list({tuple(segment.items()): segment for item in streams for segment in item["started"]}.values()),
    }
    output.result(_of_streams(spec.name, streams, total, dry_run=arguments.dry_run), views.reopen)
    return 0


def _where(item: Chosen) -> dict[str, Any]:
    stream = item.stream
    return {
        "topic": stream.key.topic,
        "topic_id": stream.key.topic_id,
        "partition": stream.key.partition,
        "from": item.stretch.start,
        "to": item.stretch.end,
    }


def _segment(item: Segment) -> Json:
    return {
        "topic": item.stream.topic,
        "topic_id": item.stream.topic_id,
        "partition": item.stream.partition,
        "start": item.start,
    }


def _of_streams(pipeline: str, streams: Sequence[Json], total: Json, *, dry_run: bool) -> Json:
    """Return what was decided of each stream, and all of it together; `from` and `to` where it is one stream."""
    only = streams[0] if len(streams) == 1 else {}
    return {
        "pipeline": pipeline,
        "dry_run": dry_run,
        "from": only.get("from"),
        "to": only.get("to"),
        "waves": list(dict.fromkeys(wave for item in streams for wave in item["waves"])),
        **total,
        "streams": list(streams),
    }


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
            {"topic": key.topic, "topic_id": key.topic_id, "partition": key.partition, "withdrawn": offsets.to_pairs()}
            for key, offsets in what.by_stream.items()
        ],
        "kept": [
            {
                "range": item.record.id,
                "wave": item.record.wave,
                "topic": item.record.stream.topic,
                "partition": item.record.stream.partition,
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
