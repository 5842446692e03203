"""A process that is one command: `kafka-lake`, and `python -m airflow_kafka_lake.cli`."""

from __future__ import annotations

import gc
import sys
from importlib.abc import MetaPathFinder

from airflow_kafka_lake.adapters.machine import RARELY
from airflow_kafka_lake.cli.entry_point import main


class WithoutPandas(MetaPathFinder):
    """Lets this process find no pandas: PyArrow imports it, a third of a CPU second, to know its columns from lists."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuse that one module."""
        if fullname == "pandas":
            raise ModuleNotFoundError("A command does without pandas.", name=fullname)


def process() -> int:
    """Run the command of this process, and return its exit code."""
    sys.meta_path.insert(0, WithoutPandas())
    gc.set_threshold(*RARELY)  # also at the command's end, where all that it has made would be gone through
    code = main()
    gc.freeze()  # Python's last search for garbage, through all that was imported, takes 0.4 seconds
    return code


if __name__ == "__main__":
    sys.exit(process())
