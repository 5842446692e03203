"""The columns of decoded values: Spark's DDL of JSON values, and the changes of a table that is to hold some columns.

Both are known before any job, so that a mistake is found by `plan`. Types are in the JSON form that Spark gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from airflow_kafka_lake.core.errors import RefusedError

DEEPEST = 64
"""How many types may stand inside each other: readers of tables go through them by recursion."""

MOST_DIGITS = 38
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:])|(\S))")
_TYPES = {
    **dict.fromkeys(("BOOLEAN",), "boolean"),
    **dict.fromkeys(("TINYINT", "BYTE"), "byte"),
    **dict.fromkeys(("SMALLINT", "SHORT"), "short"),
    **dict.fromkeys(("INT", "INTEGER"), "integer"),
    **dict.fromkeys(("BIGINT", "LONG"), "long"),
    **dict.fromkeys(("FLOAT", "REAL"), "float"),
    **dict.fromkeys(("DOUBLE",), "double"),
    **dict.fromkeys(("DATE",), "date"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP_NTZ",), "timestamp_ntz"),
    **dict.fromkeys(("STRING",), "string"),
    **dict.fromkeys(("BINARY",), "binary"),
}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_TEXTS = frozenset({"VARCHAR", "CHAR", "CHARACTER", "TEXT"})
_KNOWN = "BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ"


class DdlError(ValueError):
    """A schema that is no DDL, or that a table cannot have; its text names the place and the remedy."""


def columns(text: str) -> dict[str, Any]:
    """Return the columns as Spark's own JSON form of a schema. Raises DdlError.

    `NOT NULL` and comments are read and left out: a field that a value lacks is null.
    """
    return struct(types(text))


def types(text: str) -> dict[str, Any]:
    """Return the type of each column, by name. Raises DdlError."""
    read = _Reader(text)
    found = read.fields("", 1)
    read.end()
    return found


def struct(of: Mapping[str, Any]) -> dict[str, Any]:
    """Return the struct of some fields, by name."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in of.items()]
    return {"type": "struct", "fields": fields}


def refused_name(name: str) -> str | None:
    """Return why no column of a table can have a name, None where it can."""
    if not name.strip() or name != name.strip():
        return "begins or ends with a space, or is empty"
    if len(name) > 128:
        return "is longer than 128 characters"
    if found := next((item for item in name if item in ".`'\"\\" or not item.isprintable()), None):
        return f"has the character {found!r}"
    return None


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_quoted: bool = False
    is_string: bool = False


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise DdlError(f"{self._tokens[self._at].text!r} is not understood after {self._before()}")

    def fields(self, above: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            name, kind = self._field(above, depth)
            if name.lower() in map(str.lower, found):
                raise DdlError(f"{above}{name} stands twice: columns differ by more than upper and lower case")
            found[name] = kind
            if not self._takes(","):
                return found

    def _field(self, above: str, depth: int) -> tuple[str, Any]:
        token = self._next("a name")
        if token.is_string or (not token.is_quoted and not re.fullmatch(r"\w+", token.text)):
            raise DdlError(f"{token.text!r} is no name; one with other characters than letters, digits and _ needs `…`")
        name = token.text
        if problem := refused_name(name):
            raise DdlError(f"{above}{name} {problem}, so no table has such a column: leave it out")
        self._takes(":")
        kind = self._type(f"{above}{name}", depth)
        if self._takes("NOT") and not self._takes("NULL"):
            raise DdlError(f"after {above}{name} NOT stands without NULL")
        if self._takes("COMMENT"):
            if not self._next("a comment").is_string:
                raise DdlError(f"the comment of {above}{name} needs quotes")
            while self._at < len(self._tokens) and self._tokens[self._at].is_string:
                self._at += 1
        return name, kind

    def _type(self, path: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise DdlError(f"{path} is more than {DEEPEST} types deep")
        word = self._next(f"the type of {path}").text.upper()
        if not re.fullmatch(r"\w+", word):
            raise DdlError(
                f"behind {path} stands {word!r} where its type should be; a name with other characters than letters, "
                "digits and _ needs `…`"
            )
        if word in {"STRUCT", "ARRAY", "MAP"}:
            self._wants("<", path)
            found = self._holding(word, path, depth + 1)
            self._wants(">", path)
            return found
        numbers = self._numbers(path) if self._takes("(") else ()
        if word in _DECIMALS:
            return self._decimal(path, numbers)
        if word in _TYPES and not numbers:
            return _TYPES[word]
        written = f"{word}({','.join(map(str, numbers))})" if numbers else word
        use = "use STRING" if word in _TEXTS else f"use {_KNOWN}, ARRAY<…>, MAP<STRING, …> or STRUCT<…>"
        raise DdlError(f"{path} is {written}, which no table of the lake has: {use}")

    def _holding(self, word: str, path: str, depth: int) -> dict[str, Any]:
        if word == "STRUCT":
            return struct(self.fields(f"{path}.", depth))
        if word == "ARRAY":
            return {"type": "array", "elementType": self._type(f"{path}[]", depth), "containsNull": True}
        if (key := self._type(f"{path}.key", depth)) != "string":
            raise DdlError(f"{path} is a MAP with keys of type {key}: in JSON every key is a STRING")
        self._wants(",", path)
        kind = self._type(f"{path}[]", depth)
        return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}

    def _decimal(self, path: str, numbers: tuple[int, ...]) -> str:
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])[:2]
        if len(numbers) > 2 or not 1 <= precision <= MOST_DIGITS or scale > precision:
            raise DdlError(
                f"{path} is a decimal of ({', '.join(map(str, numbers))}): it has 1 to {MOST_DIGITS} digits, and of "
                "these not more behind the point"
            )
        return f"decimal({precision},{scale})"

    def _numbers(self, path: str) -> tuple[int, ...]:
        found = []
        while True:
            text = self._next("a number").text
            if not re.fullmatch(r"[0-9]{1,9}", text):
                raise DdlError(f"the type of {path} has {text!r} for a number")
            found.append(int(text))
            if not self._takes(","):
                self._wants(")", path)
                return tuple(found)

    def _next(self, what: str) -> _Token:
        if self._at == len(self._tokens):
            raise DdlError(f"{what} is missing at the end, after {self._before()}")
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, text: str) -> bool:
        here = self._tokens[self._at] if self._at < len(self._tokens) else None
        if here is None or here.is_quoted or here.is_string or here.text.upper() != text:
            return False
        self._at += 1
        return True

    def _wants(self, text: str, path: str) -> None:
        if not self._takes(text):
            found = repr(self._tokens[self._at].text) if self._at < len(self._tokens) else "the end"
            raise DdlError(f"the type of {path} needs {text!r} where {found} stands")

    def _before(self) -> str:
        return repr(" ".join(token.text for token in self._tokens[max(0, self._at - 3) : self._at]))


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        assert found is not None
        at = found.end()
        quoted, string, word, sign, other = found.groups()
        if quoted is not None:
            yield _Token(quoted.replace("``", "`"), is_quoted=True)
        elif string is not None:
            yield _Token(string, is_string=True)
        else:
            yield _Token(word or sign or other)


# The changes of a table.

_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""The types whose names in DDL are others than in JSON, from the narrowest to the widest."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def changes(table: Mapping[str, Any], wanted: Mapping[str, Any], whose: str) -> list[str]:
    """Return the clauses of `ALTER TABLE …` that let the table hold some columns; RefusedError when none can.

    A table widens int to bigint, float to double and a decimal's precision; nested fields are added like columns. Each
    clause is a commit of the table, so one adds all that is missing, and one widens.
    """
    found = list(_changes(table, wanted, "", whose))
    added = ", ".join(f"{path} {ddl(kind)}" for path, kind, is_there in found if not is_there)
    widened = ", ".join(f"{path} TYPE {ddl(kind)}" for path, kind, is_there in found if is_there)
    return [f"ADD COLUMNS ({added})"] * bool(added) + [f"ALTER COLUMN {widened}"] * bool(widened)


def _changes(there: Any, wanted: Any, path: str, whose: str) -> Iterator[tuple[str, Any, bool]]:
    """Yield the columns that are not as wanted: path, type, and whether there is one to widen."""
    match there, wanted:
        case {"fields": _}, {"fields": _}:
            known = {name.lower(): kind for name, kind in reversed(fields_of(there))}
            for name, kind in fields_of(wanted):
                here = f"{path}.{quoted(name)}".lstrip(".")
                if name.lower() in known:
                    yield from _changes(known[name.lower()], kind, here, whose)
                else:
                    yield here, kind, False
        case {"elementType": mine}, {"elementType": theirs}:
            yield from _changes(mine, theirs, f"{path}.element", whose)
        case {"keyType": key, "valueType": mine}, {"keyType": other, "valueType": theirs} if key == other:
            yield from _changes(mine, theirs, f"{path}.value", whose)
        case str(), str() if _holds(there, wanted):
            pass
        case str(), str() if _holds(wanted, there):
            yield path, wanted, True
        case _:
            raise RefusedError(
                f"column {path.replace('`', '')} is {ddl(there)} in the table and {ddl(wanted)} in {whose}: a column "
                "is widened, never changed into another type. Keep its type, land in another table, or drop the "
                "column and decode the rows again"
            )


def fields_of(struct: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a struct: name and type."""
    return list(map(itemgetter("name", "type"), struct["fields"]))


def leaves(struct: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields that are no structs themselves."""
    for name, kind in fields_of(struct):
        inside = leaves(kind) if isinstance(kind, Mapping) and "fields" in kind else [()]
        yield from ((name, *path) for path in inside)


def _holds(wide: str, narrow: str) -> bool:
    """Return whether every value of one type is one of the other, as a table widens its columns."""
    if (one := _DECIMAL.fullmatch(wide)) and (other := _DECIMAL.fullmatch(narrow)):
        return one[2] == other[2] and int(one[1]) >= int(other[1])
    if wide in _NAMES and narrow in _NAMES:
        return [*_NAMES].index(wide) >= [*_NAMES].index(narrow)
    return wide == narrow or (wide, narrow) == ("double", "float")


def refused(kind: Any, depth: int = 0) -> str | None:
    """Return why a type is none that the table, its files and every reader of the table take; None where it is."""
    if depth > DEEPEST:
        return f"is more than {DEEPEST} types deep"
    match kind:
        case {"fields": _}:
            return _refused_struct(fields_of(kind), depth)
        case {"elementType": inner}:
            return refused(inner, depth + 1)
        case {"keyType": key, "valueType": inner}:
            keys = refused(key, depth + 1) if isinstance(key, str) else f"has keys of type {ddl(key)}"
            return keys or refused(inner, depth + 1)
    if (found := _DECIMAL.fullmatch(kind)) and int(found[1]) > MOST_DIGITS:
        return f"has more than {MOST_DIGITS} digits"
    use = ": use STRING" if kind.startswith(("char(", "varchar(")) else ""
    return None if found or kind in _TYPES.values() else f"is {ddl(kind)}, which no table of the lake has{use}"


def _refused_struct(fields: Sequence[tuple[str, Any]], depth: int) -> str | None:
    seen: dict[str, str] = {}
    for name, inner in fields:
        if problem := refused_name(name):
            return f"has a field {name!r} that {problem}"
        if name.lower() in seen:
            return f"has fields {seen[name.lower()]} and {name}, which are one to SQL"
        seen[name.lower()] = name
        if problem := refused(inner, depth + 1):
            return f"has a field {name} that {problem}"
    return None if fields else "is a struct without fields"


def ddl(kind: Any) -> str:
    """Return a type as DDL, its names quoted."""
    match kind:
        case {"fields": _}:
            return f"struct<{', '.join(f'{quoted(name)}: {ddl(inner)}' for name, inner in fields_of(kind))}>"
        case {"elementType": inner}:
            return f"array<{ddl(inner)}>"
        case {"keyType": key, "valueType": inner}:
            return f"map<{ddl(key)}, {ddl(inner)}>"
    return _NAMES.get(kind, str(kind))


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it holds."""
    return f"`{name.replace('`', '``')}`"
