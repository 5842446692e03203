"""This package through a Dag of a running Airflow, from the trigger to the end of the Dag run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import airflow_kafka_lake
from airflow_kafka_lake.local.airflow import LocalAirflow
from bench.arms.ours import Ours
from bench.arms.place import Place
from bench.measuring import Cost
from bench.workloads import Workload

PROGRAM = Path(__file__).with_name("airflow_program.py")
DAG = "kafka_lake_manual"


class OursInAirflow(Ours):
    """The ready-made Dag, in Airflow's own scheduler, supervisor and database, which run already."""

    name = "ours-in-airflow"
    says = "the Dag `kafka_lake_manual`, from its trigger to its end; Airflow runs already"

    def fits(self, workload: Workload) -> bool:
        return workload.through_airflow

    @contextmanager
    def around(self, place: Place) -> Iterator[Sequence[int]]:
        folder = {"AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(place.home / "pipelines")}
        dags = Path(airflow_kafka_lake.__file__).parent / "example_dags"
        with LocalAirflow(dags_folder=dags, env=place.connections | folder) as airflow:
            airflow.unpause(DAG)
            place.extra.update(base_url=airflow.base_url, user=airflow.user, password=airflow.password())
            yield (airflow.pid,)

    def command(self, place: Place) -> Sequence[str]:
        request = place.home / "airflow.json"
        asked = {**place.extra, "dag": DAG, "conf": {"pipeline": "bench"}}
        request.touch(mode=0o600)
        request.write_text(json.dumps(asked), encoding="utf-8")
        return [sys.executable, str(PROGRAM), str(request)]

    def phases(self, cost: Cost) -> Mapping[str, float]:
        return {}
