"""Take ranges away from a wave, to be decided about by a person or to go on by themselves; and release them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.changes import (
    AttemptWrite,
    Change,
    Edit,
    Entry,
    Records,
    Scope,
    Write,
    counted,
)
from airflow_kafka_lake.core.ledger.cutting import cut_for_revocation
from airflow_kafka_lake.core.ledger.leaving import dissolved, given_back, new_wave
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.rows import WaveRow
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNRESOLVED, WAVE_TRANSITIONS, Act, AttemptKey, RangeState
from airflow_kafka_lake.core.offsets import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(AttemptWrite[None]):
    """Take ranges away from a wave (law L11): each → CANCELLED or HELD with its reason, or PLANNED: those stay as they
    are, in a new wave named `apart`, of which others have no part. A verdict about a part cuts its range, and what is
    beside the part stays PLANNED in the wave; ValueError for a part that is not inside its range.

    Guarded by the fence; `attempt` is None only for a wave that was never claimed (fence 0). When no PLANNED range is
    left the wave becomes CANCELLED (all its ranges CANCELLED) or DISSOLVED; else it returns to PLANNED. The attempt
    ends as `abandoned` unless it has ended.
    """

    name: ClassVar[str] = "revoke"
    wave: str
    fence: int
    attempt: str | None
    verdicts: Sequence[Verdict]
    actor: str
    apart: str | None = None

    @property
    def key(self) -> AttemptKey:  # type: ignore[override]
        """The attempt that the wave is taken from; one that was never claimed has none."""
        return AttemptKey(wave=self.wave, fence=self.fence, attempt=self.attempt or "-")

    def scope(self) -> Scope:
        guards.check_verdicts(self.verdicts, self.apart)
        new = () if self.apart is None else (self.apart,)
        return Scope(
            waves=(self.wave, *new),
            ranges=[item.range_id for item in self.verdicts],
            counts=True,
            attempts=True,
            plans=self.apart is not None,
        )

    def decide(self, records: Records) -> Change[None]:
        home = self._home(records)
        found = {item.id: item for item in records.ranges}
        pieces, verdicts = cut_for_revocation(self.wave, found, self.verdicts)
        after = found | {item.id: item for item in pieces}
        moved = [after[item.range_id] for item in verdicts if item.state is RangeState.PLANNED and self.apart]
        new = (new_wave(records, self.apart, home, moved),) if self.apart and moved else ()
        for verdict in verdicts:
            after[verdict.range_id] = self._revoked(after, verdict)
        changed = [Edit(before=found.get(name), after=row) for name, row in after.items() if found.get(name) != row]
        left = counted(records, changed)
        return Change(
            result=None,
            edits=(
                *(Edit(after=row) for row in new),
                *given_back(records, home, left.get(home.id, ())),
                *changed,
            ),
            entries=(
                Entry(
                    pipeline=home.pipeline,
                    actor=self.actor,
                    kind="revoke",
                    subject=self.wave,
                    detail=history.taken(verdicts),
                ),
            ),
        )

    def _home(self, records: Records) -> WaveRow:
        """Return the wave, at the fence and with the attempt of the caller, whether that still works on it or not."""
        wave = records.wave(self.wave)
        mine = next((item.attempt for item in records.attempts_of(wave.id) if item.fence == self.fence), None)
        if (wave.fence, mine) != (self.fence, self.attempt):
            raise guards.stale(self.key, wave.state, wave.fence)
        if wave.state not in WAVE_TRANSITIONS[Act.CANCEL][0]:
            raise guards.forbidden(wave.id, wave.pipeline, wave.state, WAVE_TRANSITIONS[Act.CANCEL])
        return wave

    def _revoked(self, ranges: dict[str, RangeRecord], verdict: Verdict) -> RangeRecord:
        item = ranges.get(verdict.range_id)
        if item is None or item.wave != self.wave or item.state is not RangeState.PLANNED:
            raise guards.not_planned(verdict.range_id, self.wave)
        if verdict.state is RangeState.PLANNED and self.apart:
            return replace(item, wave=self.apart, reason=None, held_for=verdict.held_for)
        return replace(item, state=verdict.state, reason=verdict.reason, held_for=verdict.held_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Write[str]):
    """CANCELLED or HELD → PLANNED. Answers with the wave they are in: their own, when that is CANCELLED and all its
    ranges are released; else the new wave named `wave`. StateError names a range in another state."""

    name: ClassVar[str] = "release"
    ranges: Sequence[str]
    wave: str
    actor: str
    reason: str | None

    def scope(self) -> Scope:
        if not self.ranges:
            raise ValueError("no range is named to be released")
        return Scope(waves=(self.wave,), ranges=self.ranges, follow=True, counts=True, plans=True)

    def decide(self, records: Records) -> Change[str]:
        wanted = self._wanted(records)
        homes = [records.of_range(item) for item in wanted]
        if len({(row.pipeline, row.table) for row in homes}) > 1:
            raise guards.mixed_tables()
        home = homes[0]
        whole = self._is_whole(records, home, wanted)
        target = home if whole else new_wave(records, self.wave, home, wanted)
        changed = [
            Edit(
                before=item,
                after=replace(item, wave=target.id, state=RangeState.PLANNED, reason=None, held_for=NOTHING),
            )
            for item in wanted
        ]
        left = counted(records, changed)
        again = replace(home, state=WAVE_TRANSITIONS[Act.RELEASE][1])
        return Change(
            result=target.id,
            edits=(
                Edit(before=home, after=again) if whole else Edit(after=target),
                *(() if whole else dissolved({row.id: row for row in homes}.values(), left)),
                *changed,
            ),
            entries=(
                Entry(
                    pipeline=home.pipeline,
                    actor=self.actor,
                    kind="release",
                    subject=target.id,
                    detail=history.released(len(wanted), self.reason),
                ),
            ),
        )

    def _wanted(self, records: Records) -> list[RangeRecord]:
        found = {item.id: item for item in records.ranges}
        wanted = []
        for name in dict.fromkeys(self.ranges):
            if name not in found:
                raise guards.unknown("range", name)
            if found[name].state not in ON_HOLD:
                raise guards.wrong_state(name, found[name].state, "CANCELLED or HELD")
            wanted.append(found[name])
        return wanted

    @staticmethod
    def _is_whole(records: Records, home: WaveRow, wanted: Sequence[RangeRecord]) -> bool:
        """Return whether all that is unresolved of one CANCELLED wave is released: it goes on as it is."""
        if home.state not in WAVE_TRANSITIONS[Act.RELEASE][0] or any(item.wave != home.id for item in wanted):
            return False
        return len(wanted) == sum(records.counts[home.id].get(state, 0) for state in UNRESOLVED)
