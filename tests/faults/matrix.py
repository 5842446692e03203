"""Every failpoint in every mode, in every command that crosses it: what dies, stops, fails, dawdles or is not answered.

A case puts a place into a state of the world and runs a command with one trap. The trap must spring. A successor does
its work; a stopped command goes on after that. Then the same command again, the main job, and the main job once more,
which must find nothing to do; and everything that must hold is held against the producers' acknowledgements.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from airflow_kafka_lake.local.processes import wait_until
from tests.faults import operations
from tests.faults.operations import ACTS, Act
from tests.faults.place import Ended, Place, Started
from tests.faults.verdict import problems, problems_amid
from tests.kit.failpoints import points
from tests.kit.traps import Mode, modes

DRIVER = "driver."
"""Where the names of points inside the Spark driver begin."""
SPRING_SECONDS = 120
ENDS_WELL = frozenset({0, 1})
"""Done; or refused because it is done already, or because a person's decision holds."""
EXIT_CODES = frozenset({0, 1, 3, 4})
Traces = Mapping[str, Mapping[str, int]]

OF_TASKS = ("table.rows_between:",)
"""Points of calls that no command makes, only Airflow's task that closes hours (tests/properties/test_closing.py)."""


def crossed() -> tuple[str, ...]:
    """Return the points that commands cross."""
    return tuple(point for point in points() if not point.startswith(OF_TASKS))


class RedError(AssertionError):
    """The case is red; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One trap in one command; `nth` is the crossing."""

    act: Act
    point: str
    mode: Mode
    nth: int = 1

    def __str__(self) -> str:
        nth = "" if self.nth == 1 else f"@{self.nth}"
        return f"{self.point}={self.mode}{nth} in {self.act.name}"

    @property
    def traps(self) -> str:
        """What arms it."""
        return f"{self.point}={self.mode}@{self.nth}"


def traced(place: Place, act: Act) -> dict[str, int]:
    """Run an act without a trap; returns how often it crosses each point."""
    operations.begin(place, act.begins)
    ended = place.command(*act.words(place), trace=True)
    if ended.code not in ENDS_WELL:
        raise RedError(f"{act.name} does not even work: {ended}")
    return json.loads(place.trace.read_text(encoding="utf-8"))


class TracesOnDemand(dict[str, Mapping[str, int]]):
    """What acts cross in a place; an act runs when it is asked about for the first time."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, name: str) -> Mapping[str, int]:
        (act,) = (act for act in ACTS if act.name == name)
        self[name] = traced(self._place, act)
        return self[name]


def cases(traces: Traces) -> Iterator[Case]:
    """Every act with every point that it crosses and everything that may happen there; the last crossing dies too."""
    for act in ACTS:
        for point in points():
            crossings = traces[act.name].get(point, 0)
            if crossings:
                yield from (Case(act=act, point=point, mode=mode) for mode in modes(point))
            if crossings > 1:
                yield from (Case(act=act, point=point, mode=mode, nth=crossings) for mode in (Mode.KILL, Mode.STOP))


def chosen(traces: Traces, point: str, mode: Mode) -> Case:
    """Return the case that stands for a point and a mode."""
    for act in ACTS:
        if traces[act.name].get(point):
            return Case(act=act, point=point, mode=mode)
    raise RedError(f"no command crosses {point}: nothing is known about it")


def dealt(traces: Traces, pairs: Sequence[tuple[str, Mode]], seed: int) -> Iterator[Case]:
    """Deal commands to pairs of a point and a mode, so that each command that crosses one gets its share."""
    deal, had = random.Random(seed), Counter[str]()
    for point, mode in deal.sample(pairs, len(pairs)):
        crossing = [act for act in ACTS if traces[act.name].get(point)]
        if not crossing:
            raise RedError(f"no command crosses {point}: nothing is known about it")
        act = min(crossing, key=lambda act: (had[act.name], deal.random()))
        had[act.name] += 1
        yield Case(act=act, point=point, mode=mode)


def sampled(pairs: Sequence[tuple[str, Mode]], seed: int) -> list[tuple[str, Mode]]:
    """Return every pair inside the driver, and of each other point one, in a mode that a seed deals."""
    deal = random.Random(seed)
    outside = {point: mode for point, mode in deal.sample(pairs, len(pairs)) if not point.startswith(DRIVER)}
    return [pair for pair in pairs if pair[0].startswith(DRIVER)] + sorted(outside.items())


def played(place: Place, case: Case) -> str:
    """Play a case; returns what is wrong, or nothing."""
    try:
        perform(place, case)
    except Exception as error:  # noqa: BLE001  # whatever it is, the case is red, and the next one is played
        return f"{type(error).__name__}: {error}"
    return ""


def perform(place: Place, case: Case) -> None:
    """Play a case; RedError says what is wrong."""
    operations.begin(place, case.act.begins)
    words, rival = case.act.words(place), case.act.rival(place)
    first = place.start(*words, traps=case.traps)
    ended: list[Ended] = []
    for item in _beside(place, case, first, rival):
        ended.append(item)
        _hold_amid(place, ended)
    if place.sprung() != [f"{case.point}={case.mode}"]:
        raise RedError(f"the trap did not spring: {ended}")
    ended.append(_well(place.command(*words)))
    if words[0] == "pause":
        ended.append(_well(place.command(*operations.resume(place))))
    if words[0] != "run":
        ended.append(_well(place.run()))
    _idle(place)
    _hold(place, ended, told=words[0] == "tell")
    if place.cancelled():
        _let_go(place)


def _beside(place: Place, case: Case, first: Started, rival: Sequence[str]) -> Iterator[Ended]:
    """Let happen what happens beside a trapped command; yields the commands in the order of their ends."""
    match case.mode:
        case Mode.STOP:
            place.stopped(first)
            _hold_amid(place, [])
            place.end_leases()
            yield _well(place.command(*rival))
            yield _no_defect(place.resume(first))
        case Mode.DELAY:
            wait_until(lambda: bool(place.sprung()), timeout=SPRING_SECONDS, failed=_nothing_sprang, every=0.005)
            yield _no_defect(place.command(*rival))
            yield _no_defect(place.end(first))
        case Mode.KILL if not case.point.startswith(DRIVER):
            yield _killed(place.end(first))
        case Mode.KILL | Mode.RAISE | Mode.LOST:
            yield _no_defect(place.end(first))
        case _:
            assert_never(case.mode)


def _nothing_sprang(why: str) -> RedError:
    return RedError(f"nothing sprang: {why}")


def _killed(ended: Ended) -> Ended:
    if ended.code != -signal.SIGKILL:
        raise RedError(f"it was not killed: {ended}")
    return ended


def _no_defect(ended: Ended) -> Ended:
    """Refuse an end that is not one of ours: a traceback, an internal error, a code that no document names."""
    if ended.code not in EXIT_CODES or "Traceback" in ended.err or '"InternalError"' in ended.out:
        raise RedError(f"no end that a person should meet: {ended}")
    return ended


def _well(ended: Ended) -> Ended:
    """Refuse also what says "again" or "unknown": no other worker is at work, and the answer must be final."""
    if _no_defect(ended).code not in ENDS_WELL:
        raise RedError(f"running it again was not right: {ended}")
    return ended


def _idle(place: Place) -> None:
    """Run once more: there must be nothing to do."""
    ended = _well(place.run())
    if "error" in ended.document or ended.document["waves"] or ended.document["advanced"]:
        raise RedError(f"something was left to do: {ended}")


def _hold(place: Place, ended: Sequence[Ended], *, told: bool = False) -> None:
    found = problems(place, ended)
    ledger = place.ledger()
    if told and ledger.unnotified(place.name):
        found.append("moves were not told")
    ledger.close()
    audited = place.command(*operations.audit(place))
    if audited.code != 0:
        found.append(f"audit says: {audited.out} {audited.err}")
    if found:
        raise RedError(f"{found}, after {[(item.words[0], item.code, item.err) for item in ended]}")


def _hold_amid(place: Place, ended: Sequence[Ended]) -> None:
    """Hold also what is half done: what is visible is whole, acknowledged and there once."""
    if found := problems_amid(place):
        raise RedError(f"{found} in the middle, after {[(item.words[0], item.code, item.err) for item in ended]}")


def _let_go(place: Place) -> None:
    """Take every hold off: what was held lands too."""
    for name in place.cancelled():
        _well(place.command("release", name, "--json"))
    ended = place.run()
    if ended.code != 0 or place.cancelled():
        raise RedError(f"what was released did not land: {ended}")
    _idle(place)
    _hold(place, [ended])
