"""Main's history: the snapshots before its newest one, as far as the table still has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A commit's place: its snapshot, and the sequence number, which grows with every snapshot of the table."""

    snapshot: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """Main's history as one load has it: newest to oldest, until it ends or has expired.

    `since` is the sequence number of the oldest snapshot; 0 where nothing came before it, so that nothing has expired.
    `left` are the attempts whose publishes the table still has beside main: it was moved away from them, whatever
    clocks say. `beside` are all snapshots that the table still has beside main's.
    """

    snapshots: frozenset[int] = frozenset()
    since: int = 0
    left: frozenset[str] = frozenset()
    beside: frozenset[int] = frozenset()

    def lacks(self, place: Place) -> bool:
        """Return whether main was moved away from a commit: it is not in the history, and is too new to have expired.

        Rows prove nothing here: other engines delete them, and the commit stays in main's history all the same.
        """
        return place.snapshot not in self.snapshots and place.sequence >= self.since

    def lacks_publish(self, attempt: str, *, base: int | None, snapshot: int) -> bool:
        """Return the same for a publish whose sequence number is not known, but a snapshot that came before it."""
        if snapshot in self.snapshots:
            return False
        return attempt in self.left or not self.since or base in self.snapshots
