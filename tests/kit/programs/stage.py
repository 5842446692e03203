"""The staging job with traps between its steps: what a driver runs instead of the product's program."""

import sys

from airflow_kafka_lake.jobs.stage import main
from tests.kit.traps import InDriver

if __name__ == "__main__":
    main(sys.argv[1:], InDriver.armed)
