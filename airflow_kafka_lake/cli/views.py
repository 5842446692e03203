"""The documents of WIRE.md as tables that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.filesize import decimal

from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.core.audit.report import counted, said

SHOWN = 40
"""Rows of a long table; the rest is counted."""
NOTED = 3
"""Notes that are shown; each stands beside its stream with --json and in the report."""

Json = Mapping[str, Any]


def plan(output: Output, document: Json, *, dry_run: bool, where: str) -> None:
    """Show a plan: ranges, bytes, time and deadline."""
    rows = [
        (
            number if wave["wave"] is None else wave["wave"],
            wave["table"],
            f"{item['topic']}/{item['partition']}",
            item["start"],
            item["end"],
            item["end"] - item["start"],
            decimal(item["estimated_bytes"]),
        )
        for number, wave in enumerate(document["waves"])
        for item in wave["ranges"]
    ]
    act = "dry run" if dry_run else "plan"
    title = f"{act} of {document['pipeline']}: {len(rows)} ranges, {len(document['waves'])} waves"
    _table(output, title, ("wave", "table", "stream", "#from", "#to", "#offsets", "#bytes in Kafka"), rows)
    if not rows:
        output.line(f"nothing to do: {_everything(document, 'planned or settled')}")
    else:
        _forecast(output, document, where)
    _period(output, document, 0 if rows else 1)
    _waiting(output, document)
    for item in document["settling"]:
        output.line(f"waiting: {item['topic']}/{item['partition']}: {item['reason']}")
    for item in document["blocked"]:
        where = item["topic"] if item["partition"] is None else f"{item['topic']}/{item['partition']}"
        output.line(f"blocked: {where}: {item['reason']}")
    if dry_run:
        output.line("nothing was written")


def _everything(document: Json, done: str) -> str:
    return document["period"]["words"][0] if document["period"] else f"everything up to the end policy is {done}"


def _period(output: Output, document: Json, begin: int) -> None:
    for text in document["period"]["words"][begin:] if document["period"] else ():
        output.line(text)


def _waiting(output: Output, document: Json) -> None:
    for item in document["waiting_for_stable"]:
        output.line(
            f"waiting for stable: {item['topic']}/{item['partition']} is stable to {item['last_stable']} of "
            f"{item['high_watermark']}" + (f", held by {item['words']}" if item["words"] else "")
        )


def _forecast(output: Output, document: Json, where: str) -> None:
    output.line(
        f"about {document['estimated_records']} records, {decimal(document['estimated_bytes'])} in Kafka "
        f"({document['estimated_bytes_state']}), {document['estimated_seconds']:.0f} s on {where}"
    )
    size, state = document["estimated_lake_bytes"], document["estimated_lake_bytes_state"]
    output.line(f"bytes in the lake: {state}" if size is None else f"about {decimal(size)} in the lake ({state})")
    deadline, state = document["retention_deadline"], document["retention_deadline_state"]
    stream = document["retention_stream"]
    if deadline:
        output.line(f"retention may take {stream[0]}/{stream[1]} from {deadline} on ({state})")
    else:
        output.line(f"retention deadline: {state}")


def run(output: Output, document: Json) -> None:
    """Show what a run did."""
    if not document["waves"] and not document["problems"] and not document["held"]:
        output.line(f"nothing to do: {_everything(document, 'settled')}")
    else:
        rows = [(item["wave"], item["state"], item["rows"]) for item in document["waves"]]
        _table(output, f"run of {document['pipeline']}: {document['rows']} rows", ("wave", "state", "#rows"), rows)
    moves = [(f"{m['topic']}/{m['partition']}", m["from"], m["to"]) for m in document["advanced"]]
    if moves:
        _table(output, "watermarks moved", ("stream", "#from", "#to"), moves)
    _period(output, document, 1)
    if document["left"]:
        size = decimal(sum(item["estimated_bytes"] for item in document["left"]))
        output.line(
            f"left: {len(document['left'])} waves that were planned earlier and not asked for, about {size} in Kafka; "
            f"take them too with --all, or with: kafka-lake run {document['pipeline']}"
        )
    _waiting(output, document)
    for text in document["held"]:
        output.line(f"held: {text}")
    for problem in document["problems"]:
        output.line(f"problem: {problem['message']}")


def status(output: Output, document: Json) -> None:
    """Show streams, what blocks, and the waves that are not done."""
    rows = [
        (
            f"{item['topic']}/{item['partition']}",
            item["origin"],
            item["watermark"],
            item["hold"],
            item["planned_until"],
            item["last_stable"],
            item["lag"],
            "" if item["bounds_state"] == "observed" else item["bounds_state"],
        )
        for item in document["streams"]
    ]
    columns = ("stream", "#origin", "#watermark", "#hold", "#planned until", "#last stable", "#lag", "note")
    _table(output, f"pipeline {document['pipeline']} at {document['observed_at']}", columns, rows)
    if not rows:
        output.line(f"no stream is known that fits: see what would be read with kafka-lake plan {document['pipeline']}")
    for item in document["streams"]:
        for start, end in item["reopened"]:
            output.line(f"{item['topic']}/{item['partition']} {start}-{end} was reopened: it waits to be read again")
        for text in item["blocked_by"]:
            output.line(f"{item['topic']}/{item['partition']} blocked by {text}")
    _waiting(output, document)
    waves = [
        (item["wave"], item["table"], item["state"], item["fence"], item["ranges"], item["rows"])
        for item in reversed(document["waves"])
    ]
    _table(output, "waves, newest first", ("wave", "table", "state", "#fence", "#ranges", "#rows"), waves)


def skip(output: Output, document: Json) -> None:
    """Show what was passed unread, or would be, and where what was held for it goes on."""
    dry = document["dry_run"]
    for item in document["streams"]:
        where = f"{item['topic']}/{item['partition']} {item['from']}-{item['to']}"
        if not dry:
            output.line(f"skipped {item['skipped']} offsets of {where}")
            continue
        fenced = f"; fenced first, as they were claimed: {', '.join(item['fenced'])}" if item["fenced"] else ""
        freed = ", ".join(f"{start}-{end}" for start, end in item["goes_on"])
        goes_on = f"; {freed} was held for these and would go on" if freed else ""
        waves = ", ".join(item["waves"]) or "none"
        output.line(f"would skip {item['skipped']} offsets of {where}; taken from waves: {waves}{fenced}{goes_on}")
    if dry:
        output.line("nothing was changed")
    elif document["waves"]:
        waves = ", ".join(document["waves"])
        output.line(f"what was held for them goes on in wave {waves}: kafka-lake run {document['pipeline']}")
    else:
        output.line(f"move the watermark with: kafka-lake advance {document['pipeline']}")


def reopen(output: Output, document: Json) -> None:
    """Show what is read again, or would be, and by which command."""
    for item in document["streams"]:
        where = f"{item['reopened']} offsets of {item['topic']}/{item['partition']} {item['from']}-{item['to']}"
        if document["dry_run"]:
            output.line(
                f"would reopen {where} with {item['rows']} rows in {len(item['waves'])} waves; the watermark would be "
                f"{item['watermark']}"
            )
        else:
            waves = ", ".join(item["waves"])
            output.line(f"reopened {where} in wave {waves}; the watermark is {item['watermark']}")
    if document["dry_run"]:
        output.line("nothing was changed")
        return
    output.line(f"What is in the lake stays until it is read again with: kafka-lake run {document['pipeline']}")
    for item in document["started"]:
        output.line(
            f"order: {item['topic']}/{item['partition']} from {item['start']} continues it and is in the lake in part "
            "already: what is read again comes after it"
        )


def decode(output: Output, document: Json) -> None:
    """Show what was decoded again, and how much of it still is not."""
    for item in document["tables"]:
        left = f"{item['failed']:,} of them do not decode" if item["failed"] else "all of them decode"
        output.line(
            f"{item['table']}: {item['rows']:,} rows decoded again; {left}"
            if item["rows"]
            else f"{item['table']}: no such rows"
        )


def segments(output: Output, document: Json) -> None:
    """Show the graph of segments as lines: what each continues, and what it waits for."""
    rows = [
        (
            f"{stream['topic']}/{stream['partition']}",
            item["start"],
            "open" if item["seal"] is None else item["seal"] if item["sealed"] else f"{item['seal']} (declared)",
            item["layout"],
            _segment_state(item),
            ", ".join(f"{p['topic']}/{p['partition']} from {p['start']}" for p in item["parents"]) or "-",
        )
        for stream in document["streams"]
        for item in stream["segments"]
    ]
    columns = ("stream", "#from", "#seal", "#partitions", "state", "continues")
    _table(output, f"segments of {document['pipeline']}", columns, rows)
    for stream in document["streams"]:
        for text in stream["blocked_by"]:
            output.line(f"{stream['topic']}/{stream['partition']} {text}")


def _segment_state(item: Json) -> str:
    if item["drained"]:
        return "drained"
    return "may start" if item["launchable"] else "waits"


def wave(output: Output, document: Json) -> None:
    """Show one wave: its ranges with their accounting, and its attempts."""
    accounts = ("visible", "control", "aborted", "compacted", "skipped", "unexplained")
    rows = [
        (
            item["range"],
            f"{item['topic']}/{item['partition']}",
            item["start"],
            item["end"],
            item["state"],
            *((item["accounting"] or {}).get(name) for name in accounts),
            item["reason"] or "",
        )
        for item in document["ranges"]
    ]
    title = f"wave {document['wave']} {document['state']} in {document['table']}, snapshot {document['snapshot_id']}"
    columns = ("range", "stream", "#from", "#to", "state", *(f"#{name}" for name in accounts), "reason")
    _table(output, title, columns, rows)
    attempts = [
        (item["fence"], item["attempt"], item["outcome"], item["started_at"], item["ended_at"], item["error"])
        for item in document["attempts"]
    ]
    _table(output, "attempts", ("#fence", "attempt", "outcome", "started", "ended", "error"), attempts)


def advance(output: Output, document: Json) -> None:
    """Show the watermarks that moved."""
    if not document["streams"]:
        output.line("no watermark moved: nothing new is settled in an unbroken run")
        return
    moves = [(f"{m['topic']}/{m['partition']}", m["from"], m["to"]) for m in document["streams"]]
    _table(output, f"{document['rows']} rows passed", ("stream", "#from", "#to"), moves)


def rebuild(output: Output, document: Json) -> None:
    """Show what came back from the lake, and what is read again."""
    output.line(
        f"{document['waves']} waves with {document['ranges']} ranges came back from the lake, which has "
        f"{document['skips']} skips"
    )
    reopened = [
        (f"{item['topic']}/{item['partition']}", item["from"], item["to"], item["expected"], item["attempt"])
        for item in document["reopened"]
    ]
    columns = ("stream", "#from", "#to", "#rows", "attempt")
    _table(output, "vanished from the lake: the next run reads it again", columns, reopened)
    if deleted := document["deleted"]:
        rows = sum(item["expected"] - item["found"] for item in deleted)
        output.line(
            f"others have deleted {counted(rows, 'row')} of {counted(len(deleted), 'settled range')} from the lake: "
            "nothing of that is read again. If it was on purpose, record it with: kafka-lake accept-deletes "
            f"{document['pipeline']} --reason TEXT"
        )
    output.line(f"go on with: kafka-lake run {document['pipeline']}")


def audit(output: Output, document: Json) -> None:
    """Show the proof: where every offset of each stream went, the rows that are there, and all that is wrong."""
    rows = [
        (f"{item['topic']}/{item['partition']}", item["sentence"], item["rows"], item["duplicates"], item["missing"])
        for item in document["streams"]
    ]
    columns = ("stream", "settled offsets", "#rows", "#twice", "#missing")
    _table(output, f"audit of {document['pipeline']}", columns, rows)
    totals = document["totals"]
    if totals["streams"] != 1:
        output.line(totals["sentence"])
    if totals["unread"]:
        output.line(f"the tables of {totals['unread']} streams could not be read: their numbers are the recorded ones")
    for note in sorted({note for item in document["streams"] for note in item["notes"]})[:NOTED]:
        output.line(f"note: {note}")
    for line in said(document)[:SHOWN]:
        output.line(line)
    found = [(item["kind"], _where(item), item["words"]) for item in document["findings"]]
    _table(output, f"{len(found)} findings", ("finding", "where", "what"), found)
    output.line("nothing is missing, twice or unexplained" if document["ok"] else "the audit failed")


def _where(item: Json) -> str:
    if item["topic"]:
        return f"{item['topic']}/{item['partition']}"
    return item["wave"] or item["table"] or ""


def _table(output: Output, title: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        output.table(title, columns, rows[:SHOWN])
    if len(rows) > SHOWN:
        output.line(f"… and {len(rows) - SHOWN} more: all of them with --json")
