"""Trigger a Dag and wait for its end; it exits with 1 when the run failed. Its only argument names a JSON file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_kafka_lake.local.airflow import AirflowApi

_LIMIT_SECONDS = 3600


def main(file: Path) -> int:
    """Run the Dag once."""
    asked = json.loads(file.read_text())
    api = AirflowApi(asked["base_url"], user=asked["user"], password=lambda: str(asked["password"]))
    run = api.trigger(asked["dag"], asked["conf"])
    return int(api.wait_run(asked["dag"], run, _LIMIT_SECONDS)["state"] != "success")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
