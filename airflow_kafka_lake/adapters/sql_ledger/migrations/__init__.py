"""Alembic revisions of the ledger's schema, run by `kafka-lake db upgrade`."""
