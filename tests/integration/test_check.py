"""`kafka-lake check` on real parts: it finds what a run would find, names the key to change, and leaves nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.integration.refusing import Refusals
    from tests.sandbox import Ended

SECRET = "s3cret-never-shown"


def outcomes(ended: Ended) -> dict[str, str]:
    """Return the outcome of each part."""
    return {f"{item['part']} {item['subject']}": item["outcome"] for item in ended.document["checks"]}


def test_good_parts_are_all_ok_and_nothing_is_left_behind(fresh: Refusals) -> None:
    """Before the first plan, when nothing is there: the trial's table is gone with its folders. Then a run goes on."""
    from tests.integration.refusing import state_of
    from tests.sandbox import Sandbox

    place: Sandbox = fresh.sandbox
    place.produce(5)
    (place.home / "warehouse").rmdir()
    before = state_of(place), sorted(place.home.iterdir())
    done = fresh.command("check", str(place.file), "--json")
    assert done.code == 0, done
    assert set(outcomes(done).values()) == {"ok"}, done
    assert state_of(place) == before[0]
    assert {file.name for file in place.home.iterdir()} - {file.name for file in before[1]} <= {
        "catalog.db",
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
    }
    shown = fresh.command("check", str(place.file))
    assert (shown.code, f"{len(outcomes(done))} ok" in shown.out) == (0, True), shown
    place.produce(5)
    assert place.run().code == 0
    after = state_of(place)
    again = fresh.command("check", str(place.file), "--json")
    assert set(outcomes(again).values()) == {"ok"}, again
    assert state_of(place) == after
    place.assert_exact()


def test_cluster_that_cannot_call_this_machine_is_a_warning_with_the_address(
    fresh: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on this machine: then it can."""
    with socket.create_server(("127.0.0.1", 0)) as master:
        extra = {"deploy-mode": "cluster", "spark.kafka_lake.worker.address": "localhost"}
        host = f"spark://127.0.0.1:{master.getsockname()[1]}"
        monkeypatch.setenv(
            "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host, "extra": extra})
        )
        done = fresh.command("check", str(fresh.sandbox.file), "--json")
    (spark,) = (item for item in done.document["checks"] if item["part"] == "spark")
    assert (spark["outcome"], "Drivers call localhost:a free port" in spark["found"]) == ("warning", True), done
    assert "spark.kafka_lake.worker.address" in spark["remedy"]


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of an HTTP server, which is no part of anybody's pipeline."""

    class Silent(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port
        server.shutdown()
        serving.join()


def _kafka(port: int, **extra: str) -> dict[str, Any]:
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{port}", **extra}}


@pytest.mark.parametrize(
    ("conn_id", "connection", "part", "says"),
    [
        pytest.param(
            *("kafka_default", _kafka(1), "kafka kafka_default", ("127.0.0.1:1", "bootstrap.servers")),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            *("kafka_default", _kafka(0), "kafka kafka_default", ("an HTTP server is there", "bootstrap.servers")),
            marks=pytest.mark.nightly,
        ),
        (
            "lake_default",
            {"conn_type": "lake", "extra": {"format": "iceberg", "catalog": "rest", "uri": "http://127.0.0.1:0"}},
            "lake lake_default",
            ("'lake_default'", "(uri, warehouse, prefix)"),
        ),
        (
            "kafka_lake_ledger",
            {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "l", "password": SECRET},
            "ledger kafka_lake_ledger",
            ("127.0.0.1:1", "Check its connection"),
        ),
    ],
    ids=["closed port", "Kafka's port is a web server's", "catalog's port is a web server's", "no database there"],
)
def test_wrong_address_is_named_by_check_plan_and_run(
    conn_id: str,
    connection: Mapping[str, Any],
    part: str,
    says: tuple[str, ...],
    refusals: Refusals,
    web_server: int,
) -> None:
    """All three say the same, in words that name the key; nothing is changed and no secret shown."""
    from tests.integration.refusing import state_of

    text = json.dumps(connection).replace("127.0.0.1:0", f"127.0.0.1:{web_server}")
    refusals.connect(conn_id, json.loads(text))
    before, file = state_of(refusals.sandbox), str(refusals.sandbox.file)
    checked = refusals.command("check", file, "--json")
    entry = next(item for item in checked.document["checks"] if f"{item['part']} {item['subject']}" == part)
    for ended, told in (
        (checked, entry["error"]),
        *(
            (ended, ended.document["error"])
            for ended in (
                refusals.command("plan", file, "--dry-run", "--json"),
                refusals.command("run", file, "--json"),
            )
        ),
    ):
        assert (ended.code, told["type"]) == (checked.code, entry["error"]["type"]), ended
        assert [word for word in says if word not in told["message"]] == []
        assert SECRET not in ended.out + ended.err
    assert checked.code in {1, 3}
    assert state_of(refusals.sandbox) == before
