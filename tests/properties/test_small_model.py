"""A small world, exhaustively: two workers, one wave, every order of their port calls, and what may go wrong.

What may go wrong, once: a commit's answer is lost or comes late, a lease ends under its holder, others believe a worker
dead, who may go on or not. That a worker dies unnoticed comes on top: at every moment others must be able to end what
is there, without those two.

What runs are the services themselves. Calls that do not see each other are tried in one order only: where two orders
lead to the same world and the same answers, what comes after is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

import pytest

from airflow_kafka_lake.core.errors import KafkaLakeError, LedgerBehindError, UnexpectedError
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import (
    advance,
    decisions,
    pipeline_audit,
    planning,
    recovery,
    staging,
)
from airflow_kafka_lake.services.decisions import PauseSubject
from airflow_kafka_lake.services.rebuilding import rebuild
from tests import truth
from tests.kit.memory_lake import Answer
from tests.properties.stepping import Action, Actor, Moment, step
from tests.world import FOLLOW, World

SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders", target_range_bytes=150)
WAVE = "p1-w0"
BESIDE = "p2-w0"
RANGE = "p1-w0r0"
PAUSED = PauseSubject(pipeline="orders")
COMMITS = frozenset({"table.publish", "table.fence"})


def _ingest(ports: Ports) -> object:
    return landed(staging.ingest(ports, WAVE))


def _ingest_beside(ports: Ports) -> object:
    return landed(staging.ingest(ports, BESIDE))


def _audit(ports: Ports) -> None:
    findings = pipeline_audit.audit(ports, SPEC).to_json()["findings"]
    assert not findings, findings


def _plan(ports: Ports) -> object:
    return planning.plan(ports, SPEC, FOLLOW, plan_id="p3")


def _cancel(ports: Ports) -> object:
    return decisions.cancel(ports, RANGE, "not this one")


def _skip(ports: Ports) -> object:
    (stream,) = ports.ledger.streams("orders")
    return decisions.skip(ports, "orders", stream, OffsetRange(0, 1), reason="bad", acknowledge_order=False)


def _recover(ports: Ports) -> object:
    recovery.recover(ports, "orders")
    return advance.advance(ports, "orders")


def _rebuild(ports: Ports) -> object:
    return rebuild(ports, SPEC)


def _pause(ports: Ports) -> object:
    return decisions.pause(ports, PAUSED, "not now", now=True)


BY_FORCE = (_cancel, _pause)
"""What a person decides: a living holder loses his wave."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two actions, how much may go wrong, and how many nodes there are at least.

    Those of two waves do not concern each other: neither may end with an error, whatever the order.
    """

    first: Action
    second: Action
    nodes: int
    faults: int = 1
    waves: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A moment, who is where in it, and which faults are left."""

    moment: Moment
    actors: tuple[Actor, ...]
    faults: int
    path: tuple[str, ...] = ()

    def key(self, facts: bytes) -> bytes:
        """Tell nodes apart whose futures can differ."""
        forgotten = self.moment.late is None
        actors = b"".join(b"over" if actor.over and forgotten else actor.digest for actor in self.actors)
        return blake2b(facts + actors + bytes((self.faults,)), digest_size=16).digest()


class Model:
    """Explores every node once, and checks each moment once."""

    def __init__(self, pair: Pair) -> None:
        self.world = World(1, SPEC)
        self.waves = pair.waves
        for _ in range(self.waves):
            self.world.produce(2)
            self.world.plan()
        actors = (Actor("first", 101, pair.first), Actor("second", 102, pair.second))
        moment = Moment.of(self.world)
        self.nodes: set[bytes] = set()
        self.moments: set[bytes] = set()
        self._told: dict[int, tuple[Moment, bytes]] = {}
        begun = tuple(self._step(moment, actor)[1] for actor in actors)
        self._first = Node(moment, begun, faults=pair.faults)

    def explore(self) -> None:
        """Visit every node that can be reached."""
        waiting = [self._first]
        while waiting:
            node = waiting.pop()
            facts = self._facts(node.moment)
            key = node.key(facts)
            if key in self.nodes:
                continue
            self.nodes.add(key)
            if facts not in self.moments:
                self.moments.add(facts)
                self._check(node)
            waiting += self._next(node)

    def _facts(self, moment: Moment) -> bytes:
        if id(moment) not in self._told:
            self._told[id(moment)] = (moment, blake2b(moment.facts().encode(), digest_size=16).digest())
        return self._told[id(moment)][1]

    def _step(self, moment: Moment, actor: Actor, answer: Answer = Answer.GIVEN) -> tuple[Moment, Actor]:
        moment.enter(self.world)
        self.world.table.next_answer = answer
        paused, fence = self._is_paused(), self.world.ledger.wave(WAVE).fence
        after = step(self.world, actor)
        assert self.waves == 1 or after.error is None, repr(after.error)
        if paused and actor.action is _ingest:
            assert self.world.ledger.wave(WAVE).fence == fence, "a wave was begun while its pipeline was paused"
        if actor.action not in BY_FORCE:
            truth.check_claims(self.world, moment.ledger)
        return Moment.of(self.world, moment), after

    def _is_paused(self) -> bool:
        record = self.world.ledger.pipeline("orders")
        return record is not None and bool(record.pauses)

    def _next(self, node: Node) -> Iterator[Node]:
        for number, actor in enumerate(node.actors):
            if actor.over:
                continue
            yield self._stepped(node, number, Answer.GIVEN)
            if node.faults and actor.waits_at in COMMITS:
                for answer in (Answer.LOST_LANDED, Answer.LOST, Answer.LATE):
                    yield replace(self._stepped(node, number, answer), faults=node.faults - 1)
            if node.faults and actor.pid not in node.moment.dead:
                moment = replace(node.moment, dead=node.moment.dead | {actor.pid})
                path = (*node.path, f"{actor.name} is believed dead")
                yield replace(node, moment=moment, faults=node.faults - 1, path=path)
        if node.faults and (moment := node.moment.leases_end()):
            yield replace(node, moment=moment, faults=node.faults - 1, path=(*node.path, "leases end"))
        if node.moment.late:
            node.moment.enter(self.world)
            self.world.table.land_late()
            yield replace(node, moment=Moment.of(self.world), path=(*node.path, "a late commit arrives"))

    def _stepped(self, node: Node, number: int, answer: Answer) -> Node:
        actor = node.actors[number]
        said = f"{actor.name}: {actor.waits_at}" + ("" if answer is Answer.GIVEN else f" ({answer})")
        try:
            moment, after = self._step(node.moment, actor, answer)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), "after:", *node.path, said])) from error
        actors = (*node.actors[:number], after, *node.actors[number + 1 :])
        return replace(node, moment=moment, actors=actors, path=(*node.path, said))

    def _check(self, node: Node) -> None:
        try:
            for actor in node.actors:
                expected = isinstance(actor.error, KafkaLakeError) and not isinstance(actor.error, UnexpectedError)
                assert actor.error is None or expected, repr(actor.error)
            node.moment.enter(self.world)
            truth.check_always(self.world)
            truth.check_tokens(self.world)
            self._lead_out()
        except Exception as error:
            raise AssertionError("\n".join([f"{type(error).__name__}: {error}", "after:", *node.path])) from error

    def _lead_out(self) -> None:
        """A worker that is left in the middle never goes on: others must be able to end it."""
        world = self.world
        world.table.land_late()
        world.lease_ends()
        if self._is_paused():
            decisions.resume(world.worker(), PAUSED)
        for item in world.ledger.ranges(pipeline="orders", states=(RangeState.CANCELLED, RangeState.HELD)):
            decisions.release(world.worker(), item.id, None)
        try:
            world.run()
        except LedgerBehindError:
            _rebuild(world.worker())
            world.run()
        truth.check_always(world)
        world.check()
        assert not world.ledger.ranges(pipeline="orders", states=UNRESOLVED)
        assert world.stream().watermark == 2 * self.waves


PAIRS = {
    "two waves": Pair(_ingest, _ingest_beside, nodes=300, faults=0, waves=2),
    "audit and a wave": Pair(_audit, _ingest, nodes=100, faults=0, waves=2),
    "plan and a wave": Pair(_plan, _ingest, nodes=100, faults=0, waves=2),
    "ingest and ingest": Pair(_ingest, _ingest, nodes=17_000),
    "ingest and cancel": Pair(_ingest, _cancel, nodes=6_000),
    "ingest and pause": Pair(_ingest, _pause, nodes=6_000),
    "ingest and skip": Pair(_ingest, _skip, nodes=5_000),
    "ingest and recover": Pair(_ingest, _recover, nodes=7_000),
    "ingest and rebuild": Pair(_ingest, _rebuild, nodes=50_000, faults=0),
    "ingest and rebuild, and a fault": Pair(_ingest, _rebuild, nodes=800_000),
}
DAILY = ("plan and a wave",)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in PAIRS]
)
def test_every_order_of_two_workers_ends_exactly_once(
    name: str, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    """No order shows a row twice or too early, takes back what a person decided, or leaves a wave without a way out."""
    if pytestconfig.getoption("--fast"):
        pytest.skip("takes long; run without --fast")
    pair = PAIRS[name]
    model = Model(pair)
    model.explore()
    record_property("nodes", len(model.nodes))
    record_property("moments", len(model.moments))
    assert len(model.nodes) >= pair.nodes, f"{len(model.nodes)} nodes, {len(model.moments)} moments"
