"""What people watch and steer: how far attempts are, what is paused, a plan's Dag, and who tells of moved watermarks.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from airflow_kafka_lake.adapters.sql_ledger.migrations import parts

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns and tables; what is on record has nothing in them, but for a plan's Dag."""
    _progress()
    _pauses()
    _planners()
    _deliveries()


def _progress() -> None:
    numbers = ("rows_done", "rows_expected", "bytes_done", "bytes_expected")
    columns: list[sa.Column[Any]] = [parts.text("step", 20, null=True)]
    columns += [parts.big(name, null=True) for name in numbers]
    columns += [parts.time(name, null=True) for name in ("step_at", "progress_at")]
    for column in columns:
        op.add_column("kafka_lake_attempt", column)


def _pauses() -> None:
    parts.table(
        "pause",
        parts.text("id"),
        parts.text("pipeline"),
        parts.text("plan", null=True),
        parts.text("reason", None),
        parts.text("actor", None),
        parts.time("at"),
        sa.PrimaryKeyConstraint("id"),
        parts.to("plan"),
    )
    op.create_index("kafka_lake_pause_by_pipeline", "kafka_lake_pause", ["pipeline"])


def _planners() -> None:
    """Add each plan's Dag, which its actor `airflow:DAG/RUN/TASK` names."""
    op.add_column("kafka_lake_plan", parts.text("dag", 250, null=True))
    plan = sa.table("kafka_lake_plan", sa.column("actor", sa.Text), sa.column("dag", sa.Text))
    named = sa.func.substr(plan.c.actor, len("airflow:") + 1)
    if op.get_bind().dialect.name == "sqlite":
        dag = sa.func.substr(named, 1, sa.func.instr(named, "/") - 1)
    else:
        dag = sa.func.split_part(named, "/", 1)
    op.execute(sa.update(plan).where(plan.c.actor.like("airflow:_%/_%")).values(dag=dag))
    op.create_index("kafka_lake_plan_by_dag", "kafka_lake_plan", ["pipeline", "dag"])


def _deliveries() -> None:
    delivery: tuple[sa.Column[Any], ...] = (
        parts.big("through", null=True),
        parts.text("lease_holder", None, null=True),
        parts.time("lease_until", null=True),
    )
    for column in delivery:
        op.add_column("kafka_lake_notified", column)
