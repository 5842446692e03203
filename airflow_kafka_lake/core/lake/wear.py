"""When a Spark driver that runs job after job is worn, and the next job gets a new one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

MOST_JOBS = 100
"""A start costs seconds: spread over so many jobs it is nothing, and whatever grows unseen has an end."""

MOST_HEAP = 0.5
"""Share of the heap that may still be in use after a collection: a job needs the rest."""

MOST_METASPACE = 512 * 1024 * 1024
"""Bytes of loaded classes; a driver that has run every kind of job has about half as many."""


MOST_SECONDS = 6 * 3600
"""A cluster's tickets and tokens, which are given at the start, last for a day or less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """What a driver has used: how many jobs it has run in how many seconds, and bytes after a garbage collection."""

    jobs: int
    seconds: int
    heap: int
    heap_most: int
    metaspace: int

    @property
    def is_too_much(self) -> bool:
        """Whether the driver should take no further job."""
        is_old = self.jobs >= MOST_JOBS or self.seconds >= MOST_SECONDS
        return is_old or self.heap > MOST_HEAP * self.heap_most or self.metaspace > MOST_METASPACE

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Wear | None:
        """Read what `to_json` has written; None for what it has not."""
        try:
            found = json.loads(text)
            return cls(**{item.name: int(found[item.name]) for item in fields(cls)})
        except (ValueError, TypeError, KeyError):
            return None
