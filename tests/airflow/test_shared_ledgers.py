"""All of a process that use one ledger share its connections: the triggers of a triggerer, the runs of a worker."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from sqlalchemy import URL

from airflow_kafka_lake.adapters.sql_ledger.ledger import shared
from airflow_kafka_lake.triggers import WaveFreeTrigger
from airflow_kafka_lake.wiring.assemble import open_ledger
from airflow_kafka_lake.wiring.connections import LedgerConnection


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> URL:
    """Return the address of the ledger that the connection `shared` names."""
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", f'{{"conn_type": "sqlite", "host": "{tmp_path}/ledger.db"}}')
    return LedgerConnection("shared").url


def test_ledger_is_opened_once_and_closed_after_the_last(address: URL) -> None:
    """Whatever is closed twice is nothing that is opened later."""
    first, second = shared(address), shared(address)
    assert first is second
    assert shared(address.set(database=f"{address.database}2")) is not first
    first.ledger_id()
    first.close()
    assert first.engine.pool.checkedin() == 1, "it is in use"  # type: ignore[attr-defined]
    second.close()
    assert first.engine.pool.checkedin() == 0  # type: ignore[attr-defined]
    again = shared(address)
    assert again is not first
    first.close()
    assert shared(address) is again


def test_runs_of_a_process_that_keeps_its_ledger_open_compile_no_statement_anew(address: URL) -> None:
    """As a worker does: SQLAlchemy keeps what is compiled with the engine."""
    with open_ledger("shared"):
        for _ in range(2):
            with open_ledger("shared") as ledger:
                compiled = len(ledger.engine._compiled_cache)  # type: ignore[attr-defined]
                ledger.pipelines()
    assert len(ledger.engine._compiled_cache) == compiled > 0  # type: ignore[attr-defined]


def test_process_that_was_forked_opens_a_ledger_of_its_own(address: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of the process before are not its own."""
    parents = shared(address)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert shared(address) is not parents


def test_triggers_share_what_their_connection_names(address: URL) -> None:
    """A hundred that wait hold one ledger, which is closed with the last of them."""
    triggers = [WaveFreeTrigger(pipeline="orders", wave=f"w{n}", ledger_conn_id="shared") for n in range(100)]

    async def live() -> None:
        for trigger in triggers:
            assert await trigger.query(lambda ledger: ledger.pipelines()) == ()
        (ledger,) = {trigger._ledger for trigger in triggers}
        assert ledger is not None
        for trigger in triggers:
            await trigger.cleanup()
            await trigger.cleanup()

        assert ledger.engine.pool.checkedin() == 0  # type: ignore[attr-defined]
        assert shared(address) is not ledger

    asyncio.run(live())
