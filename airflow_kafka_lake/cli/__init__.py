"""`kafka-lake`: one table of commands, called so or as `airflow kafka-lake`."""

from airflow_kafka_lake.cli.entry_point import main

__all__ = ["main"]
