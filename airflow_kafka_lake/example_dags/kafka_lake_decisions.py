"""Decide about offsets in three Dags: `kafka_lake_reopen`, `kafka_lake_skip` and `kafka_lake_withdraw`."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.forms import decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import (
    ApproveDecisionOperator,
    ReopenOperator,
    SkipOperator,
    WithdrawOperator,
)
from airflow_kafka_lake.task_groups import RETRIES
from airflow_kafka_lake.wiring.assemble import configured_pipelines

PIPELINES, _ = configured_pipelines()
STEPS = """
Choose a period in the form. The task `explain` checks and shows which offsets, rows and waves it is about, and changes
nothing. The task `approve` shows the same in its tab *Required Actions* and waits for a person. Then the last task
records the decision, with that person's name and the reason; the next run of the pipeline goes on from there.
"""

for operator in (ReopenOperator, SkipOperator, WithdrawOperator):
    name, fields = operator.decision.name, decision_form(operator.decision, PIPELINES)
    asked = {**decision_templates(operator.decision), "conf_keys": sorted(fields), **RETRIES}
    about = "\n\n".join((f"**{operator.decision.title}.**", *operator.decision.consequences, STEPS))
    with DAG(f"kafka_lake_{name}", schedule=None, doc_md=about, tags=["kafka-lake"], params=fields):
        explain = operator(task_id="explain", is_dry_run=True, **asked)
        approve = ApproveDecisionOperator(task_id="approve", explain_task_id="explain", **RETRIES)
        decide = operator(task_id=name, explain_task_id="explain", approval_task_id="approve", **asked)
        explain >> approve >> decide
