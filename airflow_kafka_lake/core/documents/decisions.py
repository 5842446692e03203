"""`skip --json`, `reopen --json` and `withdraw --json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_lake.core.ledger.withdrawing import Kept, Withdrawal
from airflow_kafka_lake.core.planning.selection import Chosen

Json = dict[str, Any]


def where(item: Chosen) -> Json:
    """Return the slice that a decision is about."""
    return {**item.stream.key._asdict(), "from": item.interval.start, "to": item.interval.end}


def digest(streams: Iterable[Mapping[str, Any]]) -> str:
    """Return 16 hex digits for which offsets of which streams a document is about; its numbers have no part in it."""
    named = [
        [item["topic"], item["topic_id"], item["partition"], item.get("withdrawn") or [item["from"], item["to"]]]
        for item in streams
    ]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


def of_streams(pipeline: str, streams: Sequence[Json], total: Mapping[str, Any], *, dry_run: bool) -> Json:
    """Return the document of several streams, with totals; `from` and `to` only where it is one stream."""
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


def withdrawn_document(pipeline: str, what: Withdrawal, kept: Iterable[Kept], *, dry_run: bool) -> Json:
    """Return what was withdrawn, or would be, and what stays planned."""
    return {
        "pipeline": pipeline,
        "dry_run": dry_run,
        "offsets": what.offsets,
        "ranges": len(what.ranges),
        "waves": list(what.waves),
        "streams": [
            {**stream._asdict(), "withdrawn": offsets.to_pairs()} for stream, offsets in what.by_stream.items()
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
            for item in kept
        ],
    }


def nothing_withdrawn(pipeline: str) -> Json:
    """Return the document of a withdrawal that was on record before."""
    return {
        "pipeline": pipeline,
        "dry_run": False,
        "offsets": 0,
        "ranges": 0,
        "waves": [],
        "streams": [],
        "kept": [],
    }
