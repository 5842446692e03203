"""Frozen values whose form in JSON is their fields: written as they are, and read by the types of the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from itertools import repeat
from types import UnionType
from typing import Any, Self, cast, get_args, get_origin, get_type_hints


class Document:
    """The base of such a dataclass; its fields are plain, enums, tuples, or have a form in JSON themselves."""

    __slots__ = ()
    younger = frozenset[str]()
    """Fields that came later, left out where they are None: older values keep their form."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored, or travels."""
        found = {item.name: _written(getattr(self, item.name)) for item in fields(cast("Any", self))}
        return {name: value for name, value in found.items() if value is not None or name not in self.younger}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read that form; KeyError with the field that it lacks, or else with one that is not there."""
        types, given = _types(cls), {**dict.fromkeys(cls.younger), **data}  # type: ignore[arg-type]
        return cls(**{name: _read(types[name], given[name]) for name in dict.fromkeys((*types, *given))})


_types = cache(get_type_hints)


def _written(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    return list(map(_written, value)) if isinstance(value, tuple) else value


def _read(kind: Any, value: Any) -> Any:
    """Read a value of a type; `X | None` is that of X."""
    if value is None:
        return None
    kind = get_args(kind)[0] if isinstance(kind, UnionType) else kind
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        return tuple(map(_read, repeat(first) if others == [...] else (first, *others), value))
    if hasattr(kind, "from_json"):
        return kind.from_json(value)
    if issubclass(kind, tuple):
        return kind(*value)
    return kind(value) if issubclass(kind, Enum) else value
