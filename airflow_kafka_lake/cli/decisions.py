"""Commands that record a decision of a person, such as `skip`, `reopen`, `cancel` or `pause`."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_lake.cli.command import (
    DROP_STAGED,
    DRY_RUN,
    PIPELINE,
    REASON,
    REFUSED,
    SELECTION,
    SUBJECT,
    THE_PERIOD,
    THE_STREAM,
    Argument,
    Command,
    Json,
    Result,
    free_text,
    go_on,
    is_file,
    offset_number,
    period_of,
    ports_of,
    selection_of,
    spec_of,
    spec_of_subject,
    stream_of,
    subject_id,
    topic_name,
)
from airflow_kafka_lake.cli.output import Output, stream_text
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ordering.segments import SegmentOrder
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.pipeline.keys import read_offsets_file
from airflow_kafka_lake.services import bulk_decisions, decisions, reporting
from airflow_kafka_lake.services.decisions import PauseSubject
from airflow_kafka_lake.services.reporting import known_spec
from airflow_kafka_lake.wiring.assemble import open_ledger

# Commands that record a decision about offsets: `skip`, `reopen`, `withdraw`.


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


# Commands that put ranges on hold and take them off: `cancel`, `release`.


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


HOLD_COMMANDS = (
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


# Commands that keep a pipeline or a plan from going on, and let it go on: `pause`, `resume`.

_SUBJECT = Argument("subject", metavar="PIPELINE|PLAN", type=subject_id, help="a pipeline, or one plan of it")


def pause(arguments: argparse.Namespace, output: Output) -> Result:
    """Pause a pipeline or a plan."""
    subject, spec = _named(arguments)
    with ports_of(arguments, output, spec) as ports:
        done = decisions.pause(ports, subject, arguments.reason, now=arguments.now)
    return Result(document=done.to_json())


def resume(arguments: argparse.Namespace, output: Output) -> Result:
    """Resume a pipeline or a plan."""
    subject, spec = _named(arguments)
    with ports_of(arguments, output, spec) as ports:
        done = decisions.resume(ports, subject, arguments.reason)
    return Result(document=done.to_json())


def _named(arguments: argparse.Namespace) -> tuple[PauseSubject, PipelineSpec]:
    name = arguments.subject
    if is_file(name):
        name = spec_of(name, arguments.ledger).name
    with open_ledger(arguments.ledger) as ledger:
        subject = decisions.find_pausable(ledger, name)
        return subject, known_spec(ledger, subject.pipeline)


def show_paused(output: Output, document: Json) -> None:
    """Show what is paused, what goes on to its end, and how to resume."""
    since = document["paused"]
    already = "" if document["changed"] else " already"
    output.line(f"{_what(document)} is paused{already}, since {since['since']} by {since['by']}: {since['reason']}")
    if document["stopped"]:
        output.line(
            f"taken from their workers, and planned still: {', '.join(document['stopped'])}. They are not in the lake "
            "now; a commit that was on its way may still land, and the next run finds it"
        )
    if document["landed"]:
        output.line(f"was published meanwhile, and has landed: {', '.join(document['landed'])}")
    if document["at_work"]:
        output.line(f"goes on to its end: {', '.join(document['at_work'])}")
    output.line(
        f"{count(document['waiting'], 'wave waits', 'waves wait')}; go on with: {remedies.resume(_subject(document))}"
    )


def show_resumed(output: Output, document: Json) -> None:
    """Show what goes on, and what was paused."""
    before = document["paused"]
    if before is None:
        output.line(f"{_what(document)} is not paused: nothing was changed")
        return
    was = f"it was paused since {before['since']} by {before['by']}: {before['reason']}"
    output.line(f"{_what(document)} goes on; {was}")
    output.line(
        f"{count(document['waiting'], 'wave waits', 'waves wait')} for a run: {remedies.run(document['pipeline'])}"
    )


def _subject(document: Json) -> str:
    return str(document["plan"] or document["pipeline"])


def _what(document: Json) -> str:
    if document["plan"] is None:
        return f"pipeline {document['pipeline']}"
    return f"plan {document['plan']} of pipeline {document['pipeline']}"


PAUSE_COMMANDS = (
    Command(
        name="pause",
        help="begin nothing new of a pipeline or a plan until it is resumed",
        arguments=(
            _SUBJECT,
            REASON,
            Argument("--now", action="store_true", help="also stop the waves that are at work; they stay planned"),
        ),
        action=pause,
        view=show_paused,
    ),
    Command(
        name="resume",
        help="let a paused pipeline or plan go on",
        arguments=(_SUBJECT, Argument("--reason", metavar="TEXT", type=free_text, help="why")),
        action=resume,
        view=show_resumed,
    ),
)


# Commands about the order of segments: `segments`, `seal`, `migrate`.


def segments(arguments: argparse.Namespace, output: Output) -> Result:
    """Read the graph of segments, and draw it with --svg."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with open_ledger(arguments.ledger) as ledger:
        reporting.known_spec(ledger, spec.name)
        order = reporting.segments(ledger, spec)
    if arguments.svg:
        from airflow_kafka_lake.pages.charts import segments_svg

        _write(Path(arguments.svg), segments_svg(order))
        output.note(f"drawn into {arguments.svg}")
    return Result(document=order)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a NUL"
        raise UsageError(f"{str(path)!r} cannot be written: {reason}", file=str(path)) from None


def show_segments(output: Output, order: SegmentOrder) -> None:
    """Show the graph of segments as lines: what each continues, and what it waits for."""
    rows = [
        (
            stream,
            item.start,
            "open" if item.seal is None else item.seal if item.sealed else f"{item.seal} (declared)",
            item.layout,
            order.state_of(item),
            ", ".join(f"{parent.stream} from {parent.start}" for parent in order.parents(item)) or "-",
        )
        for stream in order.streams
        for item in order.graph.of(stream)
    ]
    columns = ("stream", "#from", "#seal", "#partitions", "state", "continues")
    output.long_table(f"segments of {order.pipeline}", columns, rows)
    for stream in order.streams:
        for text, _ in order.waits(stream):
            output.line(f"{stream} {text}")


def seal(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare the end of one partition's log."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        stream = stream_of(ports.ledger, spec.name, arguments)
        made = decisions.seal(ports, spec, stream, arguments.at)
    document = {"topic": stream.key.topic, "partition": stream.key.partition, "start": made.start, "seal": made.seal}
    return Result(document=document, beside={"layout_grace": spec.layout_grace})


def show_sealed(output: Output, document: Json) -> None:
    """Show the declared end, and when it counts."""
    output.line(
        f"{stream_text(document)} is declared to end at {document['seal']}: it counts once a plan has found it "
        f"so again, {document['layout_grace']} s from now"
    )


def migrate(arguments: argparse.Namespace, output: Output) -> Result:
    """Declare that one topic continues another."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    given = read_offsets_file(Path(arguments.seal))
    if others := sorted({topic for topic, _, _ in given} - {arguments.from_topic}):
        raise UsageError(f"{arguments.seal} names {', '.join(others)}: only {arguments.from_topic} is sealed")
    seals = {partition: offset for _, partition, offset in given}
    with ports_of(arguments, output, spec) as ports:
        waiting = decisions.migrate(ports, spec, arguments.from_topic, target=arguments.to_topic, seals=seals)
    document = {
        "from": arguments.from_topic,
        "to": arguments.to_topic,
        "seals": {str(partition): offset for partition, offset in sorted(seals.items())},
        "waiting": [{"partition": item.stream.partition, "start": item.start} for item in waiting],
    }
    return Result(document=document, beside={"layout_grace": spec.layout_grace})


def show_migration(output: Output, document: Json) -> None:
    """Show which topic continues which, and when its rows are published."""
    output.line(
        f"{document['to']} continues {document['from']}: it is published once every partition of "
        f"{document['from']} is drained to its seal; the seals count {document['layout_grace']} s from now"
    )


SEGMENT_COMMANDS = (
    Command(
        name="segments",
        help="which slice of which partition must be finished before which",
        arguments=(PIPELINE, Argument("--svg", metavar="FILE", help="draw the graph into this file")),
        action=segments,
        view=show_segments,
    ),
    Command(
        name="seal",
        help="declare where a partition's log ends for good",
        arguments=(
            PIPELINE,
            *THE_STREAM,
            Argument("--at", metavar="O", type=offset_number, required=True, help="end, exclusive"),
        ),
        action=seal,
        view=show_sealed,
    ),
    Command(
        name="migrate",
        help="declare that one topic continues another",
        arguments=(
            PIPELINE,
            Argument("--from-topic", metavar="A", type=topic_name, required=True, help="the topic that ends"),
            Argument("--to-topic", metavar="B", type=topic_name, required=True, help="the topic that continues it"),
            Argument(
                "--seal",
                metavar="FILE.json",
                required=True,
                help='where each partition of A ends: {"A": {"0": 120}}',
            ),
        ),
        action=migrate,
        view=show_migration,
    ),
)
