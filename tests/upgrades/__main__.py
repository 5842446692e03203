"""`python -m tests.upgrades`, when a minor version is released: keep what it leaves, for later ones to go on with."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import airflow_kafka_lake
from tests.contracts.record_ledger import live
from tests.upgrades.place import packed


def main() -> None:
    """Record today's version."""
    minor = airflow_kafka_lake.__version__.rpartition(".")[0]
    with TemporaryDirectory() as folder:
        sys.stdout.write(f"{packed(minor, live, Path(folder))}\n")


if __name__ == "__main__":
    main()
