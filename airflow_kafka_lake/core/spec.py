"""The frozen, validated value behind a pipeline file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow_kafka_lake.core.decoding import Decoding
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.errors import PipelineFileError
from airflow_kafka_lake.core.offsets import Stream, grouped

PIPELINE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
GROUP_ID = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
CONNECTION_ID = re.compile(r"[A-Za-z0-9_.:\-#]{1,200}")
TABLE_PART = re.compile(r"[A-Za-z0-9_-]{1,128}")
RECEIPTS_SUFFIX = "__receipts"
"""A table's receipts are in the table of its name plus this, in lower case."""
INTERNAL = "__"
"""How the names of Kafka's own topics begin."""
MIB = 1024 * 1024


def topic_matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a `topic_pattern` means a topic: all of its name; Kafka's internal topics (`__…`) only when the
    pattern itself begins with `__`. Raises PipelineFileError for a pattern that is no regular expression."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise PipelineFileError(
            f"topic_pattern {pattern!r} is not a regular expression: {error}. Correct it in the pipeline.",
            value=pattern,
        ) from None
    internal_too = pattern.removeprefix("^").startswith(INTERNAL)
    return lambda topic: (internal_too or not topic.startswith(INTERNAL)) and compiled.fullmatch(topic) is not None


class Isolation(StrEnum):
    """Which records a plan, its job and its audit see (Kafka's `isolation.level`)."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Ordering(StrEnum):
    """The order that is kept when a topic's layout changes."""

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


class Partitioner(StrEnum):
    """How producers choose a partition; decides the parents after a partition expansion."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    UNKNOWN = "unknown"


class PolicyKind(StrEnum):
    """Where a stream starts, or where a plan ends."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Document):
    """A start or end policy; exactly the field that `kind` needs is set.

    `timestamp_ms` is in milliseconds since the epoch (Kafka's unit); `offsets` holds `(topic, partition, offset)`.
    """

    kind: PolicyKind
    group: str | None = None
    timestamp_ms: int | None = None
    offsets: tuple[tuple[str, int, int], ...] = ()

    def offset_for(self, topic: str, partition: int) -> int | None:
        """Return the explicit offset of one partition, or None when the policy names none."""
        return next((o for t, p, o in self.offsets if (t, p) == (topic, partition)), None)


EARLIEST = Policy(kind=PolicyKind.EARLIEST)
LATEST = Policy(kind=PolicyKind.LATEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec(Document):
    """A pipeline's recorded configuration: names and numbers, never a secret.

    Construct it through `airflow_kafka_lake.pipeline.Pipeline`, which validates; sizes are bytes, `audit_rate` is bytes
    per second (None: as fast as Kafka answers).
    """

    name: str
    kafka_connection: str = "kafka_default"
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    start: Policy = EARLIEST
    end: Policy = LATEST
    ordering: Ordering = Ordering.KEY
    partitioner: Partitioner = Partitioner.MURMUR2
    layout_grace: int = 300
    """Seconds until an expansion that was seen, or a seal that was declared, counts: producers learn of it late."""
    lake_connection: str = "lake_default"
    table: str
    partition_by: str = ""
    spark_connection: str | None = None
    target_range_bytes: int = 256 * MIB
    max_wave_bytes: int = 64 * 1024 * MIB
    leader_wait: int = 60
    stable_wait: int = 300
    audit_rate: int | None = None
    sync_group: str | None = None
    decoding: Decoding | None = None
    waves_at_once: int | None = None
    """How many waves may be at work at the same time, over all runs, Dags and hosts; None: as many as are begun."""
    bytes_per_second: int | None = None
    """The most Kafka bytes that all jobs together read in a second; None: as fast as Kafka answers."""
    younger = frozenset({"decoding", "waves_at_once", "bytes_per_second"})

    @property
    def timeout(self) -> timedelta:
        """How long a plan waits for a group's pending commits."""
        return timedelta(seconds=self.stable_wait)

    def reads(self, topic: str) -> bool:
        """Return whether a topic is one of the pipeline's, be it there or not."""
        return topic in self.topics if self.topic_pattern is None else topic_matcher(self.topic_pattern)(topic)

    def tables_of(self, streams: Iterable[Stream]) -> dict[str, list[str]]:
        """Return the tables that some streams land in, each with their topic ids."""
        found = grouped((self.table_for(topic), topic_id) for topic, topic_id, _ in streams)
        return {table: sorted(set(ids)) for table, ids in sorted(found.items())}

    def table_for(self, topic: str) -> str:
        """Return the table a topic lands in: `table` with `{topic}` replaced by `legal_table_part(topic)`."""
        return self.table.replace("{topic}", legal_table_part(topic))

    @property
    def digest(self) -> str:
        """Sixteen hex digits over the stored form: two specs that differ anywhere differ here."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def legal_table_part(topic: str) -> str:
    """Map a topic name one to one to a legal table name.

    Letters and digits stay; `_`, `.` and `-` become `__`, `_d_`... so that no two topics share a table.
    """
    return topic.replace("_", "__").replace(".", "_d_").replace("-", "_h_")


def sql_table(table: str) -> str:
    """Return a table's name as Spark's SQL takes it, with quotes only where they are needed."""
    return ".".join(part if re.fullmatch(r"[A-Za-z_]\w*", part) else f"`{part}`" for part in table.split("."))
