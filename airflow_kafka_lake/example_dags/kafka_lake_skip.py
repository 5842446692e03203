"""Leave offsets unread: choose a period in the form, see the effects, approve it.

The task `explain` checks and shows which offsets of which waves would stay unread, and changes nothing. The task
`approve` shows the same in its tab *Required Actions* and waits for a person. Then `skip` records the decision, with
that person's name and the reason. The watermark moves over the period with the next run of the pipeline.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.forms import decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import ApproveDecisionOperator, SkipOperator
from airflow_kafka_lake.task_groups import RETRIES
from airflow_kafka_lake.wiring.assemble import configured_pipelines

PIPELINES, _ = configured_pipelines()
FIELDS = decision_form(SkipOperator.decision, PIPELINES)
ASKED = {**decision_templates(SkipOperator.decision), "conf_keys": sorted(FIELDS), **RETRIES}

with DAG("kafka_lake_skip", schedule=None, doc_md=__doc__, tags=["kafka-lake"], params=FIELDS) as dag:
    explain = SkipOperator(task_id="explain", is_dry_run=True, **ASKED)
    approve = ApproveDecisionOperator(task_id="approve", explain_task_id="explain", **RETRIES)
    skip = SkipOperator(task_id="skip", explain_task_id="explain", approval_task_id="approve", **ASKED)
    explain >> approve >> skip
