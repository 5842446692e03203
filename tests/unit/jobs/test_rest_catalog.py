"""Spark's REST catalog makes a commit again that another one came before, also where its server says so by a 400."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from airflow_kafka_lake.adapters.java import require_java, spark_home
from tests.consumer_jar import TARGET
from tests.local_http import LocalHttp

pytestmark = pytest.mark.integration

COMMIT = """
import java.util.Map;
import org.apache.iceberg.*;
import org.apache.iceberg.catalog.TableIdentifier;

class Commit {
    public static void main(String[] places) throws Exception {
        var file = DataFiles.builder(PartitionSpec.unpartitioned()).withPath("memory:/rows.parquet")
            .withFileSizeInBytes(10).withRecordCount(1).build();
        for (String place : places) {
            var catalog = new airflow_kafka_lake.RestCatalog();
            catalog.initialize("lake", Map.of("uri", place, "io-impl", "org.apache.iceberg.inmemory.InMemoryFileIO"));
            var table = catalog.loadTable(TableIdentifier.of("raw", "orders"));
            try {
                table.newAppend().toBranch("b").appendFile(file).commit();
                System.out.println("committed");
            } catch (RuntimeException error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
    }
}
"""


class Server(LocalHttp):
    """A catalog of one table, which answers commits as it is told; `commits` are the snapshots that were sent."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self._answers = list(answers)
        self.commits: list[dict[str, object]] = []
        schema = Schema(NestedField(1, "id", LongType(), required=False))
        metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "memory:/orders", {})
        self._table = json.dumps(
            {"metadata-location": "memory:/orders/metadata.json", "metadata": json.loads(metadata.model_dump_json())}
        ).encode()

    def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path.startswith("/v1/config"):
            return 200, b'{"defaults": {}, "overrides": {}}'
        if not body:
            return 200, self._table
        (snapshot,) = (item["snapshot"] for item in json.loads(body)["updates"] if item["action"] == "add-snapshot")
        self.commits.append(snapshot)
        status, message = self._answers.pop(0)
        if message == LANDED[1]:
            self._land(json.loads(body)["updates"])
        said = {"error": {"message": message, "type": "Any", "code": status}}
        return (status, json.dumps(said).encode()) if message else (status, self._table)

    def _land(self, updates: list[dict[str, Any]]) -> None:
        table = json.loads(self._table)
        metadata, table["metadata-location"] = table["metadata"], "memory:/orders/next.metadata.json"
        for item in updates:
            if item["action"] == "add-snapshot":
                metadata["snapshots"] = [item["snapshot"]]
                metadata["last-sequence-number"] = item["snapshot"]["sequence-number"]
            elif item["action"] == "set-snapshot-ref":
                metadata["refs"] = {item["ref-name"]: {"snapshot-id": item["snapshot-id"], "type": item["type"]}}
        self._table = json.dumps(table).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _all(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, found = server._answer(self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

            do_GET = do_POST = _all  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


LOST = (400, "Malformed request: Cannot add snapshot with sequence number 1 older than last sequence number 1")
LANDED = (400, f"{LOST[1]}: its own")
"""Of a server that has made the commit, and another time met it."""
DONE = (200, "")
CASES = (
    ("committed", [LOST, LOST, DONE]),
    ("committed", [(409, "Requirement failed: branch b has changed"), DONE]),
    ("CommitFailedException", [LOST] * 5),
    ("committed", [LANDED]),
    ("CommitStateUnknownException", [(500, LOST[1])]),
    ("BadRequestException", [(400, "Malformed request: no")]),
    ("ForbiddenException", [(403, "no")]),
)


def test_commit_that_lost_its_race_is_made_again(spark_jars: list[Path], tmp_path: Path) -> None:
    """As often as the table says, and no other refusal is; never twice where the first has landed, or may have."""
    program = tmp_path / "Commit.java"
    program.write_text(COMMIT)
    places = ":".join(map(str, [TARGET, *spark_jars, spark_home() / "jars" / "*"]))
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(*answers)) for _, answers in CASES]
        words = [require_java(), "-XX:TieredStopAtLevel=1", "-cp", places, program, *(item.base for item in servers)]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300, check=False)
    found = list(zip(done.stdout.split(), (len(server.commits) for server in servers), strict=True))
    assert found == [(ended, len(answers)) for ended, answers in CASES], done.stderr
