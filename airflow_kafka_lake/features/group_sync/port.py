"""The port of the group sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_kafka_lake.core.slices import Stream

PORT = "group_sync"
"""The port's name in `Ports.added`."""


class GroupCommitter(Protocol):
    """Commits offsets to a consumer group, which is never read back as truth."""

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        """Commit offsets to a group, each only while its topic has the stream's id; returns those that were not
        committed, with the reason: another id, a refusal of the broker (quiet ones too). Raises UnavailableError,
        UnknownTopicError."""
