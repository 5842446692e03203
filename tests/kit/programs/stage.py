"""The staging job with traps between its steps: what a driver runs instead of the product's program."""

import sys
from functools import partial

from airflow_kafka_lake.jobs import stage
from airflow_kafka_lake.jobs.driver import run
from tests.kit.traps import InDriver

work = partial(stage.work, steps=InDriver.armed)

if __name__ == "__main__":
    run(sys.argv[1:], work)
