"""Read a wave with a Spark job; where it fails over its records, find which of them cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import EXPLAINED, Explanation, Fate
from airflow_kafka_lake.core.amounts import FEW, count, size, some
from airflow_kafka_lake.core.decoding import Decoder, Decoding, Format, RegisteredSchema
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    JobFailedError,
    KafkaLakeError,
    SchemaMismatchError,
    StaleFenceError,
    TransientError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.kafka.losses import Losses, held_loss, left_apart
from airflow_kafka_lake.core.ledger.attempts import RecordJob
from airflow_kafka_lake.core.ledger.records import Claim, RangeDecision, RangeRecord, StagedContent
from airflow_kafka_lake.core.ledger.waves import Found
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet
from airflow_kafka_lake.core.reports.progress import Counters, Progress, Step
from airflow_kafka_lake.core.spark import halving
from airflow_kafka_lake.core.spark.halving import History
from airflow_kafka_lake.core.spark.job import CAREFUL_POLL, StageJob, Tip, ending, is_by_time, packing
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claims import Heartbeat
from airflow_kafka_lake.services.identity import check_losses, planned_epochs

if TYPE_CHECKING:
    from airflow_kafka_lake.jobs.compare import CompareJob

# Make the decoders of a job from the pipeline's [decode] section and the registered schemas.


def plain_decoder(asked: Decoding, topics: Iterable[str]) -> Decoder:
    """Return the decoder of a format that needs no registry."""
    name = "the schema of the pipeline file" if asked.format is Format.JSON else "UTF-8"
    column = asked.column if asked.format is Format.STRING else ""
    return Decoder(
        format=asked.format,
        topics=tuple(sorted(topics)),
        name=name,
        schema=asked.schema or "",
        column=column,
        asked=asked.digest,
    )


def registered_decoder(asked: Decoding, topic: str, versions: Sequence[RegisteredSchema]) -> Decoder:
    """Return the decoder of a topic from all versions of its subject, of which the newest is the reader's schema.

    Values of a version that cannot be used, or is of another kind, do not decode. Raises SchemaMismatchError for a
    subject of another kind, or without the message.
    """
    subject = asked.subject_for(topic)
    newest = max(versions, key=lambda item: item.version)
    if newest.format is not asked.format:
        raise SchemaMismatchError(
            f"subject {subject} has {newest.format} schemas, and the pipeline decodes {asked.format.value}. "
            "Correct [decode] format or subject",
            subject=subject,
        )
    ordered = sorted(versions, key=lambda item: item.version)
    message = _message(asked, subject, newest) if asked.format is Format.PROTOBUF else ""
    return Decoder(
        format=asked.format,
        topics=(topic,),
        name=f"{subject} version {newest.version} (id {newest.id})",
        subject=subject,
        schema=newest.text,
        writers=tuple((item.id, item.text) for item in ordered if item.format is asked.format and not item.refused),
        unusable=tuple((item.id, item.refused) for item in ordered if item.refused),
        message=message,
        asked=asked.digest,
    )


def refused_decoder(asked: Decoding, topic: str, reason: str) -> Decoder:
    """Return the decoder of a topic none of whose values can be decoded: they land with the reason."""
    subject = asked.subject_for(topic)
    return Decoder(
        format=asked.format, topics=(topic,), name=subject, subject=subject, asked=asked.digest, refused=reason
    )


def _message(asked: Decoding, subject: str, newest: RegisteredSchema) -> str:
    known = newest.messages or {}
    message = asked.message or next(iter(known), "")
    if message not in known:
        raise SchemaMismatchError(
            f"subject {subject} version {newest.version} has no message {message!r}, it has: {', '.join(known)}. "
            "Correct [decode] message",
            subject=subject,
        )
    return message


def decoders(ports: Ports, asked: Decoding | None, topics: Iterable[str]) -> tuple[Decoder, ...]:
    """Return how the values of some topics are decoded, with the schemas that are registered now; none if not asked.

    A topic without a schema that can be used is no reason to leave its bytes out of the lake: its decoder says why.
    Raises UnavailableError when the registry does not answer, ConnectionSettingsError when it refuses the credentials.
    """
    if asked is None:
        return ()
    if not asked.format.is_registered:
        return (plain_decoder(asked, topics),)
    found = []
    for topic in sorted(topics):
        try:
            decoder = registered_decoder(asked, topic, ports.schemas.versions(asked.subject_for(topic)))
        except (SchemaMismatchError, UnknownSubjectError) as error:
            ports.progress(f"values of {topic} land as bytes alone, they are not decoded: {error.message}")
            decoder = refused_decoder(asked, topic, error.message)
        found.append(decoder)
    return tuple(found)


# After a failure, keep a job from polling records behind its slices: one of them may be what it failed over.


MOST_CAREFUL = 100
"""Slices whose ends are read record by record, a second or so each."""

_WIDER = 4


def careful(ports: Ports, job: StageJob, heartbeat: Callable[[], None]) -> StageJob:
    """Return a job that unpacks no record behind its slices.

    A consumer unpacks all records of its poll. Kafka's raw batches name the offsets at the end of a slice that have a
    record; where they cannot be read, every offset counts as one. A job of more than `MOST_CAREFUL` slices stays.
    """
    if len(job.slices) > MOST_CAREFUL:
        return job
    bodies, ends = divided(ports, job, heartbeat)
    return replace(job, slices=bodies, singly=ends)


def divided(
    ports: Ports, job: StageJob | CompareJob, heartbeat: Callable[[], None]
) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
    """Split a job's slices into the parts that small polls read, and their last records."""
    try:
        records = _last_records(ports, job, heartbeat)
    except StaleFenceError:
        raise
    except TransientError as problem:
        ports.progress(f"where the records of {job.name} end could not be read: {problem}")
        records = {slice_: RangeSet([slice_.range]) for slice_ in job.slices}
    parts = [ending(slice_, found) for slice_, found in records.items()]
    return tuple(body for body, _ in parts if body is not None), tuple(end for _, end in parts if end is not None)


def _last_records(ports: Ports, job: StageJob | CompareJob, heartbeat: Callable[[], None]) -> Mapping[Slice, RangeSet]:
    """Return where each slice has a record, from its end back to `CAREFUL_POLL` records."""
    found: dict[Slice, RangeSet] = {}
    asked, width, epochs = job.slices, CAREFUL_POLL, dict(job.epochs)
    while asked:
        ends = ((item, item.range.end) for item in asked)
        gaps = {item.part(OffsetRange(max(item.range.start, end - width), end)): item for item, end in ends}
        explained = ports.batches.explain(tuple(gaps), job.isolation, lambda _: heartbeat(), epochs=epochs)
        found |= {
            slice_: RangeSet(item.range for item in explained[gap] if item.fate not in EXPLAINED)
            for gap, slice_ in gaps.items()
        }
        asked = tuple(item for item in asked if found[item].span < CAREFUL_POLL and width < item.range.span)
        width *= _WIDER
    return found


# Read a wave with a Spark job; where the job fails over its records, find which of them no job can read.
#
# They are found in Kafka's raw batches, else by trial jobs of halves, which nothing publishes.

FAULTS = frozenset({Fate.UNREADABLE, Fate.OVERFLOWING})
TASK_BYTES = 64 * 1024 * 1024

Stage = Callable[[Sequence[RangeRecord], Sequence[Slice]], StagedContent]
"""Stages ranges of a claim, or parts of them; the slices have times that Spark cannot hold. Raises as the job does."""


def split_deadly(ports: Ports, claim: Claim) -> tuple[RangeDecision, ...]:
    """Halve a wave over which workers died twice, before another one tries; hold a single offset that did it alone."""
    if not History.of(claim.attempts).is_deadly:
        return ()
    why = "workers died over it, or lost their lease, twice"
    ports.progress(f"wave {claim.key.wave} is halved: {why}")
    first = claim.ranges[0]
    return halving.apart(claim.ranges, why) or (halving.held(first, first.range, why),)


def lost_ranges(losses: Losses, ranges: Sequence[RangeRecord]) -> tuple[RangeDecision, ...]:
    """Hold the offsets of some ranges that Kafka has lost."""
    return tuple(held_loss(item, error) for item in ranges if (error := losses.failed.get(item.id)))


def read(
    ports: Ports, claim: Claim, how: tuple[Decoder, ...], heartbeat: Heartbeat
) -> StagedContent | tuple[RangeDecision, ...]:
    """Run the job; where it fails over its records, return the ranges to revoke, so that the rest goes on."""

    def stage(ranges: Sequence[RangeRecord], overflowing: Sequence[Slice] = ()) -> StagedContent:
        return _stage(ports, replace(claim, ranges=tuple(ranges)), how, heartbeat=heartbeat, overflowing=overflowing)

    try:
        return stage(claim.ranges)
    except Exception as error:
        if isinstance(error, KafkaLakeError) and not isinstance(error, JobFailedError):
            raise
        if failed := _lost_meanwhile(ports, claim):
            return failed
        if found := _read_otherwise(ports, claim, error, stage=stage, heartbeat=heartbeat):
            return found
        raise


def _stage(
    ports: Ports, claim: Claim, how: tuple[Decoder, ...], *, heartbeat: Heartbeat, overflowing: Sequence[Slice]
) -> StagedContent:
    job = stage_job(claim, how, overflowing)
    if History.of(claim.attempts).in_doubt:
        job = careful(ports, job, heartbeat)
    pace = f", at most {size(job.rate)} per second" if job.rate else ""
    progress = Progress(
        step=Step.READ,
        rows_expected=sum(item.range.span for item in claim.ranges),
        bytes_expected=sum(item.estimated_bytes for item in claim.ranges),
    )
    last_read: list[Tip] = []
    heartbeat.watch.begin(progress, f"{count(len(claim.ranges), 'range')}, {count(job.tasks, 'task')}{pace}")
    known = RecordJob(key=claim.key, job="")

    def record(job: str, application: str | None = None) -> None:
        nonlocal known
        known = RecordJob(key=claim.key, job=job, progress=None if known.job else progress, application=application)
        ports.ledger.commit(known)

    def counted(counters: Counters) -> None:
        heartbeat.watch.counted(counters.rows, counters.note)
        if counters.application and counters.application != known.application:
            record(known.job, counters.application)

    ports.runner.stage(job, started=record, heartbeat=heartbeat, counted=counted, read=last_read.extend)
    heartbeat.watch.end()
    heartbeat.watch.begin(Progress(step=Step.AUDIT, rows_expected=progress.rows_expected))
    staged = ports.lake.table(claim.table).staged(claim.key.attempt, heartbeat)
    if staged is None:
        raise _nothing_staged(ports, claim)
    return replace(staged, read=tuple(last_read))


def _nothing_staged(ports: Ports, claim: Claim) -> KafkaLakeError:
    """Return the error of a job that ended without a commit on its branch; the catalog may have put it on main."""
    mine = [item for item in ports.ledger.attempts(claim.key.wave) if item.attempt == claim.key.attempt]
    if isinstance(ports.lake.table(claim.table).find_commit(mine), Found):
        return ConnectionSettingsError(
            f"the job of wave {claim.key.wave} wrote to its staging branch, and the catalog has put that on main of "
            f"{claim.table}: its rows are visible without an audit. {remedies.run()} audits them there, and records or "
            "names them. Name a catalog that keeps the branches of a table; this table can be registered there",
            wave=claim.key.wave,
            table=claim.table,
        )
    return JobFailedError(
        f"the Spark job of wave {claim.key.wave} ended, and its staging branch is empty: run it again",
        wave=claim.key.wave,
    )


def stage_job(claim: Claim, how: tuple[Decoder, ...] = (), overflowing: Sequence[Slice] = ()) -> StageJob:
    """Return the job of a claim's ranges: touching ranges are read as one slice, `overflowing` slices separately."""
    asked, apart = SliceSet(item.slice for item in claim.ranges), SliceSet(overflowing)
    slices = tuple(asked - apart)
    tasks, per_task = packing(slices, sum(item.estimated_bytes for item in claim.ranges), TASK_BYTES)
    return StageJob(
        pipeline=claim.pipeline,
        wave=claim.key.wave,
        attempt=claim.key.attempt,
        table=claim.table,
        isolation=claim.spec.isolation,
        slices=slices,
        tasks=tasks,
        max_records_per_partition=per_task,
        decoders=how,
        overflowing=tuple(asked & apart),
        rate=claim.rate,
        by_time=is_by_time(claim.spec.partition_by),
        epochs=tuple(sorted(planned_epochs(claim.ranges).items())),
    )


def _lost_meanwhile(ports: Ports, claim: Claim) -> tuple[RangeDecision, ...]:
    """Hold the offsets that Kafka has lost since the job began. The rest of their ranges is read again at once, apart
    from the others where an attempt of the wave has failed before."""
    try:
        lost = lost_ranges(check_losses(ports, claim.ranges), claim.ranges)
        return (*lost, *(left_apart(claim.ranges, lost) if claim.attempts else ()))
    except TransientError as error:
        ports.progress(f"whether Kafka lost offsets of wave {claim.key.wave} is not known: {error}")
        return ()


def _read_otherwise(
    ports: Ports, claim: Claim, error: Exception, *, stage: Stage, heartbeat: Callable[[], None]
) -> StagedContent | tuple[RangeDecision, ...]:
    """Return the rows staged by another way of reading, or the ranges to revoke of a wave whose job ended with `error`.

    Nothing when neither helps. Exceptions that the search meets by itself, such as a broker out of reach, pass through.
    """
    history, overflowing = History.of(claim.attempts), tuple[Slice, ...]()
    if history.asks_for_batches(error):
        found, overflowing = _ask_batches(ports, claim, heartbeat)
        if found:
            return found
    if overflowing:
        ports.progress(
            f"wave {claim.key.wave} has records of a time that Spark cannot read: its driver reads them one by one"
        )
        ports.lake.table(claim.table).drop(claim.key.attempt)
        try:
            return stage(claim.ranges, overflowing)
        except Exception as problem:
            if not halving.is_unknown(problem) or not history.asks_for_trials(problem):
                raise
            error = problem
    if not history.asks_for_trials(error):
        return ()
    return _try_halves(ports, claim, error, stage=stage, overflowing=overflowing, heartbeat=heartbeat)


def _ask_batches(
    ports: Ports, claim: Claim, heartbeat: Callable[[], None]
) -> tuple[tuple[RangeDecision, ...], tuple[Slice, ...]]:
    """Ask Kafka's raw batches which offsets of the wave no job can read, and which only Spark's source cannot."""
    ports.progress(f"looking for what cannot be read in Kafka's batches of wave {claim.key.wave}")
    ranges = {item.slice: item for item in claim.ranges}
    try:
        explained = ports.batches.explain(
            tuple(ranges), claim.spec.isolation, lambda _: heartbeat(), epochs=planned_epochs(claim.ranges)
        )
    except StaleFenceError:
        raise
    except TransientError as problem:
        ports.progress(f"Kafka's batches of wave {claim.key.wave} could not be read: {problem}")
        return (), ()
    return _unreadable([(item, explained.get(whole, ())) for whole, item in ranges.items()])


def _unreadable(
    explained: Sequence[tuple[RangeRecord, Sequence[Explanation]]],
) -> tuple[tuple[RangeDecision, ...], tuple[Slice, ...]]:
    """Hold offsets that no job can read or that take the driver too long; return also the slices that it can read."""
    overflowing = [
        (item, RangeSet(known.range for known in its if known.fate is Fate.OVERFLOWING)) for item, its in explained
    ]
    few, too_many = halving.affordable(overflowing)
    verdicts = []
    for item, its in explained:
        wrong = [known.range for known in its if known.fate is Fate.UNREADABLE]
        wrong += [part for source, part in too_many if source is item]
        for part in RangeSet(wrong).joined(halving.MOST_PARTS):
            known = next(known for known in its if known.fate in FAULTS and known.range.overlaps(part))
            verdicts.append(halving.held(item, part, known.seen))
    return tuple(verdicts), few


def _try_halves(
    ports: Ports,
    claim: Claim,
    error: Exception,
    *,
    stage: Stage,
    overflowing: Sequence[Slice],
    heartbeat: Callable[[], None],
) -> tuple[RangeDecision, ...]:
    """Stage halves of the wave until a single offset is left that fails by itself; a job per halving."""
    table, wave = ports.lake.table(claim.table), claim.key.wave
    trials, most = 0, halving.most_trials(claim.ranges)

    def fails(part: Sequence[RangeRecord]) -> bool:
        nonlocal trials, error
        trials += 1
        named = some((f"{item.stream} {item.range}" for item in part), FEW, "range")
        ports.progress(f"wave {wave} fails for no known reason: trial {trials} of at most {most}, {named}")
        heartbeat()
        table.drop(claim.key.attempt)
        try:
            stage(part, overflowing)
        except Exception as problem:
            if not halving.is_unknown(problem):
                raise
            error = problem
            return True
        return False

    found = halving.search(claim.ranges, fails)
    if found.culprit is not None:
        return (halving.held(halving.source_of(claim.ranges, found.culprit), found.culprit.range, _last_line(error)),)
    ports.progress(f"no single record of wave {wave} is the cause")
    return halving.apart(claim.ranges, "its parts can be read, and not all at once") if found.read_well else ()


def _last_line(error: Exception) -> str:
    """Return the last words of a job; of any other exception its name alone, its text may hold a secret."""
    if not isinstance(error, JobFailedError):
        return type(error).__qualname__
    if error.facts.get("reason") == halving.OUT_OF_MEMORY:
        return "Spark runs out of memory over it"
    return error.last_words or error.message
