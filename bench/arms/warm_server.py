"""Run the pipelines that warm up, then `bench` for each command that asks by the socket. The argument is the folder."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import AF_UNIX, create_server

from airflow_kafka_lake.adapters.machine import rarely_collecting
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spark.job import LIGHT
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import running
from airflow_kafka_lake.wiring.assemble import open_ledger, open_ports

WARMING = ("warm", "warmer")
"""Pipelines that land the topics in tables of their own: the second one in the driver that lasts."""


def main(home: Path) -> None:
    """Serve one command after another until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # As `kafka-lake worker` does, and the next line too.
    with Engine() as engine, open_ledger(), rarely_collecting():
        engine.spent(LIGHT)
        for name in WARMING:
            code = run(home, name, engine, print)
            if code:
                sys.exit(f"the pipeline {name} ended with {code}")
        with create_server(str(home / "warm.socket"), family=AF_UNIX) as listener:
            while True:
                asking, _ = listener.accept()
                with asking, asking.makefile("w", encoding="utf-8") as answer:
                    say = partial(print, file=answer, flush=True)
                    say(run(home, "bench", engine, say))


def run(home: Path, name: str, engine: Engine, progress: Callable[[str], None]) -> int:
    """Do what `kafka-lake run` does."""
    spec = Pipeline.from_toml(home / "pipelines" / f"{name}.toml").spec
    with open_ports(spec, actor="bench", progress=progress, need_spark=True, engine=engine) as ports:
        done = running.run(ports, spec, Bounds())
    for problem in done.problems:
        progress(str(problem))
    return done.exit_code


if __name__ == "__main__":
    main(Path(sys.argv[1]))
