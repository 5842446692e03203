"""Take off the plan the offsets that no run has begun to read: see the effects, approve it.

The task `explain` checks and shows which planned offsets would leave the plan, and changes nothing. The task `approve`
shows the same in its tab *Required Actions* and waits for a person. Then `withdraw` records the decision, with that
person's name and the reason. A later plan takes the same offsets again.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.forms import decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import ApproveDecisionOperator, WithdrawOperator
from airflow_kafka_lake.task_groups import RETRIES
from airflow_kafka_lake.wiring.assemble import configured_pipelines

PIPELINES, _ = configured_pipelines()
FIELDS = decision_form(WithdrawOperator.decision, PIPELINES)
ASKED = {**decision_templates(WithdrawOperator.decision), "conf_keys": sorted(FIELDS), **RETRIES}

with DAG("kafka_lake_withdraw", schedule=None, doc_md=__doc__, tags=["kafka-lake"], params=FIELDS) as dag:
    explain = WithdrawOperator(task_id="explain", is_dry_run=True, **ASKED)
    approve = ApproveDecisionOperator(task_id="approve", explain_task_id="explain", **RETRIES)
    withdraw = WithdrawOperator(task_id="withdraw", explain_task_id="explain", approval_task_id="approve", **ASKED)
    explain >> approve >> withdraw
