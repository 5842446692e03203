"""What can happen in a history: the steps it is drawn from, the likely ones several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_kafka_lake.services import advance, recovery, running
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.kit.memory_lake import Answer
from tests.properties import serving
from tests.properties.environment import SPEC, Step
from tests.properties.histories import History, plan_period
from tests.world import FOLLOW

ANSWERS = (Answer.LOST_LANDED, Answer.LOST, Answer.LATE)


def _set_next_answer(history: History, step: Step) -> None:
    history.world.table.next_answer = ANSWERS[step.a]


def _fail_next_job(history: History, _: Step) -> None:
    history.world.runner.failures.append("out of memory")


def _lose_next_driver(history: History, _: Step) -> None:
    history.world.runner.unfinished = 1


def _kafka(history: History, step: Step) -> None:
    history.world.kafka.down = bool(step.a)


def _lake(history: History, step: Step) -> None:
    history.world.lake.reachable = not step.a


HAPPENINGS: dict[str, Callable[[History, Step], object]] = {
    "nothing": lambda history, step: None,
    "run": lambda history, step: history.start(step, lambda ports: running.run(ports, SPEC, FOLLOW)),
    "recover": lambda history, step: history.start(step, lambda ports: recovery.recover(ports, SPEC.name)),
    "advance": lambda history, step: history.start(step, lambda ports: advance.advance(ports, SPEC.name)),
    "plan period": lambda history, step: history.start(step, lambda ports: plan_period(ports, step.a, step.b)),
    "ingest": History.ingest,
    "ask": serving.ask,
    "end request": serving.end,
    "serve": lambda history, step: history.start(step, serving.serve),
    "cancel": History.decide,
    "release": History.decide,
    "skip": History.skip,
    "reopen": History.reopen,
    "go on": History.go_on,
    "kill": History.kill,
    "believe dead": History.believe_dead,
    "time passes": lambda history, step: history.time_passes(step.a),
    "produce": History.produce,
    "produce beside": History.produce_beside,
    "delete topic beside": lambda history, step: history.delete_beside(),
    "make topic beside": lambda history, step: history.make_beside(),
    "transaction": History.transact,
    "end transaction": lambda history, step: history.end_transaction(commit=bool(step.a)),
    "recreate topic": lambda history, step: history.recreate(),
    "retention": History.retain,
    "add partition": lambda history, step: history.expand(),
    "backup": lambda history, step: history.back_up(),
    "old ledger": lambda history, step: history.meet_old_ledger(),
    "set ledger back": lambda history, step: history.set_ledger_back(),
    "lose ledger": lambda history, step: history.lose_ledger(),
    "rebuild": lambda history, step: history.start(step, lambda ports: rebuild(ports, SPEC)),
    "kafka down": _kafka,
    "lake down": _lake,
    "answer": _set_next_answer,
    "job fails": _fail_next_job,
    "driver lost": _lose_next_driver,
    "orphan finishes": lambda history, step: history.finish_orphan(),
    "tamper": lambda history, step: history.tamper(step.a),
    "late answer": History.in_the_lake,
    "expire": History.in_the_lake,
    "roll back": History.roll_back,
    "delete rows": History.delete_rows,
    "foreign": History.in_the_lake,
    "respec": History.in_the_lake,
}

WORK = (
    "runner.stage",
    "job.read",
    "ledger.mark_staged",
    "table.find_commit",
    "ledger.mark_publishing",
    "table.publish",
    "ledger.record_commit",
)
REBUILDING = ("ledger.claim", "table.head", "table.fence", "table.attempt_rows", "ledger.restore", "ledger.advance")
REOPENING = ("ledger.reopen", "table.fence", "table.add_receipts")
TAKING = ("ledger.claim", "table.find_commit", "table.fence")


def _stopped(what: str, a: int, b: int, calls: tuple[str, ...]) -> Iterator[Step]:
    """Run an action to its end, or up to one of some calls: in time, or so that its lease ends there."""
    yield from [Step(what, a, b)] * len(calls)
    for call in calls:
        yield Step(what, a, b, stop=call)
        yield Step(what, a, b, stop=call, late=True)


STEPS = (
    Step("nothing"),
    *_stopped("run", 0, 0, ("ledger.record_plan", *WORK)),
    *_stopped("run", 0, 0, WORK),
    *_stopped("ingest", 0, 0, WORK),
    *_stopped("ingest", 1, 0, WORK),
    *_stopped("recover", 0, 0, ("ledger.claim", "table.find_commit", "ledger.record_commit")),
    *(Step("ask", which, task) for which in (0, 1) for task in (0, 1)),
    *(Step("end request", which) for which in (0, 1)),
    *_stopped("serve", 0, 0, WORK),
    Step("advance"),
    *(Step("plan period", partition, start) for partition in (0, 1) for start in (0, 4)),
    *(step for whole in (0, 1) for step in _stopped("cancel", 0, whole, (*TAKING, "ledger.revoke"))),
    *(Step("cancel", number, whole) for number in (1, 2) for whole in (0, 1)),
    *(Step("release", number, whole) for number in (0, 1) for whole in (0, 1)),
    *(step for above in (0, 1) for step in _stopped("skip", 0, above, (*TAKING, "ledger.skip"))),
    *(Step("skip", 1, above) for above in (0, 1, 3)),
    *_stopped("reopen", 0, 0, REOPENING),
    *(Step("reopen", which, accept) for which in (0, 1, 2) for accept in (0, 1)),
    *[Step("go on")] * 12,
    *(Step("go on", who) for who in (1, 2, 3) for _ in range(3)),
    *(Step("go on", who, calls) for who in (0, 1) for calls in (1, 3, 9)),
    *(Step("go on", who, stop=call) for who in (0, 1) for call in ("table.publish", "ledger.record_commit")),
    *(Step("kill", who, known) for who in (0, 1, 2) for known in (0, 1)),
    *(Step("believe dead", who) for who in (0, 1, 2)),
    *[Step("time passes", 180)] * 4,
    Step("time passes", 30),
    Step("time passes", -90),
    *(Step("produce", partition, count) for partition in (0, 1) for count in (1, 3, 9) for _ in range(2)),
    *(Step("transaction", partition, how) for partition in (0, 1) for how in (0, 1, 2)),
    *[Step("end transaction", how) for how in (0, 1)],
    Step("recreate topic"),
    *[Step("produce beside", 0, 2)] * 2,
    Step("delete topic beside"),
    Step("make topic beside"),
    *[Step("add partition")] * 2,
    *[Step("backup")] * 2,
    *[Step("old ledger")] * 2,
    Step("set ledger back"),
    Step("lose ledger"),
    *_stopped("rebuild", 0, 0, REBUILDING[1:5]),
    *(Step("retention", partition, count) for partition in (0, 1) for count in (2, 5)),
    *(Step("kafka down", how) for how in (0, 0, 1)),
    *(Step("lake down", how) for how in (0, 0, 1)),
    *(Step("answer", which) for which in range(len(ANSWERS)) for _ in range(3)),
    Step("job fails"),
    Step("driver lost"),
    *[Step("orphan finishes")] * 3,
    *(Step("tamper", how) for how in range(3)),
    *[Step("late answer")] * 4,
    *[Step("expire")] * 2,
    *[Step("foreign")] * 3,
    Step("respec"),
    *(Step("delete rows", partition, count) for partition in (0, 1) for count in (0, 3)),
    *(Step("roll back", count) for count in (1, 2)),
)
