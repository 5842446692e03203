"""What Airflow's tasks and triggers do with a ledger, as commands: `python -m tests.faults.tasks COMMAND SUBJECT`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from airflow_kafka_lake.core.errors import JobFailedError, KafkaLakeError
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.requests import AnswerRequests, AskForWave, EndRequest
from airflow_kafka_lake.ports import Ledger
from airflow_kafka_lake.services.advance import begin_delivery
from airflow_kafka_lake.wiring import assemble

REQUEST = "task"


class Forgetful:
    """`services.advance.Receiver`: the task that began before has ended, and nothing of it has arrived."""

    def has_ended(self, holder: str) -> bool:
        return True

    def has_accepted(self, delivery: NotifiedRow) -> bool:
        return False


def tell(ledger: Ledger, pipeline: str) -> None:
    """Do what a task does that notifies of moves, and whose success was accepted; and what waiting tasks read."""
    delivery = begin_delivery(ledger, pipeline, str(os.getpid()), Forgetful())
    ledger.events(pipeline)
    ledger.mark_notified(pipeline, delivery[1][-1].sequence if delivery else 0)


def ask(ledger: Ledger, wave: str) -> None:
    """Ask for a wave."""
    ledger.commit(AskForWave(id=REQUEST, wave=wave, actor="airflow:hourly/today/ingest"))


def answer(ledger: Ledger, wave: str) -> None:
    """Do what a worker does whose job has failed."""
    ledger.commit(AnswerRequests(wave=wave, error=JobFailedError("No space left"), actor="worker"))


def end(ledger: Ledger, wave: str) -> None:
    """Take the answer, or want the wave no more."""
    ledger.commit(EndRequest(id=REQUEST, wave=wave))


TASKS: Mapping[str, Callable[[Ledger, str], None]] = {"tell": tell, "ask": ask, "answer": answer, "end": end}


def perform(words: Sequence[str]) -> int:
    """Be one of them; returns its exit code."""
    try:
        with assemble.open_ledger("kafka_lake_ledger") as ledger:
            TASKS[words[0]](ledger, words[1])
    except KafkaLakeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(perform(sys.argv[1:]))
