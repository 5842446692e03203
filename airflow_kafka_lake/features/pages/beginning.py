"""What pages say before there is anything to show: how a ledger, and a pipeline in it, begin."""

from __future__ import annotations

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import KafkaLakeError, LedgerSchemaError

FIRST_PLAN = (
    "A pipeline appears when it is planned for the first time: by a Dag with kafka_lake_ingest, by the Dag "
    f"kafka_lake_manual, or on the command line with {remedies.plan('FILE.toml')}."
)


def missing(place: str | None = None) -> LedgerSchemaError:
    """Return the refusal where no ledger was made yet; `place` is for those who may know where that is."""
    where = f" at {place}" if place else ""
    return LedgerSchemaError(
        f"there is no ledger{where} yet: the first plan makes one in SQLite, and {remedies.upgrade_ledger()} makes one "
        "in any database",
        found=None,
    )


def is_missing(error: KafkaLakeError) -> bool:
    """Return whether the ledger was not made yet; one that does not answer, or has another schema, is there."""
    return isinstance(error, LedgerSchemaError) and error.facts.get("found", ...) is None
