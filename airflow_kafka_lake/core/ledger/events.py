"""A pipeline's history, line by line, and how a table names one of these lines."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a ledger's history, as a table names it.

    Lines are written in the order of their numbers, so a ledger that has a line has all before it. A ledger that was
    restored from a backup counts on from there: the digest distinguishes its lines from those that were lost.
    """

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a pipeline's history."""

    sequence: int
    at: datetime
    actor: str
    kind: str
    subject: str
    detail: str

    @property
    def line(self) -> Line:
        """The name of this line, in which actors and free text have no part."""
        named = [self.sequence, self.at.astimezone(UTC).isoformat(timespec="milliseconds"), self.kind, self.subject]
        return Line(sequence=self.sequence, digest=hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16])
