"""Row filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from pyiceberg.expressions import BooleanExpression, In

# PyIceberg's own signature is hidden from type checkers by the model class it is declared in.
_in = cast(Callable[[str, set[str]], BooleanExpression], In)


def among(column: str, values: Iterable[str]) -> BooleanExpression:
    """Return the filter for rows whose text column has one of some values; no values match nothing."""
    return _in(column, set(values))
