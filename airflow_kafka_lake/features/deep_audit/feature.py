"""The comparison of contents, as a feature of an audit."""

from __future__ import annotations

from airflow_kafka_lake.ports.feature import AuditCheck, Feature, Json, Option


def _check(given: Json) -> AuditCheck | None:
    from airflow_kafka_lake.features.deep_audit.check import DeepCheck
    from airflow_kafka_lake.pipeline.units import parse_size

    if not given.get("deep"):
        return None
    rate = given.get("deep_rate")
    return DeepCheck(bytes_per_second=None if rate is None else parse_size(rate))


DEEP_AUDIT = Feature(
    name="deep_audit",
    audit_check=_check,
    audit_options=(
        Option(name="deep", help="read Kafka again, in Spark, and compare every byte"),
        Option(
            name="deep_rate",
            metavar="SIZE",
            help='with --deep: how much to read a second, such as "20 MiB"',
            beside="deep",
            does="bounds what --deep reads",
        ),
    ),
)
