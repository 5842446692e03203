"""A person's wish to decode once more what is in the lake, from its raw bytes."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import assert_never

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    KafkaLakeError,
    StateError,
    UnavailableError,
    UnknownOutcomeError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed, Rejected, Requirement, Unknown
from airflow_kafka_lake.core.naming import unknown_topic
from airflow_kafka_lake.core.redecoding import Redecoded, RedecodeJob
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.decoding import decoders
from airflow_kafka_lake.services.identity import check_head, check_settled, look_at_table
from airflow_kafka_lake.services.publishing import PUBLISH_TRIES


def redecode(
    ports: Ports, spec: PipelineSpec, *, topic: str | None = None, only_failed: bool = False
) -> Mapping[str, Redecoded]:
    """Decode the rows of a pipeline's topics once more, one job for each table; return what was done by table.

    Rows stay what they are but for their decoded columns. Raises UsageError for a pipeline that decodes nothing,
    UnknownTopicError for a topic it has not, StateError where nothing was planned yet, what `look_at_table` raises for
    a table that is not the recorded one or another's, SchemaMismatchError for a schema that a table cannot take,
    JobFailedError when a job ended badly, ConcurrentError for a main that moved meanwhile: nothing is changed then.
    UnknownOutcomeError when the answers of the catalog stay lost: repeat it.
    """
    if spec.decoding is None:
        raise UsageError(f"pipeline {spec.name} has no [decode] section: say in its file what its values are")
    known = sorted({stream.key.topic for stream in ports.ledger.streams(spec.name)})
    if not known:
        raise StateError(f"nothing of pipeline {spec.name} was planned yet: {remedies.run()} lands it decoded")
    if topic is not None and topic not in known:
        raise unknown_topic(spec.name, topic, known)
    by_table: dict[str, list[str]] = defaultdict(list)
    for name in [topic] if topic else known:
        by_table[spec.table_for(name)].append(name)
    return {table: _redecode(ports, spec, table, topics, only_failed) for table, topics in sorted(by_table.items())}


def _redecode(ports: Ports, spec: PipelineSpec, table: str, topics: Sequence[str], only_failed: bool) -> Redecoded:
    topic_ids = sorted({item.key.topic_id for item in ports.ledger.streams(spec.name) if item.key.topic in topics})
    look_at_table(ports, spec.name, table, topic_ids)
    _clean_up(ports, table)
    job = RedecodeJob(
        id=secrets.token_hex(8),
        pipeline=spec.name,
        table=table,
        decoders=decoders(ports, spec.decoding, topics),
        only_failed=only_failed,
    )
    try:
        done = ports.runner.redecode(job, say=ports.say)
        if done.staged is not None:
            _publish(ports, job, done, topic_ids)
    except (UnavailableError, UnknownOutcomeError):
        raise  # its commit may be on its way, and requires the branch: the next call takes it away
    except KafkaLakeError:
        with suppress(KafkaLakeError):
            ports.lake.table(table).drop(job.staged_as)
        raise
    return done


def _clean_up(ports: Ports, table: str) -> None:
    """Drop what a killed call has left. One that lives is lost with it: of two that decode a table, main can go to the
    rows of one."""
    try:
        left = ports.lake.table(table).head().decoded
    except UnknownSubjectError:
        return  # the job says so
    for branch in left:
        ports.say(f"dropping {branch} of {table}: another call has left it")
        ports.lake.table(table).drop(branch)


def _publish(ports: Ports, job: RedecodeJob, done: Redecoded, topic_ids: Sequence[str]) -> None:
    """Show what a job has staged, if main still is where it began: neither a wave nor another writer's rows are lost.

    Each try commits on the head that it has looked at, and takes the branch away: of all tries one can land.
    """
    table, ledger_id = ports.lake.table(job.table), ports.ledger.ledger_id()
    for _ in range(PUBLISH_TRIES):
        head = table.head()
        if done.staged in head.ancestry.snapshots:
            return
        line = check_head(ports, job.pipeline, job.table, head, topic_ids)
        check_settled(ports, job.pipeline, job.table, head)
        if head.snapshot != done.base:
            raise ConcurrentError(
                f"[decode] main of {job.table} moved while its rows were decoded: another has committed. Nothing was "
                "changed; repeat it when less is going on.",
                table=job.table,
            )
        outcome = table.publish(
            Publication(head=head, audited=done.staged, token=job.token, ledger_id=ledger_id, line=line)
        )
        match outcome:
            case Committed():
                return
            case Rejected(requirement=requirement) if requirement is not Requirement.MAIN_HEAD:
                check_head(ports, job.pipeline, job.table, table.head(), topic_ids)
                raise ConcurrentError(
                    f"[decode] the rows of {job.table} cannot be shown: {requirement}, {outcome.detail}. Nothing was "
                    "changed; repeat it",
                    table=job.table,
                )
            case Rejected() | Unknown():
                ports.say(f"showing the rows of {job.table} again: {outcome}")
            case _:
                assert_never(outcome)
    raise UnknownOutcomeError(
        f"whether the rows of {job.table} are decoded anew is not known after {PUBLISH_TRIES} tries, last: {outcome}. "
        "Repeat it: what is decoded is decoded again",
        table=job.table,
    )
