"""What a mapped wave costs in Airflow, while a worker with a warm Spark brings one after another into the lake."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import httpx2

from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.kafka import LocalKafka
from bench.arms.place import Place
from bench.audit import Measured
from bench.measuring import tree_cpu
from bench.workloads import WORKLOADS, fill

PARTITIONS = 16
DAG = """
from airflow.sdk import DAG
from airflow_kafka_lake.task_groups import kafka_lake_ingest

with DAG("bench", schedule=None, max_active_tasks=64):
    kafka_lake_ingest("bench", stage_by="worker", waves_at_once=16)
"""
SIZES = "[sizes]\ntarget_range_bytes = 1\nmax_wave_bytes = 1\n"
"""A wave for each record."""

_LOOK_SECONDS, _LOOK_LIMIT, _RUN_LIMIT, _END_SECONDS = 30.0, 120.0, 4 * 3600.0, 60.0


def growing(waves: int, *, cores: int, heap: str) -> Iterator[Measured]:
    """Land so many waves of one record each in one Dag run; say what it took, and how long people waited who looked.

    Exits when the run fails, or the table does not hold each record once.
    """
    workload = replace(WORKLOADS["smallest"], records=waves, partitions=PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as home, LocalKafka() as kafka:
        topics = workload.names("mapped")
        fill(kafka.bootstrap, workload, topics)
        place = Place(
            home=Path(home), bootstrap=kafka.bootstrap, topics=topics, workload=workload, cores=cores, heap=heap
        )
        costs = dict(_landed(place))
        _refuse_other_rows(place)
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    for name, seconds in costs.items():
        yield Measured(arm=f"{waves:,} mapped waves: {name}", records=waves, seconds=seconds, mib=mib)


def _landed(place: Place) -> Iterator[tuple[str, float]]:
    file = place.write_pipeline()
    file.write_text(file.read_text(encoding="utf-8") + SIZES, encoding="utf-8")
    dags = place.home / "dags"
    dags.mkdir()
    (dags / "bench.py").write_text(DAG, encoding="utf-8")
    settings = {
        "AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(file.parent),
        "AIRFLOW__CORE__MAX_MAP_LENGTH": str(max(1024, place.workload.records)),
    }
    with LocalAirflow(dags_folder=dags, env=place.connections | settings) as airflow, _worker(place) as worker:
        airflow.unpause("bench")
        before = [tree_cpu(pid) for pid in (airflow.pid, worker)]
        begun = time.monotonic()
        run = airflow.trigger("bench")
        looks = {"status": _status(place), "page": _page(airflow)}
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(lambda: (airflow.wait_run("bench", run, _RUN_LIMIT)["state"], time.monotonic()))
            waited = _looking(looks, lambda: bool(wait([end], _LOOK_SECONDS).done))
        state, ended = end.result()
        if state != "success":
            sys.exit(f"bench: the Dag run of {place.workload.records:,} waves ended as {state}")
        yield "trigger to end", ended - begun
        for name, pid, earlier in zip(("Airflow", "worker and Spark"), (airflow.pid, worker), before, strict=True):
            yield f"processor seconds, {name}", tree_cpu(pid) - earlier
        for name, seconds in waited.items():
            yield f"{name}, median of {len(seconds)} looks", median(seconds)
            yield f"{name}, the slowest", max(seconds)


@contextmanager
def _worker(place: Place) -> Iterator[int]:
    words = [sys.executable, "-m", "airflow_kafka_lake.cli", "worker"]
    with (place.home / "worker.log").open("wb") as log:
        process = subprocess.Popen(words, env=place.environment, cwd=place.home, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(_END_SECONDS)


def _looking(looks: dict[str, Callable[[], object]], is_over: Callable[[], bool]) -> dict[str, list[float]]:
    """Look once more each half minute; return how long each look took."""
    waited: dict[str, list[float]] = {name: [] for name in looks}
    is_last = False
    while not is_last:
        is_last = is_over()
        for name, look in looks.items():
            begun = time.monotonic()
            look()
            waited[name].append(time.monotonic() - begun)
    return waited


def _status(place: Place) -> Callable[[], object]:
    words = [sys.executable, "-m", "airflow_kafka_lake.cli", "status", "bench", "--json"]
    given = {"env": place.environment, "cwd": place.home, "stdout": subprocess.DEVNULL, "timeout": _LOOK_LIMIT}
    return lambda: subprocess.run(words, check=True, **given)


def _page(airflow: LocalAirflow) -> Callable[[], object]:
    who = {"username": airflow.user, "password": airflow.password()}
    login = httpx2.post(f"{airflow.base_url}/auth/token", json=who, trust_env=False)
    cookies = {"_token": login.raise_for_status().json()["access_token"]}
    url = f"{airflow.base_url}/kafka-lake/pipelines/bench"
    return lambda: httpx2.get(url, cookies=cookies, timeout=_LOOK_LIMIT, trust_env=False).raise_for_status()


def _refuse_other_rows(place: Place) -> None:
    rows = place.table().scan(selected_fields=("kafka_partition", "kafka_offset")).to_arrow().to_pylist()
    once = {tuple(row.values()) for row in rows}
    if not len(rows) == len(once) == place.workload.records:
        sys.exit(f"bench: {len(rows):,} rows of {len(once):,} records, not of {place.workload.records:,}")
