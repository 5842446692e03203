"""Avro schemas as trees of nodes, and the columns that a table has for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import types as t

from airflow_kafka_lake.core.ddl import DEEPEST, MOST_DIGITS

MISSING = object()
"""No default."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTED = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_TIMES = {
    f"{kind}-{unit}": (kind, per_second)
    for kind in ("timestamp", "local-timestamp")
    for unit, per_second in _PER_SECOND.items()
} | {"time-micros": ("time", 10**6)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT, _LONG = 31, 63
_MOST_EMPTY = 1_000_000
"""Items without bytes that one list may have: their number alone would take all memory."""

Logical = tuple[Any, ...]


class Unfit(ValueError):  # noqa: N818 - no error of the program: a quality of a value
    """A value is none of its schema, or none of the columns; `path` leads to the field."""

    def __init__(self, cause: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(cause)
        self.cause, self.path = cause, path

    def below(self, name: str) -> Unfit:
        """Return it as seen from the record above."""
        return Unfit(self.cause, (name, *self.path))

    def __str__(self) -> str:
        return f"field {'.'.join(self.path)}: {self.cause}" if self.path else self.cause


@dataclass(slots=True, eq=False, kw_only=True)
class AvroField:
    """A field of a record."""

    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: Any = MISSING


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """A type; a record may hold itself."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    items: Node | None = None
    fields: list[AvroField] = field(default_factory=list)
    branches: list[Node] = field(default_factory=list)

    @property
    def content(self) -> Node:
        """The items of a list or map."""
        assert self.items is not None
        return self.items

    def __str__(self) -> str:
        if self.logical is None:
            return f"{self.kind} {self.name}".strip()
        kind, *numbers = self.logical
        if kind == "decimal":
            return f"decimal({numbers[0]},{numbers[1]})"
        units = {per_second: unit for unit, per_second in _PER_SECOND.items()}
        return f"{kind}-{units[numbers[0]]}" if numbers else str(kind)


def parsed(text: str) -> Node:
    """Return a schema. Raises Unfit for one that Avro does not have."""
    try:
        return _Parser().node(json.loads(text), "", 0)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise error if isinstance(error, Unfit) else Unfit(f"it is no Avro schema ({type(error).__name__})") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def node(self, given: Any, space: str, depth: int) -> Node:  # noqa: C901, PLR0911 - one line for each kind
        if depth > 2 * DEEPEST:
            raise Unfit(f"it is more than {DEEPEST} types deep")
        if isinstance(given, str):
            return Node(kind=given) if given in _PRIMITIVES else self._known(given, space)
        if isinstance(given, list):
            return Node(kind="union", branches=[self.node(item, space, depth + 1) for item in given])
        kind = given["type"]
        if not isinstance(kind, str):
            return self.node(kind, space, depth + 1)
        if kind in {"record", "error", "enum", "fixed"}:
            return self._named_node(given, "record" if kind == "error" else kind, space, depth)
        if kind == "array":
            return Node(kind=kind, items=self.node(given["items"], space, depth + 1))
        if kind == "map":
            return Node(kind=kind, items=self.node(given["values"], space, depth + 1))
        if kind in _PRIMITIVES:
            return Node(kind=kind, logical=_logical(given, kind, 0))
        return self._known(kind, space)

    def _known(self, name: str, space: str) -> Node:
        found = self._named.get(full(name, space)) or self._named.get(name)
        if found is None:
            raise Unfit(f"it names {name}, which it does not have")
        return found

    def _named_node(self, given: Mapping[str, Any], kind: str, space: str, depth: int) -> Node:
        name = full(given["name"], given.get("namespace", space) or "")
        inside = name.rpartition(".")[0]
        aliases = tuple(full(item, inside) for item in given.get("aliases") or ())
        found = self._named[name] = Node(kind=kind, name=name, aliases=aliases)
        if kind == "enum":
            found.symbols, found.default = tuple(given["symbols"]), given.get("default")
        elif kind == "fixed":
            found.size = int(given["size"])
            found.logical = _logical(given, kind, found.size)
        else:
            found.fields = [
                AvroField(
                    name=item["name"],
                    node=self.node(item["type"], inside, depth + 1),
                    aliases=tuple(item.get("aliases") or ()),
                    default=item.get("default", MISSING),
                )
                for item in given["fields"]
            ]
        return found


def full(name: str, space: str) -> str:
    """Return a name with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def _logical(given: Mapping[str, Any], kind: str, size: int) -> Logical | None:
    """Return the logical type where it changes the meaning of a value; one that is not Avro's is none."""
    name = given.get("logicalType")
    if name == "decimal" and kind in {"bytes", "fixed"}:
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
            return None
        if kind == "fixed" and (not size or precision > int(math.log10(2) * (8 * size - 1))):
            return None
        return ("decimal", precision, scale)
    if kind == "int":
        return {"date": ("date",), "time-millis": ("time", 10**3)}.get(str(name))
    return _TIMES.get(str(name)) if kind == "long" else None


def named(record: Node) -> dict[str, Node]:
    """Return the types with names inside a record."""
    found: dict[str, Node] = {}

    def look(node: Node) -> None:
        if node.name in found:
            return
        if node.name:
            found[node.name] = node
        inner = [item.node for item in node.fields] + node.branches + ([node.items] if node.items else [])
        for item in inner:
            look(item)

    for item in record.fields:
        look(item.node)
    return found


def layout(record: Node, space: str) -> dict[str, Any]:
    """Return the schema of a record's bytes, its names inside a namespace, without all that only a reader needs."""
    seen: set[str] = set()

    def of(node: Node) -> Any:
        match node.kind:
            case "union":
                return [of(item) for item in node.branches]
            case "array":
                return {"type": "array", "items": of(node.content)}
            case "map":
                return {"type": "map", "values": of(node.content)}
        name = f"{space}.{node.name}"
        if not node.name or name in seen:
            return name if node.name else node.kind
        seen.add(name)
        fields = [{"name": item.name, "type": of(item.node)} for item in node.fields]
        more: dict[str, dict[str, Any]] = {
            "record": {"fields": fields},
            "enum": {"symbols": [*node.symbols]},
            "fixed": {"size": node.size},
        }
        return {"type": node.kind, "name": name, **more[node.kind]}

    found: dict[str, Any] = of(record)
    return found


# The columns


def row_of(schema: Node) -> Node:
    """Return the record that a schema's values are; a union of one record and null is one. Raises Unfit."""
    inner = [item for item in schema.branches if item.kind != "null"] if schema.kind == "union" else [schema]
    if len(inner) != 1 or inner[0].kind != "record":
        raise Unfit(f"its values are no records but {schema}, so they have no columns")
    return inner[0]


def column_types(record: Node) -> list[tuple[str, t.DataType]]:
    """Return the columns of a record by name: of Spark's reader, with substitutes where a table has no such type.

    A field of nulls alone is left out. Raises Unfit for a type that is too deep.
    """
    above = (record.name,)
    return [(item.name, kind) for item in record.fields if (kind := _type(item.node, above)) is not None]


def _type(node: Node, above: tuple[str, ...]) -> t.DataType | None:  # noqa: C901, PLR0911 - one case for each kind
    if len(above) > DEEPEST:
        raise Unfit(f"it is more than {DEEPEST} records deep")
    match node.kind:
        case "null":
            return None
        case "record":
            if node.name in above:
                return t.StringType()
            inside = (*above, node.name)
            fields = [(item.name, _type(item.node, inside)) for item in node.fields]
            found = [t.StructField(name, kind) for name, kind in fields if kind is not None]
            return t.StructType(found) if found else t.BooleanType()
        case "array":
            return t.ArrayType(_type(node.content, above) or t.BooleanType())
        case "map":
            return t.MapType(t.StringType(), _type(node.content, above) or t.BooleanType())
        case "union":
            inner = members(node)
            if isinstance(inner, Node):
                return _type(inner, above)
            return t.StructType(
                [t.StructField(f"member{i}", _type(item, above) or t.BooleanType()) for i, item in enumerate(inner)]
            )
        case _:
            return leaf_type(node)


def leaf_type(node: Node) -> t.DataType:
    """Return the column's type of a type without others inside."""
    match node.logical:
        case ("decimal", precision, scale):
            return t.DecimalType(precision, scale) if precision <= MOST_DIGITS else t.StringType()
        case ("date",):
            return t.DateType()
        case ("timestamp", per_second) if per_second < _PER_SECOND["nanos"]:
            return t.TimestampType()
        case ("local-timestamp", per_second) if per_second < _PER_SECOND["nanos"]:
            return t.TimestampNTZType()
    kinds: dict[str, t.DataType] = {
        "boolean": t.BooleanType(),
        "int": t.IntegerType(),
        "long": t.LongType(),
        "float": t.FloatType(),
        "double": t.DoubleType(),
        "bytes": t.BinaryType(),
        "fixed": t.BinaryType(),
        "string": t.StringType(),
        "enum": t.StringType(),
    }
    return kinds[node.kind]


_NULL = Node(kind="null")
_MERGED = {frozenset({"int", "long"}): Node(kind="long"), frozenset({"float", "double"}): Node(kind="double")}


def members(union: Node) -> Node | Sequence[Node]:
    """Return the one type of a union beside null (of two widths of numbers the wider), or the types of its members."""
    inner = [item for item in union.branches if item.kind != "null"]
    if len(inner) < 2:
        return inner[0] if inner else _NULL
    if len(inner) == 2 and not any(item.logical for item in inner):
        return _MERGED.get(frozenset(item.kind for item in inner)) or inner
    return inner
