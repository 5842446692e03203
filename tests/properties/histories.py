"""Histories of several workers in a world where everything goes wrong, step by step."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial

from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    LedgerBehindError,
    OnlyCopyError,
    StateError,
    TransientError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.waves import PUBLISHES, UNFINISHED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import claims, decisions, planning, staging
from airflow_kafka_lake.services.rebuilding import rebuild
from tests import truth
from tests.kit.memory_lake import Answer
from tests.kit.memory_ledger import State
from tests.properties.crash_histories import Lives
from tests.properties.environment import BESIDE, SPEC, Step, Surroundings
from tests.properties.following_remedies import lead_out, pass_unread
from tests.properties.scheduler import Action, Worker
from tests.world import World, read_again

MOST_WORKERS = 6
MOST_CALLS = 2000
WORTH_REPEATING = (TransientError, UnknownOutcomeError)
BY_FORCE = frozenset({"cancel"})
"""A person's decision takes a wave from a living holder."""
EXPECTED: dict[str, tuple[type[Exception], ...]] = {
    **dict.fromkeys(("run", "recover", "advance"), WORTH_REPEATING),
    "rebuild": (*WORTH_REPEATING, OnlyCopyError, StateError),
}
"""What an action may end with: these were asked for nothing that could be refused."""


class History(Surroundings):
    """A world, its workers, and what happened so far."""

    def __init__(self, world: World | None = None) -> None:
        super().__init__(world)
        self.workers: list[Worker] = []
        self.lives = Lives(self.world)
        self._backup: State | None = None
        self._rolled_back_to: int | None = None
        self.rolled_back = False
        """Whether main was moved back below a publish at any time: workers that began before may meet any refusal."""
        self._checked: tuple[object, object] = (None, None)

    def look(self) -> None:
        """Check what changed since the last look."""
        store = self.world.table._store
        now = (self.world.ledger._state, store.refs.get("main") if store else None)
        if now[0] is self._checked[0] and now[1] == self._checked[1]:
            return
        if self.lives.behind:
            truth.check_lake(self.world)
            return
        if self._rolled_back_to is not None:
            truth.check_lake(self.world)
            self._check_nothing_is_published()
            return
        if now[1] != self._checked[1]:
            truth.check_tokens(self.world)
        truth.check_always(self.world)
        self.lives.note_origins()
        self._checked = now

    # Workers

    def start(self, step: Step, action: Action) -> None:
        """Begin an action in a process of its own, and let it go on to where it stops; its lease may end there."""
        if len(self.workers) >= MOST_WORKERS:
            return
        worker = Worker(self.world, step.what, action, self.jobs)
        self.workers.append(worker)
        self.lives.begin(worker)
        self.go(worker, MOST_CALLS, stop=step.stop)
        if step.late and not worker.done:
            self.world.lease_ends()

    def go(self, worker: Worker, calls: int, *, stop: str = "") -> None:
        """Let a worker make some calls, at most up to one that it is named to stop before.

        Each takes a millisecond: the time is what distinguishes a line of a ledger's history from the line of the same
        number after a restore.
        """
        for _ in range(calls):
            self.world.clock.advance(timedelta(milliseconds=1))
            before, head, call = self.world.ledger._state, self.lives.head(), worker.waits_at
            worker.step()
            brought = self.lives.stepped(worker, call, before, head)
            if brought or call == "ledger.reopen":  # a rebuild heeds a reopen that only the lake still knows of
                self.world.watermarks.clear()
            if not brought and worker.name not in BY_FORCE and self.world.ledger._state is not before:
                truth.check_claims(self.world, before)
            self.look()
            if worker.done:
                self.workers.remove(worker)
                if worker.error and not isinstance(worker.error, self._expected(worker)):
                    raise worker.error
                return
            if worker.waits_at == stop:
                return
        assert calls < MOST_CALLS, f"{worker.name} never ends: it waits at {worker.waits_at}"

    def _expected(self, worker: Worker) -> tuple[type[Exception], ...]:
        """Return what an action may end with: a ledger that is behind, or set back under a worker, refuses anything."""
        if (worker.name != "rebuild" and self.lives.disturbed) or self.rolled_back:
            return (KafkaLakeError,)
        if worker.name == "rebuild" and any(self.world.deleted.values()):
            return (*EXPECTED["rebuild"], IdentityError)
        return EXPECTED.get(worker.name, (KafkaLakeError,))

    def go_on(self, step: Step) -> None:
        """Let one of the workers that stopped go on: for some calls, or to its end."""
        if self.workers:
            self.go(self.workers[step.a % len(self.workers)], step.b or MOST_CALLS, stop=step.stop)

    def kill(self, step: Step) -> None:
        """End one process; others know of it or not."""
        if self.workers:
            worker = self.workers.pop(step.a % len(self.workers))
            worker.kill()
            if step.b:
                self.world.dead.add(worker.pid)

    def believe_dead(self, step: Step) -> None:
        """Let others believe that a living process is dead: never safe to rely on."""
        if self.workers:
            self.world.dead.add(self.workers[step.a % len(self.workers)].pid)

    def decide(self, step: Step) -> None:
        """Start a person's decision on something that is there."""
        states = (RangeState.PLANNED,) if step.what == "cancel" else (RangeState.HELD, RangeState.CANCELLED)
        found = self.world.ledger.ranges(pipeline=SPEC.name, states=states)
        if not found:
            return
        item = found[step.a % len(found)]
        subject = item.wave if step.b else item.id
        if step.what == "cancel":
            self.start(step, lambda ports: decisions.cancel(ports, subject, "not now"))
        else:
            self.start(step, lambda ports: decisions.release(ports, subject, None))

    def ingest(self, step: Step) -> None:
        """Start the work on one wave that is there."""
        found = self.world.ledger.waves(SPEC.name, UNFINISHED)
        if found:
            wave = found[step.a % len(found)].id
            self.start(step, lambda ports: landed(staging.ingest(ports, wave)))

    def skip(self, step: Step) -> None:
        """Start to pass some offsets above a watermark."""
        streams = self.world.ledger.streams(SPEC.name)
        if not streams:
            return
        stream = streams[step.a % len(streams)]
        slice_ = OffsetRange(stream.watermark + step.b, stream.watermark + step.b + 2)
        if slice_.end <= stream.end_seen:
            self.start(step, lambda ports: pass_unread(ports, stream, slice_))

    def reopen(self, step: Step) -> None:
        """Start to read again the middle of something that is committed or skipped."""
        covered = [(stream, part) for stream in self.world.ledger.streams(SPEC.name) for part in stream.covered]
        if covered:
            stream, part = covered[step.a % len(covered)]
            slice_ = OffsetRange(part.start + part.span // 3, part.end - part.span // 3)
            how = {"reason": "wrong", "accept_fewer": bool(step.b)}
            self.start(step, lambda ports: read_again(ports, SPEC, stream, slice_, **how))

    # The table

    def roll_back(self, step: Step) -> None:
        """Let another engine move main back by some snapshots; a stop, as soon as a publish is not below it any more.

        From then on nothing more may be published, whatever was looked at before, until a person has accepted it.
        """
        store = self.world.table._store
        history = list(store.history()) if store and self.world.lake.reachable else []
        if len(history) < 2 or self.lives.behind:
            return
        undone = history[: min(step.a, len(history) - 1)]
        self.world.table.roll_back(history[len(undone)].id)
        if self._rolled_back_to or any(commit.token and commit.token.kind in PUBLISHES for commit in undone):
            self._rolled_back_to = history[len(undone)].id
            self.rolled_back = True

    def in_the_lake(self, step: Step) -> None:
        """Let something happen to the table; only history tells of a roll-back, so it is not expired before that."""
        if step.what != "expire" or self._rolled_back_to is None:
            super().in_the_lake(step)

    def _check_nothing_is_published(self) -> None:
        store = self.world.table._store
        for commit in store.history() if store else ():
            if commit.id == self._rolled_back_to:
                return
            assert commit.token is None or commit.token.kind not in PUBLISHES, (
                f"published on a rolled-back table: {commit}"
            )

    # The ledger

    def back_up(self) -> None:
        """Keep what the ledger knows now."""
        self._backup = self.world.ledger.snapshot()

    def lose_ledger(self) -> None:
        """Go on with a fresh ledger."""
        self._backup = None
        self.lives.lose()

    def set_ledger_back(self) -> None:
        """Go on with the ledger of the backup."""
        if self._backup is not None:
            self.lives.set_back(self._backup)

    def meet_old_ledger(self) -> None:
        """Work with the ledger of the backup, where the lake is ahead of it: it must not move main; then go back."""
        world, store = self.world, self.world.table._store
        owner = (world.ledger.ledger_id(), SPEC.name)
        token, line = (store.last.get(owner), store.lines.get(owner)) if store else (None, None)
        if self._backup is None or token is None or not world.lake.reachable:
            return
        newest, head = world.ledger.snapshot(), store.refs.get("main") if store else None
        world.ledger.restore(self._backup)
        try:
            if not world.ledger.knows(token, line):
                world.lease_ends()
                with suppress(KafkaLakeError):
                    world.run()
                assert store is not None
                assert store.refs.get("main") == head, "a ledger that is behind the lake has moved main"
        finally:
            world.ledger.restore(newest)

    # The end

    def heal(self) -> None:
        """Take all faults away; let zombies and late commits finish after others took over; lead out of the rest."""
        self.world.kafka.down, self.world.lake.reachable = False, True
        self.world.table.next_answer = Answer.GIVEN
        self.world.runner.failures.clear()
        self.world.runner.unfinished, self.world.runner.tamper = 0, lambda rows: rows
        while self._running:
            self.end_transaction(commit=True)
        self._go_on_without_a_topic()
        self._lead_out()
        while self.jobs.orphans:
            self.finish_orphan()
        while self.workers:
            self.go(self.workers[0], MOST_CALLS)
        if self.world.table._store is not None:
            self.world.table.land_late()
        self.look()
        self._lead_out()

    def _go_on_without_a_topic(self) -> None:
        """Where a topic is gone, a run says so and brings in what the others have; then the topic is there again."""
        if self.is_beside:
            return
        amid_a_rebuild = any(worker.name == "rebuild" for worker in self.workers)
        if not (self.lives.behind or amid_a_rebuild or self._rolled_back_to is not None):
            self.world.lease_ends()
            with suppress(LedgerBehindError):  # a rebuild has died behind its commit; the way out is another one
                self._run_without_a_topic()
        self.make_beside()

    def _run_without_a_topic(self) -> None:
        done = self.world.run()
        self.look()
        assert any(BESIDE in word for word in done.held), f"{BESIDE} is gone, and the run says nothing: {done.held}"
        for stream in self.world.ledger.streams(SPEC.name, topic="orders"):
            if stream.key.topic_id == self.world.topic_ids["orders"] and done.plan and not done.plan.blocked[1:]:
                log = self.world.kafka.log("orders", stream.key.partition)
                assert stream.end_seen >= log.last_stable, f"{stream.key} was not planned beside a topic that is gone"

    def _lead_out(self) -> None:
        """Rebuild a ledger that is lost or behind, then do what messages say; a run without a rebuild harms nothing."""
        if self.lives.behind or self._rolled_back_to is not None:
            self.world.lease_ends()
            with suppress(KafkaLakeError):
                self.world.run()
            self.look()
            self.rebuild()
        lead_out(self.world, self.look, self.rebuild)

    def rebuild(self) -> None:
        """Rebuild as a person does: no lease is live, what is refused is repeated, and what vanished is accepted.

        Rows that others have deleted, beside a history that has expired, cannot always be told from a roll-back. What
        is staged and exists nowhere else is given up where that is asked.
        """
        accept, drop = self._rolled_back_to is not None, False
        error = self._rebuilt(accept=accept)
        if isinstance(error, OnlyCopyError):
            drop = True
            error = self._rebuilt(accept=accept, drop_staged=drop)
        if isinstance(error, IdentityError) and any(self.world.deleted.values()):
            error = self._rebuilt(accept=True, drop_staged=drop)
        if isinstance(error, StateError):
            store = self.world.table._store
            assert store is None or not (store.owners or store.rows()), f"there is something: {error}"
            self.lives.behind = False  # nothing of it is anywhere: what was lost had nothing either
        else:
            assert error is None, f"no other is at work, and a rebuild failed: {error!r}"
        assert not self.lives.behind
        self._rolled_back_to = None
        self.world.watermarks.clear()

    def _rebuilt(self, *, accept: bool, drop_staged: bool = False) -> BaseException | None:
        self.world.lease_ends()
        self.lives.accepts = accept
        action = partial(rebuild, spec=SPEC, accept_rollback=accept, drop_staged=drop_staged)
        worker = Worker(self.world, "rebuild", action, self.jobs)
        self.workers.append(worker)
        self.lives.begin(worker)
        self.go(worker, MOST_CALLS)
        self.lives.accepts = False
        return worker.error

    def close(self) -> None:
        """End every process that is left."""
        while self.workers:
            self.kill(Step("kill"))


def plan_period(ports: Ports, partition: int, start: int) -> object:
    """Plan three offsets of a partition."""
    bounds = Bounds(partitions=(partition,), start=start, end=start + 3)
    return planning.plan(ports, SPEC, bounds, plan_id=claims.new_id())
