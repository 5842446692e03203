"""Which tables an audit of some streams must read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_kafka_lake.core.audit.report import EVERYTHING, Scope
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.spec import PipelineSpec


def tables_of(
    spec: PipelineSpec,
    streams: Sequence[StreamRecord],
    waves: Iterable[WaveRecord],
    *,
    ranges: Iterable[RangeRecord] = (),
    scope: Scope = EVERYTHING,
) -> dict[str, set[str]]:
    """Return the tables that the scope's streams go to, or ever went to, sorted, with the topic ids that go there now.

    What was written comes from the waves, in a scope from those that have `ranges` in it: the record of a rebuild has
    some without a table.
    """
    of_scope = None if scope == EVERYTHING else {item.wave for item in ranges if item.stream in scope}
    written = {wave.table for wave in waves if wave.table and (of_scope is None or wave.id in of_scope)}
    wanted = written | {spec.table_for(stream.key.topic) for stream in streams if stream.key in scope}
    topics: dict[str, set[str]] = {table: set() for table in sorted(wanted)}
    for stream in streams:
        topics.get(spec.table_for(stream.key.topic), set()).add(stream.key.topic_id)
    return topics
