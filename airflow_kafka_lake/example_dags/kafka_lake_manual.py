"""One ingest by hand: choose a pipeline and a period in the form, and start it.

Without a topic, partitions and a period: all that is missing up to the pipeline's end policy, and the unfinished waves
of earlier runs. A period is two times or two offsets; `[from, to)` may also lie before everything that was read so far.
A *dry run* shows the plan in the task `review`, tab *Required Actions*, and records nothing; *Ask before it starts*
shows it there and waits for an approval.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_kafka_lake.forms import NO_PIPELINES, ingest_form, ingest_templates, review_templates
from airflow_kafka_lake.operators.decisions import ReviewPlanOperator
from airflow_kafka_lake.task_groups import RETRIES, kafka_lake_ingest
from airflow_kafka_lake.wiring.assemble import configured_pipelines

PIPELINES, PROBLEMS = configured_pipelines()
INVALID = "".join(f"\n\n**Invalid file** {file}: {problem}" for file, problem in PROBLEMS.items())
EMPTY = f"\n\n**No pipelines:** {NO_PIPELINES}"
FIELDS = ingest_form(PIPELINES)

with DAG(
    "kafka_lake_manual",
    schedule=None,
    max_active_runs=4,
    doc_md=(__doc__ or "") + INVALID + ("" if PIPELINES else EMPTY),
    params=FIELDS,
) as dag:
    review = ReviewPlanOperator(task_id="review", conf_keys=sorted(FIELDS), **review_templates(), **RETRIES)
    review >> kafka_lake_ingest(conf_keys=sorted(FIELDS), **ingest_templates())
