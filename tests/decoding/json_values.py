"""JSON: columns, texts and versions drawn at random; Python's json says what a text means.

Texts are written by hand, so that they can have what no library would write: a key twice, half a character, numbers of
a thousand digits, text behind the object.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from airflow_kafka_lake.core.decoding import Decoding, Format
from tests.decoding.cases import EPOCH, NONE, Case, Draw, Drawn, Stage, column, entries, part, same_float

QUOTED = ("zip-code", "a b", "a.b", "ä", "it's", 'say "x"', "1st", "a`b", "$x", "a/b", "[0]")
"""Names inside a column that SQL must quote."""
WHOLE = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type: its name, its parts by name, and for a decimal how many digits there are behind the point."""

    name: str
    parts: tuple[tuple[str, Kind], ...] = ()
    digits: tuple[int, int] = (10, 0)

    def __str__(self) -> str:
        match self.name:
            case "STRUCT":
                inner = ", ".join(f"{_quoted(name)}: {kind}" for name, kind in self.parts)
                return f"STRUCT<{inner}>"
            case "ARRAY" | "MAP":
                key = "STRING, " if self.name == "MAP" else ""
                return f"{self.name}<{key}{self.parts[0][1]}>"
            case "DECIMAL":
                return f"DECIMAL({self.digits[0]},{self.digits[1]})"
        return self.name


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


SIMPLE = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
ODD: Mapping[str, tuple[str, ...]] = {
    "json: a type that the table does not have": (
        "VARCHAR(5)",
        "CHAR(3)",
        "INTERVAL DAY TO SECOND",
        "VARIANT",
        "VOID",
        "TIME",
        "INTERVAL YEAR TO MONTH",
        "STRUCT<>",
        "MAP<INT, INT>",
        "STRING COLLATE UNICODE_CI",
    ),
    "json: a small whole number": ("TINYINT", "SMALLINT"),
}


def _kind(draw: Draw, depth: int) -> Kind:
    if draw.chance(0.02):
        return Kind(draw.pick(draw.odd(ODD)))
    chosen = draw.random()
    if depth > 0 and chosen < 0.15:
        return Kind("STRUCT", tuple((name, _kind(draw, depth - 1)) for name in _names(draw, draw.randint(1, 3))))
    if depth > 0 and chosen < 0.35:
        return Kind(draw.pick(["ARRAY", "MAP"]), (("element", _kind(draw, depth - 1)),))
    if chosen < 0.5:
        precision = draw.randint(1, 38)
        return Kind("DECIMAL", digits=(precision, draw.randint(0, precision)))
    return Kind(draw.pick(SIMPLE))


def _names(draw: Draw, size: int) -> list[str]:
    found = draw.names(size)
    if draw.chance(0.1):
        draw.met.add("json: a name inside a column that SQL must quote")
        found[0] = draw.pick(QUOTED)
        if set("`.'\"") & set(found[0]):
            draw.met.add("json: a name that no path in a table can have")
    return found


def _columns(draw: Draw) -> tuple[tuple[str, Kind], ...]:
    return tuple((name, _kind(draw, 3)) for name in draw.names(draw.randint(1, 6), clash=0.04))


def _evolved(draw: Draw, columns: tuple[tuple[str, Kind], ...]) -> tuple[tuple[str, Kind], ...]:
    found = list(columns)
    match draw.pick(["add", "drop", "widen", "shuffle"]):
        case "add":
            found.append((f"n{draw.getrandbits(20):x}", _kind(draw, 2)))
        case "drop" if len(found) > 1:
            found.pop(draw.randrange(len(found)))
        case "widen":
            wider = {"INT": "BIGINT", "FLOAT": "DOUBLE"}
            found = [(name, Kind(wider.get(kind.name, kind.name), kind.parts, kind.digits)) for name, kind in found]
        case "shuffle":
            draw.shuffle(found)
    return tuple(found)


# Texts


class Texts:
    """Writes values of columns; `edges` is how often a part is at an edge."""

    def __init__(self, draw: Draw, edges: float) -> None:
        self.draw, self.edges = draw, edges

    def object(self, parts: tuple[tuple[str, Kind], ...]) -> str:
        draw = self.draw
        members = [(name, self.value(kind)) for name, kind in parts if draw.chance(0.85)]
        if draw.chance(0.2):
            members.append(("ignored", draw.pick(["1", '"x"', "[[]]", '{"a": {}}', "null"])))
        if self.at_edge():
            members += self._odd_members(parts)
        if draw.chance(0.3):
            draw.shuffle(members)
        space = draw.pick(["", " ", "\n\t"])
        return "{" + ",".join(f"{space}{_text(name)}:{space}{item}" for name, item in members) + space + "}"

    def _odd_members(self, parts: tuple[tuple[str, Kind], ...]) -> list[tuple[str, str]]:
        name, kind = self.draw.pick(parts)
        match self.draw.pick(["twice", "case", "deep", "long"]):
            case "twice":
                self.draw.met.add("json: a key twice")
                return [(name, self.value(kind))]
            case "case":
                return [(name.swapcase(), self.value(kind))]
            case "deep":
                return [("deep", "[" * 1500 + "]" * 1500)]
        return [("long", "9" * 1500)]

    def at_edge(self) -> bool:
        return self.draw.chance(self.edges)

    def value(self, kind: Kind) -> str:
        if self.draw.chance(0.05):
            return "null"
        if self.at_edge() and self.draw.chance(0.2):
            self.draw.met.add("json: a value of another type")
            return self.draw.pick(['"x"', "1", "1.5", "true", "[]", "{}", '""', "[1]", '{"a": 1}'])
        match kind.name:
            case "STRUCT":
                return self.object(kind.parts)
            case "ARRAY":
                return "[" + ",".join(self.value(kind.parts[0][1]) for _ in range(self.draw.randint(0, 3))) + "]"
            case "MAP":
                return self._map(kind.parts[0][1])
        return WRITERS.get(kind.name, lambda _, __: "null")(self, kind)

    def _map(self, kind: Kind) -> str:
        keys = ["a", "b", "ü", ""][: self.draw.randint(0, 4)]
        if keys and self.at_edge():
            self.draw.met.add("json: a key of a map twice")
            keys.append(keys[0])
        return "{" + ",".join(f"{_text(key)}:{self.value(kind)}" for key in keys) + "}"

    def string(self) -> str:
        if self.at_edge():
            odd = self.draw.pick(
                ['"\\ud83d"', '"\\udc00x"', '"\\ud83d\\ude00"', "1.10", "1e400", "true", "[1, 2]", '{"b":1}']
            )
            if odd.startswith('"\\ud'):
                self.draw.met.add("json: half a character")
            elif odd[0] != '"':
                self.draw.met.add("json: a value in a column of texts that is none")
            return odd
        return _text(self.draw.pick(["", "a", "ä€😀", 'a"b\\', "\0\n", "12:30]", "null", "x" * 300]))

    def whole(self, bits: int) -> str:
        bound = 2**bits
        if self.at_edge():
            return str(self.draw.pick([bound - 1, -bound, bound, -bound - 1, 0, 10**30, "-0", "1.0", "1e2", "1.5"]))
        return str(self.draw.randint(-100, 100))

    def decimal(self, kind: Kind) -> str:
        precision, scale = kind.digits
        number = Decimal(self.draw.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale, _context(80))
        if not self.at_edge():
            return self.draw.pick([f"{number:f}", f'"{number:f}"'])
        if self.draw.chance(0.1):
            self.draw.met.add("json: a decimal with a comma")
            return '"1,2"'
        return self.draw.pick(
            [
                f"{Decimal(10**precision).scaleb(-scale):f}",
                "1e40",
                "0.5",
                "-0",
                "0.05",
                "1e-60",
                '" 1"',
                "1E+2",
                '"NaN"',
                "123456789012345678901234567890.123456789",
                "1e600000000",
                f"{number:f}5",
            ]
        )

    def floating(self) -> str:
        if self.at_edge():
            odd = [
                '"NaN"',
                '"Infinity"',
                '"-Infinity"',
                "1e400",
                "-0.0",
                "5e-324",
                "1e39",
                "0.1",
                "NaN",
                '"-INF"',
                "1e-400",
                "123456789123456789",
                "16777217",
                "3.4028235677973366e38",
            ]
            return self.draw.pick(odd)
        return str(self.draw.randint(-1000, 1000) / 4)

    def day(self) -> str:
        if self.at_edge():
            if self.draw.chance(0.1):
                self.draw.met.add("json: a day that is a month or a year")
                return self.draw.pick(['"1970"', '"1970-02"'])
            return self.draw.pick(
                [
                    '"0001-01-01"',
                    '"9999-12-31"',
                    '"1582-10-10"',
                    '"1582-10-15"',
                    '"0000-01-01"',
                    '"10000-01-01"',
                    "20000",
                    '"20240101"',
                    '"2024-02-30"',
                    '"-0001-01-01"',
                    '"+12345-01-01"',
                    '"2024-1-1"',
                    '"1900-02-29"',
                ]
            )
        return f'"{date(1970, 1, 1) + timedelta(days=self.draw.randint(-20_000, 50_000))}"'

    def time(self, zones: tuple[str, ...] = ("Z", "+02:00", "")) -> str:
        if self.at_edge():
            return self.draw.pick(
                [
                    '"0001-01-01T00:00:00Z"',
                    '"9999-12-31T23:59:59.999999Z"',
                    '"10000-01-01T00:00:00Z"',
                    '"12:30"',
                    '"2024"',
                    '"2024-01"',
                    '"0001-01-01T00:00:00+18:00"',
                    '"9999-12-31T23:59:59-18:00"',
                    "1700000000",
                    "1700000000000",
                    "-1",
                    "1.5",
                    '"2024-02-30T00:00:00Z"',
                    '"2024-01-01T24:00:00Z"',
                    '"2024-01-01T00:00:60Z"',
                    '"2024-01-01"',
                    '"epoch"',
                    '"2024-01-01T00:00:00.1234567Z"',
                    '"1582-10-10T00:00:00Z"',
                    '"2024-01-01T00:00"',
                    '"0000-12-31T23:00:00Z"',
                    '"2024-06-01T00:00:00 Europe/Berlin"',
                    '"now"',
                    "253402300799",
                    "-62135596800",
                    "253402300800",
                    "18446744073710",
                ]
            )
        at = EPOCH + timedelta(microseconds=self.draw.randint(-(10**15), 4 * 10**15))
        return f'"{at.replace(tzinfo=None).isoformat()}{self.draw.pick(zones)}"'


WRITERS: Mapping[str, Callable[[Texts, Kind], str]] = {
    "BOOLEAN": lambda t, _: t.draw.pick(["true", "false", '"true"', "1"] if t.at_edge() else ["true", "false"]),
    "STRING": lambda t, _: t.string(),
    "VARCHAR(5)": lambda t, _: t.draw.pick(['"abcdefgh"', '"a"']),
    "CHAR(3)": lambda t, _: t.draw.pick(['"abcdefgh"', '"a"']),
    "DECIMAL": Texts.decimal,
    "FLOAT": lambda t, _: t.floating(),
    "DOUBLE": lambda t, _: t.floating(),
    "DATE": lambda t, _: t.day(),
    "TIMESTAMP": lambda t, _: t.time(),
    "TIMESTAMP_NTZ": lambda t, _: t.time(("",)),
    "BINARY": lambda t, _: t.draw.pick(['"AQI="', '""', *(['"AQI"', '"%"', '"A Q I="'] if t.at_edge() else [])]),
    **{name: lambda t, _, bits=bits: t.whole(bits) for name, bits in WHOLE.items()},  # type: ignore[misc]
}


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _context(digits: int) -> Any:
    with localcontext() as found:
        found.prec, found.rounding = digits, ROUND_HALF_UP
        return found.copy()


# What it means


@dataclass(frozen=True, slots=True)
class Members:
    """A JSON object with its keys as often as they are there; the last counts."""

    pairs: tuple[tuple[str, Any], ...]

    def last(self) -> dict[str, Any]:
        return dict(self.pairs)


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as it was written."""

    text: str


def meaning(data: bytes) -> Any:
    """Return the object by Python's json, NONE where it is none; numbers keep their digits."""
    try:
        text = data.decode("utf-8")
        found = json.loads(
            text,
            object_pairs_hook=lambda pairs: Members(tuple(pairs)),
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
        )
    except (ValueError, RecursionError):
        return NONE
    return found.last() if isinstance(found, Members) else NONE


class Agreement:
    """Compares an object with a row, by the columns that were asked for."""

    def __init__(self, columns: tuple[tuple[str, Kind], ...]) -> None:
        self.columns = columns

    def __call__(self, expected: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
        for name, kind in self.columns:
            want, have = expected.get(name), column(row, name)
            if not same(kind, want, have):
                yield f"{name} {kind} is {want!r:.200}, and lands as {have!r:.200}"


def same(kind: Kind, want: Any, have: Any) -> bool:
    """Return whether a part says what its text says."""
    if want is None or have is None:
        return want is None and have is None
    return READERS.get(kind.name, lambda _, __, have: isinstance(have, str))(kind, want, have)


def _struct(kind: Kind, want: Any, have: Any) -> bool:
    if not isinstance(want, Members) or not isinstance(have, dict):
        return False
    return all(same(inner, want.last().get(name), part(have, name)) for name, inner in kind.parts)


def _array(kind: Kind, want: Any, have: Any) -> bool:
    if not isinstance(want, list) or len(want) != len(have):
        return False
    return all(same(kind.parts[0][1], a, b) for a, b in zip(want, have, strict=True))


def _map(kind: Kind, want: Any, have: Any) -> bool:
    if not isinstance(want, Members):
        return False
    found, wanted = entries(have), want.last()
    return len(found) == len(wanted) and all(
        key in wanted and same(kind.parts[0][1], wanted[key], item) for key, item in found
    )


def _string(_: Kind, want: Any, have: Any) -> bool:
    if isinstance(want, str):
        return bool(want == have)
    found = meaning(b'{"x":' + have.encode() + b"}")
    return found is not NONE and _worth(found["x"]) == _worth(want)


def _worth(value: Any) -> Any:
    match value:
        case Number():
            return Decimal(value.text)
        case Members():
            return {key: _worth(item) for key, item in value.pairs}
        case list():
            return [_worth(item) for item in value]
    return value


def _number(want: Any) -> Decimal | None:
    try:
        return Decimal(want.text if isinstance(want, Number) else want)
    except (InvalidOperation, TypeError, ValueError):
        return None


def _whole(kind: Kind, want: Any, have: Any) -> bool:
    return isinstance(want, Number) and have == Decimal(want.text)


def _decimal(kind: Kind, want: Any, have: Any) -> bool:
    number = _number(want.strip() if isinstance(want, str) else want)
    if number is None or isinstance(want, bool) or number.adjusted() > 80:
        return False
    return bool(have == number.quantize(Decimal(1).scaleb(-kind.digits[1]), context=_context(200)))


def _floating(kind: Kind, want: Any, have: Any) -> bool:
    narrow = kind.name == "FLOAT"
    if isinstance(want, str):
        named = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf", "INF": "inf", "-INF": "-inf"}
        return want in named and same_float(float(named[want]), have)
    if not isinstance(want, Number):
        return False
    number = float(want.text)
    is_infinite = number in {float("inf"), float("-inf")} and want.text[-1].isdigit()
    return not is_infinite and (same_float(number, have, narrow=narrow) or (narrow and _near(want.text, have)))


def _near(text: str, have: Any) -> bool:
    """Return whether a number of 32 bits is one that is nearest to a text."""
    _, exponent = math.frexp(have)
    unit = Fraction(2) ** (max(exponent, -125) - 24)
    return math.isfinite(have) and abs(Fraction(text) - Fraction(have)) <= unit / 2


_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


def _date(_: Kind, want: Any, have: Any) -> bool:
    return isinstance(want, str) and _DAY.fullmatch(want) is not None and str(have) == want


_TIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<clock>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<part>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d{2}:\d{2}| [A-Z]\w+/[A-Z]\w+)?"
)


def _time(kind: Kind, want: Any, have: Any) -> bool:
    is_local = kind.name == "TIMESTAMP_NTZ"
    if not isinstance(have, datetime) or (have.tzinfo is None) != is_local:
        return False
    found = have.replace(tzinfo=UTC) if is_local else have.astimezone(UTC)
    if isinstance(want, Number):
        seconds = Decimal(want.text)
        return Decimal((found - EPOCH) // timedelta(microseconds=1)) == seconds * 10**6
    return isinstance(want, str) and found == _moment(want, is_local=is_local)


def _moment(text: str, *, is_local: bool) -> datetime | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(f"{match['day']}T{match['clock'] or '00:00'}")
        at += timedelta(microseconds=int((match["part"] or "0").ljust(6, "0")[:6]))
        zone = match["zone"] or "Z"
        if "/" in zone and not is_local:
            return at.replace(tzinfo=ZoneInfo(zone.strip())).astimezone(UTC)
        if zone != "Z" and not is_local:
            hours, minutes = int(zone[1:3]), int(zone[4:6])
            at -= timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    except (ValueError, OverflowError):
        return None
    return at.replace(tzinfo=UTC)


def _binary(_: Kind, want: Any, have: Any) -> bool:
    try:
        return bool(have == base64.b64decode(want))
    except (binascii.Error, TypeError, ValueError):
        return False


def _boolean(_: Kind, want: Any, have: Any) -> bool:
    return want is have


READERS: Mapping[str, Callable[[Kind, Any, Any], bool]] = {
    "STRUCT": _struct,
    "ARRAY": _array,
    "MAP": _map,
    "STRING": _string,
    "DECIMAL": _decimal,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "DATE": _date,
    "TIMESTAMP": _time,
    "TIMESTAMP_NTZ": _time,
    "BINARY": _binary,
    "BOOLEAN": _boolean,
    "VARCHAR(5)": _string,
    "CHAR(3)": _string,
    **dict.fromkeys(WHOLE, _whole),
}


# Topics


def drawn(number: int, seed: int, cases: int) -> Drawn:
    """Draw a topic with one or two versions of the columns that are asked for, and `cases` records."""
    draw = Draw(f"json {seed} {number}")
    versions = [_columns(draw)]
    if draw.chance(0.5):
        versions.append(_evolved(draw, versions[0]))
    peculiar = draw.noted()
    stages = []
    for columns in versions:
        asked = Decoding(format=Format.JSON, schema=", ".join(f"{_quoted(name)} {kind}" for name, kind in columns))
        records = tuple(_case(draw, columns) for _ in range(max(1, cases // len(versions))))
        stages.append(Stage(asked=asked, versions=(), cases=records, agrees=Agreement(columns)))
    said = tuple(stage.asked.schema or "" for stage in stages)
    return Drawn(name=f"json-{number}", stages=tuple(stages), peculiar=peculiar, versions=said)


def _case(draw: Draw, columns: tuple[tuple[str, Kind], ...]) -> Case:
    odd = [
        None,
        b"",
        b"null",
        b"[]",
        b"{}",
        b"{",
        b"\xff",
        b"{'a': 1}",
        b'{"a":1,}',
        b"\xef\xbb\xbf{}",
        b'{"x": "\xff"}',
        b"1",
        b'{"x": 1} {"x": 2}',
        b'{"x": 1}]',
        b'{"x": "\t"}',
        b"//c\n{}",
        b"{x: 1}",
        b'[{"x": 1}]',
        b" {} ",
    ]
    if draw.chance(0.06):
        value = draw.pick(odd)
        single = {"json: quotes that are single"} if value and b"'" in value else ()
        return Case(value=value, expected=NONE if value is None else meaning(value), peculiar=frozenset(single))
    edges = draw.pick([0.0, 0.05, 0.4])
    text = whole = Texts(draw, edges).object(columns)
    peculiar = draw.noted()
    if draw.chance(0.04):
        text = draw.pick([text + "x", text[:-1], text + " ", text + "}", text + ",{}"])
    if draw.chance(0.02):
        peculiar |= {"json: quotes that are single"}
        text = text.replace('"', "'")
    expected = meaning(text.encode())
    must = edges == 0.0 and text == whole and expected is not NONE
    return Case(value=text.encode(), expected=expected, must=must, peculiar=peculiar)
