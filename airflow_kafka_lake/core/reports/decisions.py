"""The decisions of people as documents, and as Markdown for a person who approves them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, assert_never

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.decisions import KeptRange, Withdrawal
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.selection import SelectedSlice
from airflow_kafka_lake.core.reports.plan import bullets, plain, table

# `skip --json`, `reopen --json` and `withdraw --json`.

Json = dict[str, Any]


def where(item: SelectedSlice) -> Json:
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


def withdrawn_document(pipeline: str, what: Withdrawal, kept: Iterable[KeptRange], *, dry_run: bool) -> Json:
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


# A decision for the person who approves it in Airflow's page: one line, then numbers and consequences in Markdown.
#
# Made of the documents of `reopen`, `skip` and `withdraw`, dry or carried out.

MOST = 50
"""Partitions, and ranges that stay, that are shown."""


class DecisionKind(StrEnum):
    """What a person decides about offsets; the values are the kinds of its events in the history."""

    REOPEN = "reopen"
    SKIP = "skip"
    WITHDRAW = "withdraw"


def headline(decision: DecisionKind, document: Json) -> str:
    """Return in one line what is decided about how much."""
    offsets, streams = offsets_of(decision, document), len(document["streams"])
    rows = f" with {count(_rows(document), 'row')}" if decision is DecisionKind.REOPEN else ""
    return (
        f"{decision.capitalize()} {count(offsets, 'offset')}{rows} of {count(streams, 'partition')} of "
        f"{document['pipeline']}"
    )


def offsets_of(decision: DecisionKind, document: Json) -> int:
    """Return how many offsets a decision changes."""
    return int(document[{"reopen": "reopened", "skip": "skipped", "withdraw": "offsets"}[decision]])


def markdown(decision: DecisionKind, document: Json, *, reason: str, flags: Sequence[str]) -> str:
    """Return what a decision would do, below its headline; `flags` are the switches of it that are on."""
    match decision:
        case DecisionKind.REOPEN:
            columns, rows, numbers = _reopened(document)
        case DecisionKind.SKIP:
            columns, rows, numbers = _skipped(document)
        case DecisionKind.WITHDRAW:
            columns, rows, numbers = _withdrawn(document)
        case _ as never:
            assert_never(never)
    parts = [
        f"Reason: {plain(reason)}",
        table(columns, rows, most=MOST, numbers=numbers),
        bullets(list(_consequences(decision, document, flags))),
    ]
    if kept := document.get("kept"):
        lines = [
            f"{item['topic']}/{item['partition']} {item['start']}-{item['end']}: {item['reason']}" for item in kept
        ]
        more = [f"and {len(kept) - MOST:,} more"] if kept[MOST:] else []
        parts += ["What stays planned:", bullets([*lines[:MOST], *more])]
    return "\n\n".join(parts)


def next_step(decision: DecisionKind, document: Json) -> str:
    """Return what to do once it is decided."""
    pipeline = document["pipeline"]
    if decision is DecisionKind.REOPEN:
        return f"What is in the lake stays until it is read again: {remedies.run(pipeline)}, or the pipeline's next run"
    if decision is DecisionKind.WITHDRAW:
        return f"A later plan takes these offsets again: {remedies.run(pipeline)}, or the pipeline's next run"
    if waves := ", ".join(document["waves"]):
        return f"What was held for them goes on in wave {waves}: {remedies.run(pipeline)}, or the pipeline's next run"
    return f"The watermark moves over them: {remedies.advance(pipeline)}, or the pipeline's next run"


def _rows(document: Json) -> int:
    return sum(item["rows"] for item in document["streams"])


def _stream(item: Json) -> str:
    return f"{item['topic']}/{item['partition']}"


def _pairs(pairs: Sequence[Sequence[int]]) -> RangeSet:
    return RangeSet(OffsetRange(start, end) for start, end in pairs)


Table = tuple[Sequence[str], list[Sequence[object]], Sequence[int]]


def _reopened(document: Json) -> Table:
    rows: list[Sequence[object]] = [
        (
            _stream(item),
            f"{item['from']}-{item['to']}",
            f"{item['reopened']:,}",
            f"{item['rows']:,}",
            len(item["waves"]),
            f"{item['watermark']:,}",
        )
        for item in document["streams"]
    ]
    return ("partition", "offsets", "how many", "rows", "waves", "watermark then"), rows, (2, 3, 4, 5)


def _skipped(document: Json) -> Table:
    rows: list[Sequence[object]] = [
        (
            _stream(item),
            f"{item['from']}-{item['to']}",
            f"{item['skipped']:,}",
            ", ".join(item["waves"]) or "none",
            ", ".join(item["fenced"]) or "none",
            _pairs(item["goes_on"]).describe() if item["goes_on"] else "none",
        )
        for item in document["streams"]
    ]
    columns = ("partition", "offsets", "left unread", "taken from waves", "fenced first", "held for them, goes on")
    return columns, rows, (2,)


def _withdrawn(document: Json) -> Table:
    rows: list[Sequence[object]] = []
    for item in document["streams"]:
        offsets = _pairs(item["withdrawn"])
        rows.append((_stream(item), offsets.describe(), f"{offsets.span:,}"))
    return ("partition", "offsets", "not planned any more"), rows, (2,)


_WARNINGS = {
    "accept_fewer": "If the second reading has fewer rows, the rows that Kafka has no longer are removed.",
    "drop_staged": "Staged records that exist nowhere else may be dropped: they are lost then.",
    "acknowledge_order": "Records that come later in the order may be read although these are missing.",
}


def _consequences(decision: DecisionKind, document: Json, flags: Sequence[str]) -> Iterator[str]:
    match decision:
        case DecisionKind.REOPEN:
            yield "The rows stay visible until they are read again; one commit takes them away and shows the new ones."
            yield "The watermark falls as the table says, and consumers are told of these offsets once more."
        case DecisionKind.SKIP:
            yield "Records at these offsets stay out of the table. Who wants them after all reopens them."
            if "acknowledge_order" not in flags:
                yield "Later segments of the topic do not start over this gap; acknowledging the order lets them."
        case DecisionKind.WITHDRAW:
            waves = count(len(document["waves"]), "wave")
            yield f"{count(document['ranges'], 'range leaves', 'ranges leave')} the plan, of {waves}."
            yield "Nothing of them was read, so nothing is lost: a later plan takes the same offsets again."
        case _ as never:
            assert_never(never)
    yield from (_WARNINGS[flag] for flag in flags)
