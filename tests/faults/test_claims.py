"""Many real processes at one ledger: each wave is one process's at a time, and none hears of the database's troubles.

`KAFKA_LAKE_TEST_SCALE=20` makes the same tests last longer; `KAFKA_LAKE_TEST_SEED=…` repeats what a failure printed.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.records import watermark
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, AttemptOutcome, WaveState
from tests.contracts.ledger_world import SPEC
from tests.faults.contention import prepare

ROOT = Path(__file__).parents[2]
SCALE = int(os.environ.get("KAFKA_LAKE_TEST_SCALE", "1"))
SEED = os.environ.get("KAFKA_LAKE_TEST_SEED") or secrets.token_hex(4)
EVENTS = 100_000


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, service: None, tmp_path: Path) -> Iterator[SqlLedger]:
    """A ledger without any pipeline, in a database of this test's own."""
    if request.param == "sqlite":
        url = make_url(f"sqlite:///{tmp_path}/ledger.db")
    else:
        server, name = (request.getfixturevalue(fixture) for fixture in ("postgres_uri", "database"))
        url = make_url(server).set(drivername="postgresql+psycopg2", database=name)
    made = SqlLedger(url)
    made.upgrade()
    yield made
    made.close()


def contend(ledger: SqlLedger, *words: str) -> list[dict[str, Any]]:
    """Let real processes contend for what is in a ledger; returns what each saw. None may see an unexpected error."""
    url = ledger.engine.url.render_as_string(hide_password=False)
    ledger.close()
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.contention", *words, "--url", url, "--seed", SEED],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    told: list[dict[str, Any]] = document["told"]
    slowest = max(item["slowest"] for item in told)
    sys.stdout.write(f"seed {SEED}: {document['seconds']} s, the slowest call took {slowest:.1f} s\n")
    assert [error_kind for item in told for error_kind in item["error_kinds"]] == []
    return told


@pytest.mark.parametrize(("processes", "waves"), [(10, 4), pytest.param(50, 2, marks=pytest.mark.nightly)])
def test_each_wave_is_one_process_at_a_time(ledger: SqlLedger, processes: int, waves: int) -> None:
    """Every claim that was won is on record once, with a fence of its own, and every wave ends with one holder."""
    prepare(ledger, waves)
    told = contend(ledger, "claims", "--processes", str(processes), "--rounds", str(SCALE))
    kept = {(wave, fence): attempt for item in told for wave, fence, attempt in item["kept"]}
    assert sum(len(item["kept"]) for item in told) == waves
    won = [tuple(claim) for item in told for claim in (*item["won"], *item["kept"])]
    for wave in ledger.waves(SPEC.name):
        attempts = ledger.attempts(wave.id)
        assert [item.fence for item in attempts] == list(range(1, wave.fence + 1))
        assert sorted((item.wave, item.fence, item.attempt) for item in attempts) == sorted(
            claim for claim in won if claim[0] == wave.id
        )
        assert (wave.state, kept[wave.id, wave.fence]) == (WaveState.CLAIMED, attempts[-1].attempt)
        assert [item.outcome for item in attempts if item.ended_at is None] == [AttemptOutcome.RUNNING]
    _assert_no_update_was_lost(ledger, told)


def _assert_no_update_was_lost(ledger: SqlLedger, told: list[dict[str, Any]]) -> None:
    """As many writes as were confirmed are in the history, and their traces on the attempts."""
    done = Counter[str]()
    for item in told:
        done.update(item["counts"])
    kinds = Counter(event.kind for event in ledger.events(SPEC.name, limit=EVENTS))
    assert (kinds["claim"], kinds["stage"], kinds["end"]) == (done["claim"], done["mark_staged"], done["end_attempt"])
    attempts = [item for wave in ledger.waves(SPEC.name) for item in ledger.attempts(wave.id)]
    assert sum(item.base is not None for item in attempts) == done["record_base"]
    assert sum(item.audited is not None for item in attempts) == done["mark_staged"]
    assert sum(item.outcome is AttemptOutcome.FAILED for item in attempts) == done["end_attempt"]


def test_no_watermark_passes_a_hold_whatever_races(ledger: SqlLedger) -> None:
    """Plans, claims, commits, skips, cancels, releases and advances at once: one process watches every moment. A busy
    machine needs more than one race until each of them has happened."""
    prepare(ledger, 4)
    done = Counter[str]()
    while not all(done[act] for act in ("looks", "plan", "claim", "recover", "cancel", "advance")):
        for item in contend(ledger, "race", "--processes", "6", "--seconds", str(3 * SCALE)):
            done.update(item["counts"])
    ledger.advance(SPEC.name)
    ranges = ledger.ranges(pipeline=SPEC.name)
    for stream in ledger.streams(SPEC.name):
        assert stream.watermark == watermark(stream.origin, stream.covered)
        mine = [item for item in ranges if item.stream == stream.key]
        slices = sorted((item.range.start, item.range.end) for item in mine)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(slices))
        assert all(item.range.start >= stream.watermark for item in mine if item.state in UNRESOLVED)
