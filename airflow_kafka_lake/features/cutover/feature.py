"""The cutover's proof, as a feature of an audit."""

from __future__ import annotations

from airflow_kafka_lake.ports.feature import AuditCheck, Feature, Json, Option


def _check(given: Json) -> AuditCheck | None:
    from airflow_kafka_lake.features.cutover.check import CutoverCheck

    return CutoverCheck(table=given["cutover"], columns=given.get("cutover_columns")) if given.get("cutover") else None


CUTOVER = Feature(
    name="cutover",
    audit_check=_check,
    audit_options=(
        Option(
            name="cutover", metavar="TABLE", help="also judge the cutover with the table that a live stream writes to"
        ),
        Option(
            name="cutover_columns",
            metavar="topic=C,partition=C,offset=C",
            help="columns of that table; otherwise kafka_topic, kafka_partition, kafka_offset",
            beside="cutover",
            does="names columns of the table that --cutover names",
        ),
    ),
)
