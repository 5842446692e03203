"""A person's decision to decode again what is in the lake, from its raw bytes."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError, UsageError
from airflow_kafka_lake.core.naming import unknown_topic
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.decoding.job.redecoding import Redecoded, RedecodeJob
from airflow_kafka_lake.features.decoding.schemas import decoders
from airflow_kafka_lake.ports import Ports


def redecode(
    ports: Ports, spec: PipelineSpec, *, topic: str | None = None, only_failed: bool = False
) -> Mapping[str, Redecoded]:
    """Decode the rows of a pipeline's topics once more, one job for each table; return what was done by table.

    Rows stay what they are but for their decoded columns. Raises UsageError for a pipeline that decodes nothing,
    UnknownTopicError for a topic it has not, StateError where nothing was planned yet, SchemaMismatchError for a schema
    that a table cannot take, ConcurrentError for a main that moved meanwhile (nothing is changed then), JobFailedError
    when a job ended badly.
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
    done = {}
    for table, topics in sorted(by_table.items()):
        job = RedecodeJob(
            id=secrets.token_hex(8),
            pipeline=spec.name,
            table=table,
            decoders=decoders(ports, spec.decoding, topics),
            only_failed=only_failed,
        )
        done[table] = Redecoded(**ports.runner.report(job, progress=ports.progress))
    return done
