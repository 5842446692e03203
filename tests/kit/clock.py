"""A clock whose time passes only when a test lets it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """`ports.Clock` for tests: time passes only through `sleep` and `advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._passed = timedelta()

    def now(self) -> datetime:
        """Return the time as it was last set."""
        return self._now

    def monotonic(self) -> float:
        """Return how many seconds have passed."""
        return self._passed.total_seconds()

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        """Move the time forward."""
        if by < timedelta():
            raise ValueError("time does not run backwards")
        self._now += by
        self._passed += by

    def step(self, by: timedelta) -> None:
        """Set the clock, forward or back; no time passes."""
        self._now += by
