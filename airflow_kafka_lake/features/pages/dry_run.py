"""The page from which a person goes on after a dry run: its script asks Airflow's own API, in the person's own name."""

from __future__ import annotations

from urllib.parse import quote

from airflow_kafka_lake.core.addresses import SITE
from airflow_kafka_lake.features.pages.site import NEVER, draw
from airflow_kafka_lake.features.pages.web.visitor import Visitor


def dry_run_page(visitor: Visitor, dag: str, run: str) -> str:
    """Draw the page; nothing is asked, and nothing is done, before the person says so."""
    airflow, runs = visitor.base.removesuffix(SITE), f"/dags/{quote(dag, safe='')}"
    return draw(
        "dry_run.html",
        visitor,
        poll=NEVER,
        dag=dag,
        run=run,
        runs=f"{airflow}/api/v2{runs}/dagRuns",
        asked=f"{airflow}/api/v2{runs}/dagRuns/{quote(run, safe='')}",
        shown=f"{airflow}{runs}/runs",
        link=f"{airflow}{runs}/runs/{quote(run, safe='')}",
    )
