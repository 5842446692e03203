"""Pages for a browser, as a feature."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake.core.addresses import SITE as ROOT
from airflow_kafka_lake.ports import (
    Feature,
    Json,
    OpenPorts,
    Site,
)


def _audit(document: Json) -> str:
    from airflow_kafka_lake.features.pages.charts import audit_page

    return audit_page(document)


def _segments(document: Json) -> str:
    from airflow_kafka_lake.features.pages.charts import segments_svg

    return segments_svg(document)


def _site(open_ports: OpenPorts) -> Any:
    from airflow_kafka_lake.features.pages.web.app import build

    return build(open_ports)


SITE = Site(
    name="Kafka Lake",
    prefix=ROOT,
    build=_site,
    # An address without a leading slash is below `[api] base_url`, whatever path that has.
    views=(
        {"name": "Kafka Lake", "href": "kafka-lake/", "destination": "nav", "url_route": "kafka-lake"},
        {
            "name": "Kafka Lake",
            "href": "kafka-lake/dags/{DAG_ID}",
            "destination": "dag",
            "url_route": "kafka-lake-dag",
        },
    ),
)

PAGES = Feature(name="pages", pages={"audit": _audit, "segments": _segments}, site=SITE)
