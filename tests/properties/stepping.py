"""Workers that can be let go one port call at a time, from any moment of a world, without a thread.

A worker is a function of the answers it got: to take its next step, its action runs from the start with the answers on
record, makes one call for real, and is stopped at the call after that.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from airflow_kafka_lake.ports import Ports
from tests.gates import UNGATED
from tests.kit.clock import FakeClock
from tests.kit.memory_lake import store as lake_store
from tests.kit.memory_ledger import State
from tests.kit.memory_runner import MemoryRunner, Position
from tests.world import FakeProcesses, World

Action = Callable[[Ports], object]


STILL = frozenset({"ledger.pipeline", "table.staged", "source", "batches"})
"""Ports and calls that answer the same whenever they are made: no step changes what they read."""

OUTSIDE = 10**6
"""From here on are the ids of commits that are no actor's step."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StoppedError(BaseException):
    """The worker has made the call it was let go for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave: a value, or an error."""

    value: object = None
    error: Exception | None = None

    def give(self) -> Any:
        """Answer as the call did."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.value


@dataclass(frozen=True, slots=True)
class Actor:
    """One action of one process: the answers it got, the call it waits at, and how it ended."""

    name: str
    pid: int
    action: Action = field(repr=False)
    answers: tuple[Answer, ...] = ()
    digest: bytes = b""
    waits_at: str = "start"
    over: bool = False
    error: BaseException | None = None


class _Calls:
    """The crossings of one step: answers from the record first, then one real call, and what stands still."""

    def __init__(self, actor: Actor) -> None:
        self.made: list[Answer] = []
        self.said = b""
        self.waits_at = "end"
        self._recorded = iter(actor.answers)
        self._may_call = actor.waits_at != "start"
        self._stopped = False

    def cross(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call, or answer as it was answered before."""
        if self._stopped:
            raise StoppedError
        if (answer := next(self._recorded, None)) is not None:
            return answer.give()
        still = name in STILL or name.partition(".")[0] in STILL
        if not still:
            if not self._may_call:
                self._stopped, self.waits_at = True, name
                raise StoppedError
            self._may_call = False
        try:
            answer = Answer(value=call())
        except Exception as error:  # noqa: BLE001 - the caller gets it as it came
            answer = Answer(error=error)
        self.made.append(answer)
        if not still:
            self.said = repr(answer).encode()
        return answer.give()


class _Crossing:
    """A port whose every call is a crossing."""

    def __init__(self, name: str, port: Any, calls: _Calls) -> None:
        self._name, self._port, self._calls = name, port, calls

    def __getattr__(self, method: str) -> Any:
        found, name = getattr(self._port, method), f"{self._name}.{method}"
        if not callable(found) or name in UNGATED:
            return found
        return lambda *args, **kwargs: self._calls.cross(name, lambda: found(*args, **kwargs))


class _Lake:
    """A lake whose tables' calls are crossings, and so are a job's branch and commit."""

    def __init__(self, lake: Any, calls: _Calls) -> None:
        self._lake, self._calls = lake, calls

    def table(self, identifier: str) -> Any:
        """Return the table."""
        return _Crossing("table", self._lake.table(identifier), self._calls)

    def begin(self, identifier: str, attempt: str) -> None:
        """Create a job's branch."""
        self._calls.cross("job.branch", lambda: self._lake.begin(identifier, attempt))

    def stage(self, identifier: str, attempt: str, rows: Iterable[Position], **decoded: Any) -> None:
        """Commit a job's rows."""
        self._calls.cross("job.commit", lambda: self._lake.stage(identifier, attempt, rows, **decoded))


def step(world: World, actor: Actor) -> Actor:
    """Let an actor make the call it waits at."""
    calls = _Calls(actor)
    lake = _Lake(world.lake, calls)
    ports = Ports(
        ledger=_Crossing("ledger", world.ledger, calls),
        source=_Crossing("source", world.kafka, calls),
        batches=_Crossing("batches", world.kafka, calls),
        lake=lake,
        runner=MemoryRunner(_Crossing("source", world.kafka, calls), lake),
        clock=FakeClock(),
        processes=FakeProcesses(actor.pid, world.dead),
        actor=actor.name,
        progress=lambda _: None,
        group_sync=world.kafka,
        schemas=world.schemas,
    )
    over, failed = True, None
    lake_store._IDS = itertools.count(1000 * actor.pid + len(actor.answers))
    with _own_ids(actor.pid):
        try:
            actor.action(ports)
        except StoppedError:
            over = False
        except Exception as error:  # noqa: BLE001 - the test that looks at the actor judges it
            failed = error
    digest = blake2b(actor.digest + calls.said, digest_size=12).digest()
    answers = (*actor.answers, *calls.made)
    return replace(actor, answers=answers, digest=digest, waits_at=calls.waits_at, over=over, error=failed)


@contextmanager
def _own_ids(pid: int) -> Iterator[None]:
    """Let ids tell who made them, in his order: the same answers give the same ids."""
    real, numbers = secrets.token_hex, itertools.count(1)
    secrets.token_hex = lambda size=None: f"{pid:x}{next(numbers):0{2 * (size or 32) - 1}x}"
    try:
        yield
    finally:
        secrets.token_hex = real


@dataclass(frozen=True, slots=True)
class Moment:
    """All of a world that its workers share; Kafka stands still."""

    ledger: State
    store: lake_store.Store
    receipts: dict[Any, Any]
    late: Callable[[], object] | None
    dead: frozenset[int]

    @classmethod
    def of(cls, world: World, before: Moment | None = None) -> Moment:
        """Return the moment a world is at, `before` itself when it still is; nothing that happens later changes it."""
        table = world.table
        assert table._store is not None
        now = cls(
            ledger=world.ledger._state,
            store=_copy(table._store),
            receipts=dict(table._receipts),
            late=table._late,
            dead=frozenset(world.dead),
        )
        return before if before is not None and now.ledger is before.ledger and now == before else now

    def enter(self, world: World) -> None:
        """Bring a world to this moment."""
        table = world.table
        world.ledger._state = self.ledger
        table._store, table._receipts, table._late = _copy(self.store), dict(self.receipts), self.late
        table.next_answer = lake_store.Answer.GIVEN
        world.clock = world.ledger._clock = FakeClock()
        world.dead.clear()
        world.dead.update(self.dead)
        world.watermarks.clear()
        lake_store._IDS = itertools.count(max(OUTSIDE, *self.store.commits) + 1)

    def leases_end(self) -> Moment | None:
        """Return the moment at which no lease is live any more; None when none is."""
        live = {name: wave for name, wave in self.ledger.waves.items() if wave.lease_until is not None}
        ended = {name: replace(wave, lease_until=EPOCH) for name, wave in live.items() if wave.lease_until != EPOCH}
        if not ended:
            return None
        return replace(self, ledger=replace(self.ledger, waves={**self.ledger.waves, **ended}))

    def facts(self) -> str:
        """Return all that can matter to what comes, in words; history for people does not."""
        ledger, store = self.ledger, self.store
        shared = (
            ledger.streams,
            ledger.waves,
            ledger.ranges,
            ledger.attempts,
            ledger.committed,
            ledger.skips,
            ledger.moves,
        )
        lake = (store.refs, store.commits, store.owners, store.last, sorted(map(repr, self.receipts)))
        return repr((shared, list(ledger.plans), ledger.outbox, lake, self.late is not None, sorted(self.dead)))


def _copy(store: lake_store.Store) -> lake_store.Store:
    return replace(store, refs=dict(store.refs), commits=dict(store.commits))
