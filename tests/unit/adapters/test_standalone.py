"""Ending applications by name: what is sent to a standalone master, and what is made of its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from airflow_kafka_lake.adapters.spark_submit.runner import SparkSubmitRunner, end_application, lacking_room
from airflow_kafka_lake.adapters.spark_submit.submission import require_master
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.spark.job import job_name

pytestmark = pytest.mark.unit
NAME = job_name("orders", "w1", "a" * 16)


class Master(ThreadingHTTPServer):
    """A master's web address: applications by id, and how it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.applications: dict[str, str] = {}
        self.kill_status = 302
        self.listing: bytes | None = None

    @property
    def url(self) -> str:
        return "spark://127.0.0.1:7077"

    @property
    def port(self) -> str:
        return str(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: Master

    def do_GET(self) -> None:
        shown = [{"id": key, "name": name, "state": "RUNNING"} for key, name in self.server.applications.items()]
        self._answer(200, self.server.listing or json.dumps({"activeapps": shown}).encode())

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.path == "/app/kill/" and form["terminate"] == ["true"] and self.server.kill_status < 400:
            self.server.applications.pop(form["id"][0])
        self._answer(self.server.kill_status, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def master() -> Iterator[Master]:
    with Master() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_only_the_application_of_that_name_is_ended(master: Master) -> None:
    """Another attempt, another wave, another pipeline, and strangers go on."""
    others = {
        "2": job_name("orders", "w1", "b" * 16),
        "3": job_name("orders", "w11", "a" * 16),
        "4": NAME + " copy",
        "5": "report",
    }
    master.applications = {"1": NAME, **others}
    assert end_application(master.url, master.port, NAME)
    assert master.applications == others
    assert not end_application(master.url, master.port, NAME)


def test_standby_masters_are_asked_too(master: Master) -> None:
    """Of several masters one leads; one that is away does not hide it."""
    master.applications = {"1": NAME}
    assert end_application(f"spark://no.such.host.invalid:7077,127.0.0.1:{master.port}", master.port, NAME)


def test_master_that_forbids_it_ends_nothing(master: Master) -> None:
    """`spark.ui.killEnabled=false`, or a filter before the page: no error, and nothing is claimed to be ended."""
    master.applications, master.kill_status = {"1": NAME}, 405
    assert not end_application(master.url, master.port, NAME)


def worker(memory: int, cores: int, state: str = "ALIVE", used: int = 0) -> dict[str, object]:
    free = {"memoryfree": memory - used, "coresfree": cores if not used else 0}
    return {"memory": memory, "cores": cores, "state": state, **free}


@pytest.mark.parametrize(
    ("application", "workers", "said"),
    [
        (
            "app",
            [worker(4096, 2)],
            "no worker has 8 GiB and 1 core free for an executor; at most they have 4 GiB and 2",
        ),
        ("app", [worker(16384, 2, "DEAD")], ""),
        (
            "app",
            [worker(9000, 2, used=1000)],
            "no worker has 8 GiB and 1 core free for an executor; at most they have 8.79",
        ),
        ("app", [worker(512, 2), worker(8192, 1)], ""),
        ("", [worker(512, 2)], "no worker has 1.5 GiB and 2 cores free for the driver; at most they have 0.5 GiB"),
        (
            "",
            [worker(4096, 1)],
            "no worker has 1.5 GiB and 2 cores free for the driver; at most they have 4 GiB and 1 core",
        ),
        ("", [worker(4096, 2)], ""),
        ("other", [], ""),
    ],
)
def test_room_that_no_worker_has_is_told_with_that_of_the_largest(
    master: Master, application: str, workers: list[dict[str, object]], said: str
) -> None:
    """A driver that has begun needs no more: another one may wait for its place."""
    drivers = [{"memory": 1536, "cores": 2, "state": "SUBMITTED"}, {"memory": 1 << 20, "cores": 1, "state": "RUNNING"}]
    applications = [{"id": "app", "memoryperexecutor": 8192}, {"id": "greater", "memoryperexecutor": 1 << 20}]
    told = {"activeapps": applications, "activedrivers": drivers, "workers": workers}
    master.listing = json.dumps(told).encode()
    found = lacking_room(master.url, master.port, application, "1")
    assert (said in found, found == "") == (True, said == "")


@pytest.mark.parametrize("listing", [b"<html>", b"[]", b'{"activeapps": [1]}', b'{"workers": []}'])
def test_answer_that_is_no_list_tells_no_room(master: Master, listing: bytes) -> None:
    master.listing = listing
    assert lacking_room(master.url, master.port, "app", "1") == ""


@pytest.mark.parametrize("listing", [b"<html>", b"[]", b'{"activeapps": [1]}', b'{"workers": []}'])
def test_answer_that_is_no_list_of_applications_ends_nothing(master: Master, listing: bytes) -> None:
    """Something else may listen there."""
    master.listing = listing
    assert not end_application(master.url, master.port, NAME)


@pytest.mark.parametrize("port", ["1", "none"])
def test_master_that_does_not_answer_ends_nothing(port: str) -> None:
    """What survives can only stage."""
    assert not end_application("spark://127.0.0.1:7077", port, NAME)


def test_end_of_the_application_alone_is_an_end(master: Master) -> None:
    """The driver was on another host, or is gone already: what was ended of the job is told all the same."""
    runner = SparkSubmitRunner(
        master=master.url, catalog={}, kafka={}, jars=[], conf={"spark.master.ui.port": master.port}
    )
    master.applications = {"1": NAME}
    assert runner.end_orphan(None, NAME)
    assert not runner.end_orphan(None, NAME)


@pytest.mark.parametrize("port", ["99999", "0x1"])
def test_master_at_a_port_that_is_none_takes_no_connection(port: str) -> None:
    """It is said of the master, and not as an error of an address."""
    with pytest.raises(UnavailableError, match=f"spark://127.0.0.1:{port} takes no connection"):
        require_master(f"spark://127.0.0.1:{port}")
