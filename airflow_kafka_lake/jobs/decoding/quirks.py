"""Values that Spark's JSON reader takes and gets wrong, or never ends to read: they do not fit their schema.

Each test looks at the text first, which is cheap, and asks for the field itself only where the text looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

STRICT = {"allowSingleQuotes": "false", "maxStringLen": str(2**31 - 1)}
"""JSON as its standard has it, and texts of every length that a record can have."""

_FAR = r"[eE][+-]?[0-9]{4,}"
"""An exponent beyond every decimal: Spark would write out all its digits, for minutes or until memory ends."""

_FAR_NUMBER = rf"[\[:,\s]-?[0-9]+(?:\.[0-9]+)?{_FAR}\s*[,\]}}]"
_FAR_TEXT = rf':\s*"[^"]*[0-9.]{_FAR}\s*"'
_GROUPED = r':\s*"[^"]*[0-9],[^"]*"'
_CLOCK = r':\s*"\s*(?:T?[0-9]{1,2}:[0-9]|[0-9]{4}(?:-[0-9]{1,2})?\s*")'
_NO_DAY = r"^\s*(?:T?[0-9]{1,2}:|[0-9]{4}(?:-[0-9]{1,2})?\s*$)"
_ITEM_GROUPED = r'"[-+0-9.eE]*,[-+0-9.,eE]*"\s*[,\]}]'
_ITEM_FAR = rf'"[-+0-9.]*{_FAR}"\s*[,\]}}]'
_ITEM_CLOCK = r'"\s*(?:T?[0-9]{1,2}:[0-9][0-9:.]*\s*[-+A-Za-z0-9:/_]*|[0-9]{4}(?:-[0-9]{1,2})?\s*)"\s*[,\]}]'
_FAR_FLOAT = r"[0-9][eE]\+?[0-9]{3}"


def alone(text: Column) -> Column:
    """Return whether a text that begins with a JSON value has nothing behind it; Spark ignores the text after it.

    As an element of an array it makes one, and two with another behind it: a bracket that closes the array too early
    makes the same of both.
    """
    one = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1
    two = f.json_array_length(f.concat(f.lit("["), text, f.lit(",0]"))) == 2
    return f.coalesce(one & two, f.lit(False))


def quirks(text: Column, schema: t.StructType) -> Column:
    """Return whether Spark must not read a text: numbers without end, `1,2` for twelve, a clock's time as today's."""
    found = [f.lit(False)]
    if any(isinstance(kind, t.DecimalType) for kind in _inside(schema)):
        # Numbers stand outside of strings: without escaped characters, a string ends at the next quote.
        bare = f.regexp_replace(f.regexp_replace(text, r"\\.", ""), '"[^"]*"', '""')
        found.append(text.rlike(_FAR_NUMBER) & bare.rlike(_FAR_NUMBER))
    for path, kind in _paths(schema, "$"):
        field = f.get_json_object(text, path)
        if isinstance(kind, t.DecimalType):
            found.append((text.rlike(_FAR_TEXT) | text.rlike(_GROUPED)) & field.rlike(rf",|{_FAR}"))
        elif isinstance(kind, t.TimestampType | t.TimestampNTZType):
            found.append(text.rlike(_CLOCK) & field.rlike(_NO_DAY))
    for place, compound in _compounds(schema, "$"):
        field = f.get_json_object(text, place) if place else text
        inner = list(_inside(compound))
        odd = [_ITEM_GROUPED, _ITEM_FAR] if any(isinstance(item, t.DecimalType) for item in inner) else []
        odd += [_ITEM_CLOCK] if any(isinstance(item, t.TimestampType | t.TimestampNTZType) for item in inner) else []
        found += [text.rlike(each) & field.rlike(each) for each in odd]
    return f.coalesce(reduce(or_, found), f.lit(False))


def surrogates(text: Column) -> Column:
    """Return whether a text has an escaped half of a character, which is no text: Spark would write a question mark."""
    half = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    whole = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    unpaired = f.regexp_replace(f.regexp_replace(text, r"\\\\", "-"), whole, "")
    return text.rlike(half) & unpaired.rlike(half)


@dataclass(frozen=True, slots=True)
class Flaw:
    """A fault that a field may have once it was read; `test` takes the column that holds it."""

    path: str
    cause: str
    test: Callable[[Column], Column]

    def inside(self, name: str, reach: Callable[[Column], Column]) -> Flaw:
        """Return it as seen from the struct above."""
        return Flaw(f"{name}.{self.path}".rstrip("."), self.cause, lambda column: self.test(reach(column)))

    def among(self, items: Callable[[Column], Column]) -> Flaw:
        """Return it as one of any item."""

        def some(column: Column) -> Column:
            return f.exists(items(column), lambda item: f.coalesce(self.test(item), f.lit(False)))

        return Flaw(self.path, self.cause, some)


def reason(flaws: Iterable[Flaw], value: Column) -> Column:
    """Return the first flaw of a value in words, or null."""
    words = [(item, f"field {item.path}: {item.cause}") for item in flaws]
    return f.coalesce(*[f.when(item.test(value), f.lit(text)) for item, text in words], f.lit(None).cast("string"))


def bounds(kind: t.DataType, is_named: Column, is_far: Column) -> list[Flaw]:
    """Return the flaws of numbers and times that were read from JSON: too large, or of no year that has four digits
    (milliseconds that were taken for seconds). `is_named`: the text names an infinite number; `is_far`: it may have a
    number that is beyond every other."""

    def of_leaf(leaf: t.DataType) -> list[Flaw]:
        match leaf:
            case t.FloatType() | t.DoubleType():
                return [Flaw("", "the number is too large", lambda column: ~is_named & (f.abs(column) == float("inf")))]
            case t.StringType():
                # A number in a column of texts is written anew.
                return [Flaw("", "the number is too large", lambda column: is_far & column.rlike('"-?Infinity"|"NaN"'))]
        return times(leaf)

    return _flaws(kind, of_leaf)


def _flaws(kind: Any, of_leaf: Callable[[t.DataType], list[Flaw]]) -> list[Flaw]:
    """Return the flaws of all types without others inside that a type has, as seen from the whole."""
    match kind:
        case t.StructType():
            return [
                flaw.inside(field.name, lambda column, name=field.name: column.getField(name))  # type: ignore[misc]
                for field in kind.fields
                for flaw in _flaws(field.dataType, of_leaf)
            ]
        case t.ArrayType():
            return [flaw.among(lambda column: column) for flaw in _flaws(kind.elementType, of_leaf)]
        case t.MapType():
            return [flaw.among(f.map_values) for flaw in _flaws(kind.valueType, of_leaf)]
    return of_leaf(kind)


_LONG_NUMBER = r"[:,\[\s]-?(?:[0-9]{13}|[0-9]{3}\s*[,}\]])"


def wrapped(text: Column, schema: t.StructType) -> Column:
    """Return which number of a text Spark has cut to the bits of its column, in words, or null: seconds since 1970
    become microseconds without a look at their size, and so do bytes up to 255."""
    found = _flaws(schema, _wrapping)
    if not found:
        return f.lit(None).cast("string")
    # Parsed once, for all fields.
    again = f.array(f.from_json(text, _whole(schema), STRICT))
    return f.when(text.rlike(_LONG_NUMBER), f.element_at(f.transform(again, lambda item: reason(found, item)), 1))


def _whole(kind: Any) -> Any:
    """Return a type with texts for the numbers that may be cut."""
    match kind:
        case t.StructType():
            return t.StructType([t.StructField(item.name, _whole(item.dataType)) for item in kind.fields])
        case t.ArrayType():
            return t.ArrayType(_whole(kind.elementType))
        case t.MapType():
            return t.MapType(kind.keyType, _whole(kind.valueType))
        case t.TimestampType() | t.ByteType():
            return t.StringType()
    return kind


def _wrapping(leaf: t.DataType) -> list[Flaw]:
    match leaf:
        case t.TimestampType():
            far_away = "its time is not within the years 1 to 9999"
            return [Flaw("", far_away, lambda column: column.rlike("^-?[0-9]{13,}$"))]
        case t.ByteType():
            return [Flaw("", "the number is too large", lambda column: ~column.try_cast("int").between(-128, 127))]
    return []


def far(text: Column) -> Column:
    """Return whether a text may have a number that is beyond every other, or none."""
    return text.rlike(rf"{_FAR_FLOAT}|[:,\[\s]-?(?:NaN|INF|Infinity)")


def times(kind: t.DataType) -> list[Flaw]:
    """Return the flaw of a time that no reader of the table can hold."""
    words = {t.DateType: "DATE", t.TimestampType: "TIMESTAMP", t.TimestampNTZType: "TIMESTAMP_NTZ"}.get(type(kind))
    if words is None:
        return []
    clock = ("", "") if words == "DATE" else (" 00:00:00", " 23:59:59.999999")
    first, last = f.expr(f"{words}'0001-01-01{clock[0]}'"), f.expr(f"{words}'9999-12-31{clock[1]}'")
    return [Flaw("", "its time is not within the years 1 to 9999", lambda column: ~column.between(first, last))]


def misfit(text: Column, read: Column, schema: t.StructType, name: str) -> Column:
    """Return the field of an object that did not become its column, and its kind instead; null where there is none."""
    return _Misfit(text, name).of(text, read, schema, ())


@dataclass(frozen=True, slots=True)
class _Misfit:
    whole: Column
    name: str

    def of(self, text: Column, read: Column, schema: t.StructType, above: tuple[str, ...]) -> Column:
        def fields(raw: Column) -> Column:
            found = [self._of_field(raw, read, field, above) for field in schema.fields]
            return f.coalesce(*found, f.lit(None).cast("string"))

        # Parsed once, for all fields of the object.
        raw = f.from_json(text, t.MapType(t.StringType(), t.StringType()), STRICT)
        return f.element_at(f.transform(f.array(raw), fields), 1)

    def _of_field(self, raw: Column, read: Column, field: t.StructField, above: tuple[str, ...]) -> Column:
        path = (*above, field.name)
        mine, value = f.try_element_at(raw, f.lit(field.name)), read.getField(field.name)
        where = "$" + "".join(f"['{name}']" for name in path)
        said = f.schema_of_variant(f.try_variant_get(f.try_parse_json(self.whole), where, "variant"))
        kind = field.dataType.simpleString()[:60]
        beside = f.lit(f", where {self.name} says {kind}")
        if kinds := _carriers(field.dataType):
            # The field is as JSON has it, and its content is none: a text that is no date, or 1.5 for a whole number.
            beside = f.when(said.rlike(f"^({kinds})$"), f.lit(f" that is no {kind} ({self.name})")).otherwise(beside)
        found = f.coalesce(f.substring(said, 1, 60), f.lit("another type"))
        wrong = f.concat(f.lit(f"field {'.'.join(path)}: "), found, beside)
        if isinstance(field.dataType, t.StructType):
            inner = self.of(mine, value, field.dataType, path)
            return f.when(mine.isNotNull() & ~mine.startswith("{"), wrong).when(mine.isNotNull(), inner)
        if isinstance(field.dataType, t.ArrayType | t.MapType):
            # Its items may be the misfit: it is read once more, alone.
            corrupt = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "c", **STRICT}
            alone = t.StructType([t.StructField("x", field.dataType), t.StructField("c", t.StringType())])
            again = f.from_json(f.concat(f.lit('{"x":'), mine, f.lit("}")), alone, corrupt)
            return f.when(mine.isNotNull() & (value.isNull() | again.getField("c").isNotNull()), wrong)
        return f.when(mine.isNotNull() & value.isNull(), wrong)


def _carriers(kind: t.DataType) -> str:
    """Return a pattern of the types in which JSON may have values of a column's type."""
    texts = ["STRING"] * isinstance(kind, t.DatetimeType | t.DecimalType | t.BinaryType)
    return "|".join([*texts, *["BIGINT", "DOUBLE", "DECIMAL.*"] * isinstance(kind, t.NumericType | t.TimestampType)])


def single(column: Column, kind: t.DataType) -> Column:
    """Return the column with each key of a map once: of a key that stands twice in a value, the last counts.

    It needs `spark.sql.mapKeyDedupPolicy` to be LAST_WIN."""
    if not any(isinstance(item, t.MapType) for item in _inside(kind)):
        return column
    match kind:
        case t.StructType():
            fields = [single(column.getField(item.name), item.dataType).alias(item.name) for item in kind.fields]
            return f.when(column.isNotNull(), f.struct(*fields))
        case t.ArrayType():
            return f.transform(column, lambda item: single(item, kind.elementType))
        case t.MapType():
            one = f.map_from_entries(f.map_entries(column))
            return f.transform_values(one, lambda _, item: single(item, kind.valueType))
    return column


def _inside(kind: Any) -> Iterator[t.DataType]:
    yield kind
    inner = [field.dataType for field in kind.fields] if isinstance(kind, t.StructType) else []
    inner += [kind.elementType] if isinstance(kind, t.ArrayType) else []
    inner += [kind.valueType] if isinstance(kind, t.MapType) else []
    for item in inner:
        yield from _inside(item)


def _compounds(schema: t.StructType, above: str) -> Iterator[tuple[str | None, t.DataType]]:
    """Name the lists and maps that are reached without going through others, and None for one that no path can name:
    there the whole text is looked at."""
    for field in schema.fields:
        path = None if "'" in field.name else f"{above}['{field.name}']"
        if isinstance(field.dataType, t.StructType) and path is not None:
            yield from _compounds(field.dataType, path)
        elif path is None or isinstance(field.dataType, t.ArrayType | t.MapType):
            yield path, field.dataType


def _paths(schema: t.StructType, above: str) -> Iterator[tuple[str, t.DataType]]:
    """Name the fields that are reached without going through lists and maps."""
    for field in schema.fields:
        path = f"{above}['{field.name}']"
        if isinstance(field.dataType, t.StructType):
            yield from _paths(field.dataType, path)
        elif "'" not in field.name:
            yield path, field.dataType
