"""A person's decision to decode the lake's rows again, from their raw bytes."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.decoding import Decoding
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    KafkaLakeError,
    SchemaMismatchError,
    StateError,
    UnavailableError,
    UnknownOutcomeError,
    UnknownSubjectError,
    UsageError,
    unknown_topic,
)
from airflow_kafka_lake.core.ledger.decisions import RecordLine
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import (
    DECODE,
    Committed,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Unknown,
)
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob, RedecodeResult
from airflow_kafka_lake.ports import Ledger, Ports
from airflow_kafka_lake.services.advance import landed_in
from airflow_kafka_lake.services.attempt_audit import empty_columns
from airflow_kafka_lake.services.identity import check_head, check_table
from airflow_kafka_lake.services.publishing import PUBLISH_TRIES
from airflow_kafka_lake.services.reading import decoders
from airflow_kafka_lake.services.watching import Watch


def redecode(
    ports: Ports, spec: PipelineSpec, *, topic: str | None = None, only_failed: bool = False
) -> Mapping[str, RedecodeResult]:
    """Decode the rows of a pipeline's topics once more, one job for each table; return the result of each table.

    Only decoded columns of a row change. Raises UsageError for a pipeline that decodes nothing, UnknownTopicError for a
    topic that is not the pipeline's, StateError where nothing was planned yet, the errors of `check_table` for a table
    that is not the recorded one or is another's, SchemaMismatchError for a schema that a table cannot take,
    JobFailedError when a job ended badly, ConcurrentError when main moved meanwhile: nothing is changed then.
    UnknownOutcomeError when the catalog's answers stay lost: repeat the call.
    """
    if spec.decoding is None:
        raise UsageError(f"pipeline {spec.name} has no [decode] section: say in its file what its values are")
    keys = [stream.key for stream in ports.ledger.streams(spec.name)]
    known = sorted({key.topic for key in keys})
    if not known:
        raise StateError(f"nothing of pipeline {spec.name} was planned yet: {remedies.run()} lands it decoded")
    if topic is not None and topic not in known:
        raise unknown_topic(spec.name, topic, known)
    done = {}
    for table, topics in _topics_in(ports.ledger, spec, [topic] if topic else known).items():
        how = decoders(ports, spec.decoding, topics)
        if refused := next((item for item in how if item.refused), None):
            raise SchemaMismatchError(f"{refused.refused.rstrip('.')}. Nothing was changed", topic=refused.topics[0])
        job = RedecodeJob(
            id=secrets.token_hex(8), pipeline=spec.name, table=table, decoders=how, only_failed=only_failed
        )
        topic_ids = sorted({key.topic_id for key in keys if key.topic in topics})
        done[table] = _redecode(ports, job, topic_ids, spec.decoding)
    return done


def _topics_in(ledger: Ledger, spec: PipelineSpec, topics: Sequence[str]) -> dict[str, list[str]]:
    """Return the tables that have rows of some topics, or get them, sorted: also those of an earlier pipeline file."""
    landed = landed_in(ledger, spec, ledger.pipeline(spec.name), topics).items()
    found = defaultdict(set, {table: {item.stream.topic for item in its}.intersection(topics) for table, its in landed})
    for name in topics:
        if all(name not in its for its in found.values()):
            found[spec.table_for(name)].add(name)
    return {table: sorted(its) for table, its in sorted(found.items()) if its}


def _redecode(ports: Ports, job: RedecodeJob, topic_ids: Sequence[str], asked: Decoding) -> RedecodeResult:
    check_table(ports, job.pipeline, job.table, topic_ids)
    _clean_up(ports, job.table)
    try:
        watch = Watch(ports, f"decoding of {job.table}")
        watch.begin(Progress(step=Step.READ))
        # Of the table's rows Spark reads each several times: their number is known at the end.
        done = RedecodeResult(**ports.runner.report(job, progress=ports.progress, counted=watch.follow))
        watch.end(done.rows)
        done = replace(done, remark="".join(empty_columns(asked, done.filled, done.failed)))
        if done.staged is not None:
            _publish(ports, job, done, topic_ids)
            told, who = str(done), ports.actor
            line = RecordLine(pipeline=job.pipeline, kind=DECODE, subject=job.table, detail=told, actor=who)
            ports.ledger.commit(line)
    except KafkaLakeError as error:
        # An unknown commit may still land, and requires the branch: the next call drops it.
        if not isinstance(error, (UnavailableError, UnknownOutcomeError)):
            with suppress(KafkaLakeError):
                ports.lake.table(job.table).drop(job.staged_as)
        raise
    return done


def _clean_up(ports: Ports, table: str) -> None:
    """Drop the branches of killed calls. A call that still runs fails then: main can become the rows of only one."""
    with suppress(UnknownSubjectError):  # the job names it
        for branch in ports.lake.table(table).head().decoded:
            ports.progress(f"dropping {branch} of {table}: another call left it")
            ports.lake.table(table).drop(branch)


def _publish(ports: Ports, job: RedecodeJob, done: RedecodeResult, topic_ids: Sequence[str]) -> None:
    """Move main to a job's staged snapshot, if main is still where the job began: no other commit is lost.

    Each try commits on the head that it has checked and removes the branch: of all tries only one can land.
    """
    table = ports.lake.table(job.table)
    for _ in range(PUBLISH_TRIES):
        head = table.head()
        if done.staged in head.ancestry.snapshots:
            return
        outcome = _commit(ports, job, done, head=head, topic_ids=topic_ids)
        match outcome:
            case Committed():
                return
            case Rejected(requirement=requirement) if requirement is not Requirement.MAIN_HEAD:
                check_head(ports, job.pipeline, job.table, head=table.head(), topic_ids=topic_ids)
                raise ConcurrentError(
                    f"[decode] the decoded rows of {job.table} cannot be published: {requirement}, {outcome.detail}. "
                    "Nothing was changed; repeat it",
                    table=job.table,
                )
            case Rejected() | Unknown():
                ports.progress(f"publishing the decoded rows of {job.table} again: {outcome}")
            case _:
                assert_never(outcome)
    raise UnknownOutcomeError(
        f"whether the decoded rows of {job.table} were published is not known after {PUBLISH_TRIES} tries, last: "
        f"{outcome}. Repeat it: what is decoded is decoded again",
        table=job.table,
    )


def _commit(
    ports: Ports, job: RedecodeJob, done: RedecodeResult, *, head: TableHead, topic_ids: Sequence[str]
) -> PublishOutcome:
    line = check_head(ports, job.pipeline, job.table, head=head, topic_ids=topic_ids)
    if head.snapshot != done.base:
        raise ConcurrentError(
            f"[decode] main of {job.table} moved while its rows were decoded: another writer committed. Nothing was "
            "changed; repeat it when the table is quieter.",
            table=job.table,
        )
    return ports.lake.table(job.table).publish(
        Publication(head=head, audited=done.staged, token=job.token, ledger_id=ports.ledger.ledger_id(), line=line)
    )
