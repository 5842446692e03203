"""Steps of tasks that ask for waves, and of workers that bring them into the lake."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.errors import UnexpectedError
from airflow_kafka_lake.core.ledger.requests import AskForWave, EndRequest, error_of
from airflow_kafka_lake.core.ledger.waves import UNFINISHED
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.running import WaveWorker
from tests.properties.environment import SPEC, Step

if TYPE_CHECKING:
    from tests.properties.histories import History


def ask(history: History, step: Step) -> None:
    """Let a task ask for a wave that is there."""
    ledger = history.world.ledger
    if found := ledger.waves(SPEC.name, UNFINISHED):
        wave = found[step.a % len(found)].id
        ledger.commit(AskForWave(id=f"task {step.b} of {wave}", wave=wave, actor="task"))


def end(history: History, step: Step) -> None:
    """Let a task end that has asked, whatever it was told."""
    ledger = history.world.ledger
    if found := ledger.requests():
        asked = found[step.a % len(found)]
        ledger.commit(EndRequest(id=asked.id, wave=asked.wave))


def serve(ports: Ports) -> None:
    """Be a worker until nothing is asked for; an answer that no part expects is a defect."""
    WaveWorker(
        ledger=ports.ledger,
        clock=ports.clock,
        processes=ports.processes,
        opened=lambda _: nullcontext(ports),
        progress=ports.progress,
        actor=ports.actor,
    ).run(until_idle=True)
    defects = [error for item in ports.ledger.requests() if isinstance(error := error_of(item), UnexpectedError)]
    assert not defects, defects
