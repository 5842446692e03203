"""Every hour, for every pipeline file of `[kafka_lake] pipelines_folder`: what is missing, into the lake.

A file that does not validate is a task that fails with the reason, and stops no other pipeline. Without a folder or
without files the Dag has no tasks and no schedule, and says so.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.core.spec import legal_table_part
from airflow_kafka_lake.operators.advance import RefuseOperator
from airflow_kafka_lake.task_groups import kafka_lake_ingest
from airflow_kafka_lake.wiring.pipelines import configured_pipelines

PIPELINES, PROBLEMS = configured_pipelines()
EMPTY = "\n\n**No pipelines:** put pipeline files (`*.toml`) into the folder of `[kafka_lake] pipelines_folder`."

with DAG(
    "kafka_lake_scheduled",
    schedule="@hourly" if PIPELINES or PROBLEMS else None,
    catchup=False,
    max_active_runs=1,
    doc_md=(__doc__ or "") + ("" if PIPELINES or PROBLEMS else EMPTY),
    tags=["kafka-lake"],
) as dag:
    for name, pipeline in PIPELINES.items():
        kafka_lake_ingest(pipeline=pipeline, group_id=legal_table_part(name))
    for number, (file, problem) in enumerate(PROBLEMS.items()):
        RefuseOperator(task_id=f"invalid_file_{number}", problem=f"{file}: {problem}")
