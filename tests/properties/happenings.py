"""What can happen in a history: the steps it is drawn from, the likely ones several times."""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_lake.adapters.memory_lake import Answer
from airflow_kafka_lake.services import running, settlement
from tests.properties.histories import SPEC, History, Step, plan_period
from tests.world import FOLLOW

ANSWERS = (Answer.LOST_LANDED, Answer.LOST, Answer.LATE)
DECISIVE = (
    "runner.stage",
    "table.look",
    "table.publish",
    "table.fence",
    "ledger.claim",
    "ledger.mark_staged",
    "ledger.mark_publishing",
    "ledger.settle",
    "ledger.take",
    "ledger.skip",
    "ledger.record_plan",
)
"""Calls that a worker may be stopped just before."""


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
    "go": History.go,
    "go to": lambda history, step: history.go_to(DECISIVE[step.b], step.a),
    "finish": lambda history, step: history.finish(step.a),
    "sleep": lambda history, step: history.sleep_before(DECISIVE[step.b], step.a),
    "oversleep": lambda history, step: history.oversleep_before(DECISIVE[step.b], step.a),
    "wake": lambda history, step: history.wake(),
    "run": lambda history, step: history.start("run", lambda ports: running.run(ports, SPEC, FOLLOW)),
    "settle": lambda history, step: history.start("settle", lambda ports: settlement.settle(ports, SPEC.name)),
    "advance": lambda history, step: history.start("advance", lambda ports: settlement.advance(ports, SPEC.name)),
    "plan period": lambda history, step: history.start("plan", lambda ports: plan_period(ports, step.a, step.b)),
    "ingest": History.ingest,
    "cancel": History.decide,
    "release": History.decide,
    "skip": History.skip,
    "kill": lambda history, step: history.kill(step.a, known=bool(step.b)),
    "believe dead": lambda history, step: history.believe_dead(step.a),
    "time passes": lambda history, step: history.time_passes(step.a),
    "produce": lambda history, step: history.world.produce(step.b, step.a),
    "transaction": History.transact,
    "end transaction": lambda history, step: history.end_transaction(commit=bool(step.a)),
    "recreate topic": lambda history, step: history.recreate(),
    "retention": History.retain,
    "kafka down": _kafka,
    "lake down": _lake,
    "answer": _set_next_answer,
    "job fails": _fail_next_job,
    "driver lost": _lose_next_driver,
    "orphan finishes": lambda history, step: history.finish_orphan(),
    "tamper": lambda history, step: history.tamper(step.a),
    "late answer": History.in_the_lake,
    "expire": History.in_the_lake,
    "foreign": History.in_the_lake,
    "respec": History.in_the_lake,
}

STEPS = (
    Step("nothing"),
    *[Step("run")] * 10,
    *(Step("ingest", number) for number in range(4)),
    *[Step("settle")] * 3,
    *[Step("advance")] * 2,
    *(Step("plan period", partition, start) for partition in (0, 1) for start in (0, 4)),
    *(Step("cancel", number, whole) for number in range(4) for whole in (0, 1)),
    *(Step("release", number, whole) for number in range(2) for whole in (0, 1)),
    *(Step("skip", stream, above) for stream in range(2) for above in (0, 1, 3)),
    *(Step("go", who, calls) for who in range(2) for calls in (1, 2, 4, 7, 12, 20)),
    *(Step("go to", -1, call) for call in range(len(DECISIVE))),
    *(Step("finish", who) for who in range(4) for _ in range(4)),
    *(Step("sleep", -1, call) for call in range(len(DECISIVE))),
    *(Step("oversleep", -1, call) for call in range(len(DECISIVE)) for _ in range(2)),
    *[Step("wake")] * 8,
    *(Step("kill", who, known) for who in range(3) for known in (0, 1)),
    *(Step("believe dead", who) for who in range(3)),
    *[Step("time passes", 180)] * 4,
    Step("time passes", 30),
    *(Step("produce", partition, count) for partition in (0, 1) for count in (1, 3, 9) for _ in range(2)),
    *(Step("transaction", partition, how) for partition in (0, 1) for how in (0, 1, 2)),
    *[Step("end transaction", how) for how in (0, 1)],
    Step("recreate topic"),
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
)
