"""Every hour, for every pipeline file of `[kafka_lake] pipelines_folder`: bring the lake all that is missing.

Each pipeline has a Dag of its own, `kafka_lake.NAME`, so that none waits for another. A file that does not validate is
a Dag whose task fails with the reason. Without a folder or without files there is no Dag.
"""

from __future__ import annotations

from airflow_kafka_lake.task_groups import pipeline_dags

pipeline_dags(schedule="@hourly", doc_md=__doc__)
