"""A user's place for one test: topics on the real broker, a lake, a ledger, and the command line as a real process."""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import shlex
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.spark_submit.driver import OF_DRIVER
from airflow_kafka_lake.core.ledger.waves import PUBLISHES, LeaseHolder
from airflow_kafka_lake.local.processes import wait_until
from tests import markers, warm
from tests.documented import undocumented

DRIVER = re.compile(r"deploy\.SparkSubmit|\.DriverGateway")
CLI_SECONDS = 240
POLL_SECONDS = 0.2
END_SECONDS = 60
GONE_SECONDS = 10
CONNECTION = re.compile(r"AIRFLOW_CONN_(?!SPARK_)\w+")
HOME, COMMAND = "SANDBOX_HOME", "SANDBOX_COMMAND"
"""In the environment of everything that a command starts in a place, also of a driver whose command is gone: the place,
and which command it was."""
_numbers = itertools.count(1)
NAMED_COMMAND = re.compile(r"kafka-lake ((?:skip|release) [^;]+)")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


def end_all(home: Path) -> None:
    """Kill whatever runs or stands still in a place, until nothing of it is left."""

    def ended() -> bool:
        found = [process for process in psutil.process_iter() if _is_of(home, process)]
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not found

    wait_until(ended, timeout=END_SECONDS, failed=AssertionError)


def _is_of(home: Path, process: psutil.Process, command: str | None = None) -> bool:
    with suppress(psutil.Error):
        given = process.environ()
        return given.get(HOME) == str(home) and command in {None, given.get(COMMAND)}
    return False


def numbered() -> dict[str, str]:
    """Return what the environment of one more command has of its own."""
    return {COMMAND: f"{os.getpid()}-{next(_numbers)}"}


def assert_nothing_left(home: Path, command: Mapping[str, str], code: int) -> None:
    """Turn red over what a command has left behind that came to its end by itself; one that was killed is excused."""
    if code < 0:
        return
    found = {item: _words(item) for item in psutil.process_iter() if _is_of(home, item, command[COMMAND])}
    # Spark's Python has a process group of its own, and ends a moment after the Java that it belongs to.
    _, left = psutil.wait_procs(list(found), timeout=GONE_SECONDS)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert not left, f"a command that ended with {code} left processes behind: {[found[item] for item in left]}"


def _words(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return "gone"


def driver_of(reference: str) -> psutil.Process:
    """Return the driver of a job's reference."""
    return psutil.Process(LeaseHolder.parse(reference.partition(OF_DRIVER)[0]).pid)


def drivers(pid: int) -> list[psutil.Process]:
    """Return the Spark drivers below a command; children that have ended and were not waited for yet are none.

    Each has a session of its own. What Java forks in order to start something looks like Java, for a moment.
    """
    return [child for child in psutil.Process(pid).children(recursive=True) if _is_driver(child)]


def _is_driver(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        return os.getsid(process.pid) == process.pid and any(DRIVER.search(i) for i in process.cmdline())
    return False


@dataclass
class Sandbox:
    """One pipeline of one topic; `acknowledged` is what the producer was told, by `(partition, offset)`."""

    home: Path
    bootstrap: str
    partitions: int = 2
    replicas: int = 1
    topic: str = field(default_factory=lambda: f"orders-{secrets.token_hex(4)}")
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    catalog: str | None = None
    """The catalog's `uri` when it is not a SQLite file of this place."""
    ledger_connection: Mapping[str, Any] | None = None
    """The ledger's connection when it is not a SQLite file of this place."""
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    numbers: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """By pid, what tells what a started command has started."""

    def __post_init__(self) -> None:
        (self.home / "warehouse").mkdir(parents=True)
        self.create_topic(self.topic, self.partitions)
        self.write_pipeline()

    @property
    def name(self) -> str:
        return self.topic.lstrip("_")

    @property
    def table(self) -> str:
        return "raw.orders"

    @property
    def file(self) -> Path:
        return self.home / "orders.toml"

    @property
    def catalog_uri(self) -> str:
        return self.catalog or f"sqlite:///{self.home}/catalog.db"

    @property
    def ledger(self) -> Path:
        return self.home / "ledger.db"

    def write_pipeline(self, source: str = "", sizes: str = "", table: str = "raw.orders") -> None:
        """Write the pipeline file; `source` and `sizes` are further lines of these sections."""
        self.file.write_text(
            f'[pipeline]\nname = "{self.name}"\n[source]\ntopics = ["{self.topic}"]\n{source}\n'
            f'[lake]\ntable = "{table}"\n[spark]\nconnection = "spark_default"\n[sizes]\n{sizes}\n'
        )

    @property
    def environment(self) -> dict[str, str]:
        """The connections, and nothing of the caller's Airflow."""
        lake = {
            "format": "iceberg",
            "catalog": "sql",
            "uri": self.catalog_uri,
            "warehouse": f"file://{self.home}/warehouse",
        }
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}
        ledger = self.ledger_connection or {"conn_type": "sqlite", "host": str(self.ledger)}
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "KAFKA_LAKE_FAIL"))},
            HOME: str(self.home),
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
            "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
            "AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps(ledger),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }

    def start(
        self, *words: str, env: Mapping[str, str] | None = None, before: Sequence[str] = (), quick: bool = False
    ) -> subprocess.Popen[str]:
        """Start a command as a process group of its own; jobs of a `quick` one go to the warm driver."""
        number = numbered()
        program, of_driver = warm.program() if quick else ([sys.executable, "-m", "airflow_kafka_lake.cli"], {})
        process = subprocess.Popen(
            [*before, *program, *words],
            env=self.environment | number | of_driver | dict(env or {}),
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        self.numbers[process.pid] = number
        return process

    def wait_for_job(self, process: subprocess.Popen[str]) -> None:
        """Wait until an attempt of a started command has its job on record: a driver may start before there is one."""

        def is_recorded() -> bool:
            assert process.poll() is None, process.communicate()
            with (
                suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True)) as ledger,
            ):
                return bool(ledger.execute("SELECT job FROM kafka_lake_attempt WHERE job IS NOT NULL").fetchall())
            return False

        wait_until(is_recorded, timeout=CLI_SECONDS, failed=AssertionError)

    def wait_for_rows(self, process: subprocess.Popen[str]) -> None:
        """Wait until the job of a started command has read some of its rows, and not all."""

        def is_at_work() -> bool:
            assert process.poll() is None, process.communicate()
            with closing(sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True)) as ledger:
                query = "SELECT count(*) FROM kafka_lake_attempt WHERE rows_done > 0 AND rows_done < rows_expected"
                return bool(ledger.execute(query).fetchone()[0])

        self.wait_for_job(process)
        wait_until(is_at_work, timeout=CLI_SECONDS, failed=AssertionError)

    def end(self, process: subprocess.Popen[str], timeout: float = CLI_SECONDS) -> Ended:
        """Wait for a started command, which leaves nothing behind unless it is killed."""
        out, err = process.communicate(timeout=timeout)
        assert_nothing_left(self.home, self.numbers[process.pid], process.returncode)
        return Ended(process.returncode, out, err)

    def close(self) -> None:
        """End what a test that failed, or killed a command, has left, and close every pipe."""
        end_all(self.home)
        for process in self.started:
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()

    def command(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run a command to its end.

        One that is given nothing but connections to others than Spark is forked, and its jobs go to a warm driver; with
        more of its own (failpoints, another Spark) it is started as a user starts it, as all are that `start` starts.
        """
        given = dict(env or {})
        if not all(CONNECTION.fullmatch(name) for name in given):
            return self.end(self.start(*words, env=given))
        number = numbered()
        env = self.environment | number | given
        ended = Ended(*warm.command(words, env=env, home=self.home, timeout=CLI_SECONDS))
        assert_nothing_left(self.home, number, ended.code)
        if "--json" in words and ended.out:
            assert undocumented(words[0], ended.document) == [], "docs/reference/json.md does not name these keys"
        return ended

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """`kafka-lake run … --json`."""
        return self.command("run", str(self.file), "--json", *words, env=env)

    def obey(self, text: str) -> None:
        """Type the commands that a message names."""
        for command in NAMED_COMMAND.findall(text):
            ended = self.command(*shlex.split(command.replace("TEXT", "lost")), "--json")
            assert ended.code == 0, ended.err or ended.out

    # -- Kafka ------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, **config: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions, self.replicas, config=config)]).values():
            future.result(timeout=30)

    def delete_before(self, partition: int, offset: int) -> None:
        """Move a partition's log start, as an administrator does."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_records([TopicPartition(self.topic, partition, offset)]).values():
            future.result(30)

    def produce(
        self,
        records: int,
        *,
        size: int = 20,
        begin: int = 0,
        topic: str | None = None,
        partitions: int | None = None,
        dense: bool = False,
    ) -> dict[tuple[int, int], bytes]:
        """Produce plain records round robin over the partitions; returns, and for the sandbox's topic notes, what was
        acknowledged. No codec makes `dense` ones smaller."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        told: list[str] = []
        seen: dict[tuple[int, int], bytes] = {}

        def noted(error: Any, message: Any) -> None:
            if error is not None:
                told.append(str(error))
            else:
                seen[message.partition(), message.offset()] = message.value()

        for number in range(begin, begin + records):
            producer.poll(0)
            producer.produce(
                topic or self.topic,
                key=str(number),
                value=secrets.token_bytes(size) if dense else f"value {number} ".encode().ljust(size, b"x"),
                partition=number % (partitions or self.partitions),
                on_delivery=noted,
            )
        assert producer.flush(60) == 0
        assert not told
        if topic is None:
            self.acknowledged |= seen
        return seen

    def produce_singly(self, topic: str, records: int) -> None:
        """Produce records to partition 0 of another topic, each in a batch of its own."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(records):
            producer.produce(topic, value=f"value {number}".encode(), partition=0)
            assert producer.flush(60) == 0

    def transaction(self, records: int, *, commit: bool, partitions: int | None = None) -> None:
        """Produce one transaction round robin over the (first) partitions; only a committed one is noted."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": secrets.token_hex(4)})
        producer.init_transactions(120)
        producer.begin_transaction()
        seen: dict[tuple[int, int], bytes] = {}
        among = partitions or self.partitions

        def noted(error: Any, message: Any) -> None:
            assert error is None
            seen[message.partition(), message.offset()] = message.value()

        for number in range(records):
            value = f"{'committed' if commit else 'aborted'} {number}".encode()
            producer.produce(self.topic, value=value, partition=number % among, on_delivery=noted)
        assert producer.flush(60) == 0
        markers.end(producer, self.bootstrap, {(self.topic, partition) for partition, _ in seen}, commit=commit)
        if commit:
            self.acknowledged |= seen

    # -- the lake ---------------------------------------------------------------------------------------------------

    def iceberg(self) -> Any:
        """Load the table as any reader would."""
        from pyiceberg.catalog import load_catalog

        uri = self.catalog_uri.replace("postgresql:", "postgresql+psycopg2:")
        catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{self.home}/warehouse")
        try:
            return catalog.load_table(self.table)
        finally:
            catalog.close()

    def rows(self) -> Counter[tuple[int, int, bytes]]:
        """Count the table's rows by `(partition, offset, value)`."""
        arrow = self.iceberg().scan(selected_fields=("kafka_partition", "kafka_offset", "value")).to_arrow()
        columns = (arrow[name].to_pylist() for name in ("kafka_partition", "kafka_offset", "value"))
        return Counter(zip(*columns, strict=True))

    def publishes(self) -> list[str]:
        """Return the waves of main's publishing commits, oldest first."""
        snapshots = self.iceberg().metadata.snapshots
        kinds = [s.summary.additional_properties for s in sorted(snapshots, key=lambda s: s.sequence_number)]
        return [kind["kafka-lake.wave"] for kind in kinds if kind.get("kafka-lake.kind") in PUBLISHES]

    def assert_exact(self, visible: Mapping[tuple[int, int], bytes] | None = None) -> None:
        """Every acknowledged record is in the table once, and nothing else is."""
        expected = self.acknowledged if visible is None else visible
        assert self.rows() == Counter({(p, o, value): 1 for (p, o), value in expected.items()})

    def spark_sql(self, statements: Sequence[str]) -> None:
        """Run SQL in the warm Spark, with the lake's catalog: what the table's owner does beside us."""
        extra = json.loads(self.environment["AIRFLOW_CONN_LAKE_DEFAULT"])["extra"]
        code, said = warm.spark_sql(LakeSettings.parse("lake_default", extra).spark(), statements)
        assert code == 0, said[-3000:]
