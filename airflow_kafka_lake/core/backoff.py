"""When a waiting task looks again: one timer per wait, slower and slower, at once faster when something happens (L15).

Times are seconds on any clock that does not run backwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_SECONDS = 2.0
LONGEST_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One wait: the next check is `due` then, `pause` after the last one; a closed wait is due never."""

    due: float | None
    pause: float

    @classmethod
    def begin(cls, now: float) -> Wait:
        """Start a wait: the first check is due after `FIRST_SECONDS`."""
        return cls(due=now + FIRST_SECONDS, pause=FIRST_SECONDS)

    def is_due(self, now: float) -> bool:
        """Return whether it is time to check."""
        return self.due is not None and now >= self.due

    def checked(self, now: float) -> Wait:
        """Return the wait after a check that did not end it: the pause doubles, up to `LONGEST_SECONDS`."""
        if self.due is None:
            return self
        pause = min(self.pause * 2, LONGEST_SECONDS)
        return Wait(due=now + pause, pause=pause)

    def progressed(self, now: float) -> Wait:
        """Return the wait after something happened: the pauses start anew.

        No check comes later by that: where something always happens, none would come at all.
        """
        anew = Wait.begin(now)
        return self if self.due is None else replace(anew, due=min(self.due, now + anew.pause))

    def closed(self) -> Wait:
        """Return the ended wait, which nothing opens again, whatever its last check answers."""
        return replace(self, due=None)
