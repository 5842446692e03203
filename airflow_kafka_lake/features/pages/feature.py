"""Pages for a browser, as a feature."""

from __future__ import annotations

from airflow_kafka_lake.ports.feature import Feature, Json


def _audit(document: Json) -> str:
    from airflow_kafka_lake.features.pages.audit import audit_page

    return audit_page(document)


def _segments(document: Json) -> str:
    from airflow_kafka_lake.features.pages.segments import segments_svg

    return segments_svg(document)


PAGES = Feature(name="pages", pages={"audit": _audit, "segments": _segments})
