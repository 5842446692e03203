"""Amounts, times and states as people read them: numbers with their noun, bytes and seconds with a unit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

NAMED = 5
"""How many items a sentence names; more are counted."""
FEW = 3
"""How many of them where each takes half a line."""

_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB", "ZB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WORDS = {"committed": "landed", "commit": "land", "revoke": "cancel or hold"}


def word_of(state: str) -> str:
    """Return a state, or an event of the history, for people: Kafka and databases commit too."""
    return _WORDS.get(state.lower(), state.lower())


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 wave", "1,000 waves"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def some(items: Iterable[object], most: int, noun: str = "", *, by: str = ", ") -> str:
    """Return the first items, and how many more there are: "a, b and 3 more ranges"."""
    every = [*items]
    rest, named = len(every) - most, by.join(map(str, every[:most]))
    return named if rest <= 0 else f"{named} and {count(rest, f'more {noun}') if noun else f'{rest:,} more'}"


def moment(at: datetime) -> str:
    """Return a time as people write it, in UTC and to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def size(number: int) -> str:
    """Return a number of bytes with a unit."""
    if number < 1000:
        return "1 byte" if number == 1 else f"{number:,} bytes"
    power = 1
    while power < len(_UNITS) and number >= 1000 ** (power + 1):
        power += 1
    return f"{number / 1000**power:,.1f} {_UNITS[power - 1]}"


def span(seconds: float) -> str:
    """Return a length of time in its two largest units, rounded to a whole number of the smaller one."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, (_MINUTE, "min"), (1, "s"))
    if (minutes := round(seconds / _MINUTE) * _MINUTE) < _DAY:
        return _two(minutes, (_HOUR, "h"), (_MINUTE, "min"))
    return _two(round(seconds / _HOUR) * _HOUR, (_DAY, "d"), (_HOUR, "h"))


def age(seconds: float | None) -> str:
    """Return an age of which only the least is known; nothing where not even that is."""
    if seconds is None:
        return ""
    return f"over {span(seconds)}" if seconds else "under 1 min"


def _two(whole: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    rest = whole % large[0] // small[0]
    return f"{whole // large[0]} {large[1]}" + (f" {rest} {small[1]}" if rest else "")
