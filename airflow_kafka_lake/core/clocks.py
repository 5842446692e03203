"""What a machine's clock may be off the ledger's, by which all others are judged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_kafka_lake.core.errors import UnavailableError

TOLERANCE = timedelta(minutes=1)
"""Java takes a table's next commit when it is not more than this before the last; a topic comes to rest in several of
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """The time of a machine's clock when it asked the ledger for something."""

    host: str
    now: datetime

    def wrong(self, by: timedelta, why: str) -> UnavailableError:
        """Return the refusal of a clock that is ahead of the ledger's, or, by less than nothing, behind it."""
        where = "ahead of" if by > timedelta() else "behind"
        return UnavailableError(
            f"the clock of {self.host} is {abs(by).total_seconds():.0f} s {where} the ledger's. {why}. Set the clock, "
            "then repeat",
            ahead_seconds=by.total_seconds(),
        )
