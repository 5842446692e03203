"""Run a Connect worker until the table has every row, then end it. Its only argument names a JSON file."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlparse

_LOOK_SECONDS = 0.1
_READY = "Kafka Connect started"


def main(file: Path) -> None:
    """Start the worker, watch the table, end the worker."""
    asked = json.loads(file.read_text())
    home, log = file.parent, file.parent / "worker.log"
    marks: dict[str, float] = {}
    with log.open("wb") as out:
        worker = subprocess.Popen(asked["command"], cwd=home, stdout=out, stderr=subprocess.STDOUT)
    table = Table(Path(asked["catalog"]), asked["table"])
    while table.rows() < asked["rows"]:
        if worker.poll() is not None:
            sys.exit(f"the worker ended:\n{log.read_text(errors='replace')[-4000:]}")
        if "start" not in marks and _READY in log.read_text(errors="replace"):
            marks["start"] = time.monotonic()
        time.sleep(_LOOK_SECONDS)
    marks["committed"] = time.monotonic()
    (home / "marks.json").write_text(json.dumps(marks))
    worker.send_signal(signal.SIGKILL)
    worker.wait()


class Table:
    """How many rows an Iceberg table has, by its newest metadata file; a look costs next to nothing."""

    def __init__(self, catalog: Path, name: str) -> None:
        self._catalog, self._name = catalog, name
        self._seen, self._rows = "", 0

    def rows(self) -> int:
        """Return the rows of the current snapshot."""
        with sqlite3.connect(f"file:{self._catalog}?mode=ro", uri=True, timeout=5) as catalog:
            namespace, _, table = self._name.rpartition(".")
            ((location,),) = catalog.execute(
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?",
                (namespace, table),
            ).fetchall()
        catalog.close()
        if location != self._seen:
            self._seen, self._rows = location, _rows(Path(urlparse(location).path))
        return self._rows


def _rows(metadata: Path) -> int:
    found = json.loads(metadata.read_text())
    current = found.get("current-snapshot-id")
    summaries = {item["snapshot-id"]: item["summary"] for item in found.get("snapshots", ())}
    return int(summaries[current]["total-records"]) if current in summaries else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
