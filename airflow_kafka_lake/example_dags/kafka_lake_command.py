"""Run a command of `kafka-lake` without a terminal, such as a message names it: the Dag `kafka_lake_command`."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_kafka_lake.cli.airflow_task import CommandOperator
from airflow_kafka_lake.core import remedies

ABOUT = """
Copy a command from a message, a page or the documentation. The task's log shows its result. Most commands that change
something take `--dry-run`; `help` explains an error, and behind a command `--help` the command.
"""
HINT = f"Such as: {remedies.status('orders')}; a pipeline file is one of the folder: {remedies.rebuild('orders.toml')}"
COMMAND = Param(type="string", minLength=1, title="Command", description=HINT)

with DAG("kafka_lake_command", schedule=None, doc_md=ABOUT, tags=["kafka-lake"], params={"command": COMMAND}):
    CommandOperator(task_id="command", command="{{ params['command'] }}")
