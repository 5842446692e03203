"""Revoke ranges from a wave, for a person to decide about or to go on in another wave; and release them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import LONGEST, AttemptWrite, Change, Edit, Entry, Records, Scope, Write
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict, WaveRow
from airflow_kafka_lake.core.ledger.wave_changes import dissolved, given_back, new_wave, states_after
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNRESOLVED, WAVE_TRANSITIONS, Act, AttemptKey, RangeState

NAMED = 3
"""Ranges that the history names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(AttemptWrite[None]):
    """Take ranges away from a wave (law L11): each → CANCELLED or HELD with its reason, or PLANNED, which moves it to
    a new wave named `apart`. A verdict about a part cuts its range; what is beside the part stays PLANNED in the wave.

    Guarded by the fence; `attempt` is None only for a wave that was never claimed (fence 0). When no PLANNED range is
    left the wave becomes CANCELLED (all its ranges CANCELLED) or DISSOLVED; else it returns to PLANNED. The attempt
    ends as `abandoned` unless it has ended. StateError for a range that is no PLANNED one of the wave; ValueError for
    verdicts that contradict each other, and for a part that is not inside its range.
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
        _check_verdicts(self.verdicts, self.apart)
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
        changed = list(self._revoked(found))
        moved = [row for edit in changed if isinstance(row := edit.after, RangeRecord) and row.wave != home.id]
        new = (new_wave(records, self.apart, home, moved),) if self.apart else ()
        left = states_after(records, changed)
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
                    detail=self._detail(found),
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

    def _revoked(self, found: Mapping[str, RangeRecord]) -> Iterator[Edit]:
        """Yield whole ranges as they become, then the parts of those that are cut."""
        cut: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in self.verdicts:
            item = found.get(verdict.range_id)
            if item is None or item.wave != self.wave or item.state is not RangeState.PLANNED:
                raise _not_planned(verdict.range_id, self.wave)
            if verdict.part is None:
                yield Edit(before=item, after=self._decided(item, verdict))
            else:
                cut[item.id].append(verdict)
        for name, verdicts in cut.items():
            for part, decided in _cut(found[name], verdicts):
                after = self._decided(part, decided) if decided else part
                yield Edit(before=found.get(part.id), after=after)

    def _decided(self, item: RangeRecord, verdict: Verdict) -> RangeRecord:
        if verdict.state is RangeState.PLANNED:
            return item.decided(verdict.state, wave=self.apart or item.wave, held_for=verdict.held_for)
        return item.decided(verdict.state, wave=item.wave, reason=verdict.reason, held_for=verdict.held_for)

    def _detail(self, found: Mapping[str, RangeRecord]) -> str:
        """Return which ranges left the wave and why; the first few by name."""
        ids = (found[v.range_id].piece_id(v.part.start) if v.part else v.range_id for v in self.verdicts)
        named = "; ".join(f"{name} {v.state}: {v.reason}" for name, v in zip(ids, self.verdicts[:NAMED], strict=False))
        more = f"; and {len(self.verdicts) - NAMED} more" if len(self.verdicts) > NAMED else ""
        return named[:LONGEST] + more


def _cut(item: RangeRecord, verdicts: Sequence[Verdict]) -> Iterator[tuple[RangeRecord, Verdict | None]]:
    """Cut a range at the edges of the parts that are decided about; each part with its verdict, if it has one."""
    by_part = {verdict.part: verdict for verdict in verdicts if verdict.part is not None}
    cuts = item.range.split_at(edge for part in by_part for edge in (part.start, part.end))
    if by_part.keys() - set(cuts) or len(by_part) != len(verdicts):
        raise ValueError(f"the parts of range {item.id} are not inside {item.range}, or overlap")
    return ((item.piece(cut), by_part.get(cut)) for cut in cuts)


def _check_verdicts(verdicts: Sequence[Verdict], apart: str | None) -> None:
    """Refuse verdicts that name nothing, something twice, or a state that is no hold.

    PLANNED is for what goes to the wave `apart`; naming that wave for nothing is refused too.
    """
    if not verdicts:
        raise ValueError("no range is named to be taken from the wave")
    whole = {verdict.range_id for verdict in verdicts if verdict.part is None}
    if len(whole) + sum(verdict.range_id not in whole for verdict in verdicts) != len(verdicts):
        raise ValueError("a range is named twice")
    allowed = (RangeState.CANCELLED, RangeState.HELD, *((RangeState.PLANNED,) if apart else ()))
    for verdict in verdicts:
        if verdict.state not in allowed:
            raise ValueError(f"range {verdict.range_id} cannot be taken to {verdict.state}")
        if verdict.held_for and verdict.state is not RangeState.HELD:
            raise ValueError(f"range {verdict.range_id} is not HELD, but it would be held for {verdict.held_for}")
    if apart and all(verdict.state is not RangeState.PLANNED for verdict in verdicts):
        raise ValueError(f"no range is taken to wave {apart}")


def _not_planned(range_id: str, wave: str) -> StateError:
    return StateError(
        f"Range {range_id} is no PLANNED range of wave {wave}. Nothing was taken; look with: {remedies.wave(wave)}",
        range=range_id,
        wave=wave,
    )


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
            raise StateError(
                "The ranges belong to several lake tables. Nothing was released; release them table by table."
            )
        home = homes[0]
        whole = self._is_whole(records, home, wanted)
        target = home if whole else new_wave(records, self.wave, home, wanted)
        changed = [Edit(before=item, after=item.decided(RangeState.PLANNED, wave=target.id)) for item in wanted]
        left = states_after(records, changed)
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
                    detail=count(len(wanted), "range") + (f": {self.reason}" if self.reason else ""),
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
                state = found[name].state
                raise StateError(f"Range {name} is {state}, not CANCELLED or HELD.", range=name, state=state.value)
            wanted.append(found[name])
        return wanted

    @staticmethod
    def _is_whole(records: Records, home: WaveRow, wanted: Sequence[RangeRecord]) -> bool:
        """Return whether all that is unresolved of one CANCELLED wave is released: it goes on as it is."""
        if home.state not in WAVE_TRANSITIONS[Act.RELEASE][0] or any(item.wave != home.id for item in wanted):
            return False
        return len(wanted) == sum(records.counts[home.id].get(state, 0) for state in UNRESOLVED)
