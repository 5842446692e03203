"""Parts of the tables that migrations create. They must not change, because existing ledgers have them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SUMS = ("visible", "control", "aborted", "compacted", "skipped")


def table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    """Create a table of the ledger."""
    # AUTOINCREMENT: a number that was deleted (outbox) is never given again.
    return op.create_table(f"kafka_lake_{name}", *items, sqlite_autoincrement=True)


def text(name: str, length: int | None = 200, *, null: bool = False) -> sa.Column[str]:
    """Return a column of text; without a length of any."""
    return sa.Column(name, sa.Text() if length is None else sa.String(length), nullable=null)


def big(name: str, *, null: bool = False) -> sa.Column[int]:
    """Return a column of numbers of 64 bits."""
    return sa.Column(name, sa.BigInteger(), nullable=null)


def small(name: str, *, null: bool = False) -> sa.Column[int]:
    """Return a column of numbers of 32 bits."""
    return sa.Column(name, sa.Integer(), nullable=null)


def time(name: str, *, null: bool = False) -> sa.Column[object]:
    """Return a column of times."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=null)


def number(name: str) -> sa.Column[int]:
    """Return a column that the database counts up itself."""
    return sa.Column(name, NUMBER, autoincrement=True, nullable=False)


def interval() -> list[sa.schema.SchemaItem]:
    """Return the columns of a range of offsets that is not empty."""
    return [
        big("start_offset"),
        big("end_offset"),
        sa.CheckConstraint("start_offset >= 0 AND end_offset > start_offset"),
    ]


def one_of(column: str, words: tuple[str, ...]) -> sa.CheckConstraint:
    """Return the constraint that a column holds one of some words."""
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(word) for word in words)})")


def to(table: str, column: str | None = None) -> sa.ForeignKeyConstraint:
    """Return a reference to the id of another table, by the column of its name or another one."""
    return sa.ForeignKeyConstraint([column or table], [f"kafka_lake_{table}.id"])


def accounting(*, null: bool) -> list[sa.Column[int]]:
    """Return the columns of an accounting."""
    return [
        big("row_count", null=null),
        *(big(name, null=True) for name in ("first_offset", "last_offset")),
        *(big(name, null=null) for name in (*SUMS, "unexplained")),
    ]
