"""Two tasks that tell Airflow of moves at once, exhaustively: every order of their calls, and what may go wrong, once.

What may go wrong: a task is killed, or marked failed while it goes on, or the leases end under their holders. What
runs is `services.advance` itself, over the ledger in memory. At every moment a last task must be able to tell what is
left, as the end of a Dag does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.moves import LEASE
from airflow_kafka_lake.services.advance import begin_delivery, end_delivery
from tests.contracts.ledger_world import SPEC, committed, planned
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import MemoryLedger, State

Event = tuple[str, int, int]
"""Who has told, after which move, and up to which."""


class StopError(BaseException):
    """The actor has made its next call, and is stopped before the one after it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All that the tasks share."""

    ledger: State
    hours: int
    states: tuple[tuple[str, str], ...]
    accepted: tuple[Event, ...]

    def facts(self) -> str:
        """Tell moments apart."""
        notified = self.ledger.notified.get(SPEC.name)
        return repr((notified, len(self.ledger.moves), self.hours, self.states, self.accepted))


@dataclass(frozen=True, slots=True)
class Actor:
    """A task: the answers of the calls that it has made, and whether it makes more."""

    name: str
    wave: str
    answers: tuple[Any, ...] = ()
    over: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A moment, how far each task is, and whether something went wrong."""

    moment: Moment
    actors: tuple[Actor, ...]
    fault: str = ""
    path: tuple[str, ...] = ()


class Place:
    """Ledger and Airflow, set to a moment; a task's calls are answered from its memory before one is made for real."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._begun = self.clock.now()
        self.ledger = MemoryLedger(self.clock)
        self.states: dict[str, str] = {}
        self.accepted: list[Event] = []

    def enter(self, moment: Moment) -> None:
        """Be at a moment."""
        self.ledger.restore(moment.ledger)
        self.clock.step(self._begun + moment.hours * 2 * LEASE - self.clock.now())
        self.states, self.accepted = dict(moment.states), list(moment.accepted)

    def leave(self) -> Moment:
        """Return the moment that it is now."""
        hours = (self.clock.now() - self._begun) // (2 * LEASE)
        return Moment(self.ledger.snapshot(), hours, tuple(sorted(self.states.items())), tuple(self.accepted))

    def land(self, wave: str) -> None:
        """Commit a wave, and advance."""
        committed(self.ledger, wave)
        self.ledger.advance(SPEC.name)

    def succeed(self, name: str, told: tuple[int, int] | None) -> None:
        """Accept a task's success with its events, while the task is running; refuse it else."""
        if self.states[name] == "running":
            self.states[name] = "success"
            self.accepted += [(name, *told)] if told else []

    def step(self, actor: Actor) -> Actor:
        """Let a task make its next call."""
        answers = list(actor.answers)
        calls = 0

        def call(act: Callable[[], Any]) -> Any:
            nonlocal calls
            calls += 1
            if calls <= len(actor.answers):
                return answers[calls - 1]
            if calls > len(actor.answers) + 1:
                raise StopError
            answers.append(act())
            return answers[-1]

        try:
            self._life(actor, call)
        except StopError:
            return replace(actor, answers=tuple(answers))
        return replace(actor, answers=tuple(answers), over=True)

    def _life(self, actor: Actor, call: Callable[[Callable[[], Any]], Any]) -> None:
        """Land a wave, tell what was not told, succeed, and acknowledge."""
        asked: Any = _Asking(self, call)
        call(lambda: self.land(actor.wave) if actor.wave else None)
        told = None
        try:
            if delivery := begin_delivery(asked, SPEC.name, actor.name, asked):
                told = (delivery[0], delivery[1][-1].sequence)
        except ConcurrentError:
            told = None
        call(lambda: self.succeed(actor.name, told))
        if told:
            row = NotifiedRow(pipeline=SPEC.name, through=told[1], holder=actor.name)
            end_delivery(asked, row, asked)


class _Asking:
    """The ledger, and Airflow as a receiver, as a task asks them."""

    def __init__(self, place: Place, call: Callable[[Callable[[], Any]], Any]) -> None:
        self._place, self._call = place, call

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self._call(lambda: getattr(self._place.ledger, name)(*given))

    def has_ended(self, holder: str) -> bool:
        return self._call(lambda: self._place.states[holder] != "running")

    def has_accepted(self, row: NotifiedRow) -> bool:
        return self._call(lambda: (row.holder, row.through) in [(name, to) for name, _, to in self._place.accepted])


class Model:
    """Explores every node once."""

    def __init__(self) -> None:
        self.place = Place()
        (wave, *_) = planned(self.place.ledger, [(0, 0, 10)])
        (other, *_) = planned(self.place.ledger, [(0, 10, 20)])
        self.place.states = {"a": "running", "b": "running"}
        self.nodes: set[str] = set()
        self._first = Node(self.place.leave(), (Actor("a", wave), Actor("b", other)))

    def explore(self) -> None:
        """Visit every node that can be reached."""
        waiting = [self._first]
        while waiting:
            node = waiting.pop()
            key = repr((node.moment.facts(), node.fault, [(a.over, a.answers) for a in node.actors]))
            if key not in self.nodes:
                self.nodes.add(key)
                self._check(node)
                waiting += self._next(node)

    def _next(self, node: Node) -> Iterator[Node]:
        for number, actor in enumerate(node.actors):
            if actor.over:
                continue
            self.place.enter(node.moment)
            after = self.place.step(actor)
            yield self._after(node, number, after, f"{actor.name}: call {len(after.answers)}")
            if not node.fault and actor.answers:
                self.place.enter(node.moment)
                yield self._after(node, number, replace(actor, over=True), f"{actor.name} is killed", "killed")
                self.place.enter(node.moment)
                if self.place.states[actor.name] == "running":
                    self.place.states[actor.name] = "failed"
                    yield self._after(node, number, actor, f"{actor.name} is marked failed", "failed")
        if not node.fault:
            self.place.enter(node.moment)
            self.place.clock.advance(2 * LEASE)
            yield replace(node, moment=self.place.leave(), fault="lease", path=(*node.path, "leases end"))

    def _after(self, node: Node, number: int, actor: Actor, said: str, fault: str = "") -> Node:
        actors = (*node.actors[:number], actor, *node.actors[number + 1 :])
        path = (*node.path, said)
        return replace(node, moment=self.place.leave(), actors=actors, fault=fault or node.fault, path=path)

    def _check(self, node: Node) -> None:
        try:
            self._in_order(node.moment.accepted, node)
            self._lead_out(node)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), "after:", *node.path])) from error

    @staticmethod
    def _in_order(accepted: tuple[Event, ...], node: Node) -> None:
        if node.fault != "lease":
            chain = [0, *(to for _, _, to in accepted)]
            assert [after for _, after, _ in accepted] == chain[:-1], f"not each once and in order: {accepted}"
        assert all(later[1] <= earlier[2] for earlier, later in pairwise(accepted)), f"one is missing: {accepted}"

    def _lead_out(self, node: Node) -> None:
        """A task that is left in the middle is dead, and Airflow has noticed: the end of the Dag tells what is left."""
        place = self.place
        place.enter(node.moment)
        place.states |= {name: "failed" for name, state in place.states.items() if state == "running"}
        place.states["end"] = "running"
        last = Actor("end", "")
        while not last.over:
            last = place.step(last)
        assert not place.ledger.unnotified(SPEC.name)
        moves = [move.sequence for _, move in place.ledger.snapshot().moves]
        assert max((to for _, _, to in place.accepted), default=0) == max(moves, default=0)
        self._in_order(tuple(place.accepted), node)


def test_every_order_of_two_tasks_tells_each_move_once_and_in_order(
    record_property: Callable[[str, object], None],
) -> None:
    """Only a lease that ends under a task that goes on lets a move come twice, and none is ever missing."""
    model = Model()
    model.explore()
    record_property("nodes", len(model.nodes))
    assert len(model.nodes) > 500


@pytest.mark.parametrize("fault", ["killed", "failed", "lease"])
def test_model_meets_each_fault(fault: str) -> None:
    """A fault that never happens shows nothing."""
    model = Model()
    begun = next(iter(model._next(model._first)))
    assert fault in {node.fault for node in model._next(begun)}
