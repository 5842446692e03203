"""The triggers of a triggerer share its connections to the ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.triggers import LEDGERS, SharedLedgers, WaveFreeTrigger
from airflow_kafka_lake.wiring.connections import ConnectionSettings


def connection(file: str) -> ConnectionSettings:
    """Return the connection of a ledger in a file."""
    return ConnectionSettings(conn_id="kafka_lake_ledger", conn_type="sqlite", host=file)


def test_ledger_is_opened_once_and_closed_after_the_last(tmp_path: Path) -> None:
    """Whatever is given back twice, or was never taken, closes nothing of the others."""
    shared, file = SharedLedgers(), str(tmp_path / "ledger.db")
    first, second = shared.open(connection(file)), shared.open(connection(file))
    assert first is second
    assert shared.open(connection(str(tmp_path / "other.db"))) is not first
    first.ledger_id()
    shared.close(first)
    assert first.engine.pool.checkedin() == 1, "it is in use"  # type: ignore[attr-defined]
    shared.close(object())
    shared.close(second)
    assert first.engine.pool.checkedin() == 0  # type: ignore[attr-defined]
    shared.close(second)
    again = shared.open(connection(file))
    assert again is not first
    again.close()


def test_connection_that_cannot_be_meant_is_refused() -> None:
    """And counts for nothing."""
    with pytest.raises(ConnectionSettingsError, match="absolute path"):
        SharedLedgers().open(connection("ledger.db"))


def test_triggers_share_what_their_connection_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred that wait hold one ledger, which is closed with the last of them."""
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", f'{{"conn_type": "sqlite", "host": "{tmp_path}/ledger.db"}}')
    triggers = [WaveFreeTrigger(pipeline="orders", wave=f"w{n}", ledger_conn_id="shared") for n in range(100)]

    async def live() -> None:
        for trigger in triggers:
            assert await trigger.query(lambda ledger: ledger.pipelines()) == ()
        assert len({id(trigger._ledger) for trigger in triggers}) == 1
        for trigger in triggers:
            await trigger.cleanup()
            await trigger.cleanup()

    asyncio.run(live())
    assert LEDGERS._opened == {}
