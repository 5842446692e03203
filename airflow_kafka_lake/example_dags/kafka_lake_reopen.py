"""Read again a period that is in the lake: choose it in the form, see the effects, approve it.

The task `explain` checks and shows which offsets, rows and waves it is about, and changes nothing. The task `approve`
shows the same in its tab *Required Actions* and waits for a person. Then `reopen` records the decision, with that
person's name and the reason. The rows stay until the next run of the pipeline has read the period again.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.forms import decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import ApproveDecisionOperator, ReopenOperator
from airflow_kafka_lake.task_groups import RETRIES
from airflow_kafka_lake.wiring.assemble import configured_pipelines

PIPELINES, _ = configured_pipelines()
FIELDS = decision_form(ReopenOperator.decision, PIPELINES)
ASKED = {**decision_templates(ReopenOperator.decision), "conf_keys": sorted(FIELDS), **RETRIES}

with DAG("kafka_lake_reopen", schedule=None, doc_md=__doc__, tags=["kafka-lake"], params=FIELDS) as dag:
    explain = ReopenOperator(task_id="explain", is_dry_run=True, **ASKED)
    approve = ApproveDecisionOperator(task_id="approve", explain_task_id="explain", **RETRIES)
    reopen = ReopenOperator(task_id="reopen", explain_task_id="explain", approval_task_id="approve", **ASKED)
    explain >> approve >> reopen
