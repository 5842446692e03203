"""What Spark's JSON reader takes and gets wrong, or never ends to read: such a value does not fit its schema.

Each test looks at the text first, which is cheap, and asks for the field itself only where the text looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_FAR = r"[eE][+-]?[0-9]{4,}"
"""An exponent beyond every decimal: Spark would write out all its digits, for minutes or until memory ends."""

_FAR_NUMBER = rf"[\[:,\s]-?[0-9]+(?:\.[0-9]+)?{_FAR}\s*[,\]}}]"
_FAR_TEXT = rf':\s*"[^"]*[0-9.]{_FAR}\s*"'
_GROUPED = r':\s*"[^"]*[0-9],[^"]*"'
_CLOCK = r':\s*"\s*T?[0-9]{1,2}:[0-9]'
_NAMED_INFINITE = "Inf|INF"


def alone(text: Column) -> Column:
    """Return whether a text that begins with a JSON value has nothing behind it; Spark leaves what follows the first.

    As an element of an array it makes one, and two with another behind it: a bracket that closes the array too early
    makes the same of both.
    """
    from pyspark.sql import functions as f

    one = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1
    two = f.json_array_length(f.concat(f.lit("["), text, f.lit(",0]"))) == 2
    return f.coalesce(one & two, f.lit(False))


def quirks(text: Column, schema: StructType) -> Column:
    """Return whether Spark must not read a text: numbers without end, `1,2` for twelve, a clock's time as today's."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DecimalType, TimestampNTZType, TimestampType

    found = [f.lit(False)]
    if any(isinstance(kind, DecimalType) for kind in _inside(schema)):
        # Only what is outside of strings is a number: without escaped characters, a string ends at the next quote.
        bare = f.regexp_replace(f.regexp_replace(text, r"\\.", ""), '"[^"]*"', '""')
        found.append(text.rlike(_FAR_NUMBER) & bare.rlike(_FAR_NUMBER))
    for path, kind in _paths(schema, "$"):
        field = f.get_json_object(text, path)
        if isinstance(kind, DecimalType):
            found.append((text.rlike(_FAR_TEXT) | text.rlike(_GROUPED)) & field.rlike(rf",|{_FAR}"))
        elif isinstance(kind, TimestampType | TimestampNTZType):
            found.append(text.rlike(_CLOCK) & field.rlike(r"^\s*T?[0-9]{1,2}:"))
    return f.coalesce(_any(found), f.lit(False))


def out_of_bounds(value: Column, kind: DataType, text: Column) -> Column:
    """Return whether what was read is no number or time any more: too large, or of no year that has four digits
    (milliseconds that were taken for seconds)."""
    from pyspark.sql import functions as f

    return f.coalesce(_outside(value, kind, text.rlike(_NAMED_INFINITE)), f.lit(False))


def _outside(value: Column, kind: DataType, named: Column) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    def inside(of: DataType) -> Callable[[Column], Column]:
        return lambda item: f.coalesce(_outside(item, of, named), f.lit(False))

    match kind:
        case t.StructType():
            return _any([inside(field.dataType)(value.getField(field.name)) for field in kind.fields])
        case t.ArrayType():
            return f.exists(value, inside(kind.elementType))
        case t.MapType():
            return f.exists(f.map_values(value), inside(kind.valueType))
        case t.FloatType() | t.DoubleType():
            return ~named & (f.abs(value) == float("inf"))
        case t.DateType() | t.TimestampType() | t.TimestampNTZType():
            return ~f.year(value).between(1, 9999)
        case _:
            return f.lit(False)


def _any(found: list[Column]) -> Column:
    return reduce(or_, found)


def _inside(kind: Any) -> Iterator[DataType]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield kind
    inner = [field.dataType for field in kind.fields] if isinstance(kind, StructType) else []
    inner += [kind.elementType] if isinstance(kind, ArrayType) else []
    inner += [kind.valueType] if isinstance(kind, MapType) else []
    for item in inner:
        yield from _inside(item)


def _paths(schema: StructType, above: str) -> Iterator[tuple[str, DataType]]:
    """Name the fields that are reached without going through lists and maps."""
    from pyspark.sql.types import StructType

    for field in schema.fields:
        path = f"{above}['{field.name}']"
        if isinstance(field.dataType, StructType):
            yield from _paths(field.dataType, path)
        elif "'" not in field.name:
            yield path, field.dataType
