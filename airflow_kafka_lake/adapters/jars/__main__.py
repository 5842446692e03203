"""`python -m airflow_kafka_lake.adapters.jars` fetches every set; `kafka-lake jars fetch` only the sets of Spark."""

from __future__ import annotations

import sys

from airflow_kafka_lake.adapters.jars.cache import JarSet, fetch
from airflow_kafka_lake.core.errors import KafkaLakeError


def main() -> int:
    """Fetch and verify all sets; return the exit code."""
    try:
        for jar_set in JarSet:
            fetch(jar_set, progress=lambda line: print(line, file=sys.stderr))  # noqa: T201
    except KafkaLakeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
