"""The form in JSON that values have by the types of their fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

import pytest

from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream

pytestmark = pytest.mark.unit


class Colour(StrEnum):
    """A choice."""

    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(Document):
    """A value within another one."""

    colour: Colour


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Document):
    """A value with a field of each kind."""

    name: str
    most: int | None
    inner: Inner | None
    inners: tuple[Inner, ...]
    slices: tuple[Slice, ...]
    epochs: tuple[tuple[Stream, int], ...]
    later: str | None = None
    younger = frozenset({"later"})


STREAM = Stream("orders", "a" * 22, 0)
FULL = Outer(
    name="x",
    most=3,
    inner=Inner(colour=Colour.RED),
    inners=(Inner(colour=Colour.RED),),
    slices=(Slice(STREAM, OffsetRange(0, 5)),),
    epochs=((STREAM, 7),),
    later="y",
)
BARE = Outer(name="x", most=None, inner=None, inners=(), slices=(), epochs=())


@pytest.mark.parametrize("value", [FULL, BARE])
def test_value_is_read_as_it_was_written(value: Outer) -> None:
    """Tuples of values too, each with its own type."""
    assert Outer.from_json(json.loads(json.dumps(value.to_json()))) == value


def test_form_is_plain() -> None:
    """No enum, tuple or value of ours is in it."""
    assert FULL.to_json() == {
        "name": "x",
        "most": 3,
        "inner": {"colour": "red"},
        "inners": [{"colour": "red"}],
        "slices": [["orders", "a" * 22, 0, 0, 5]],
        "epochs": [[["orders", "a" * 22, 0], 7]],
        "later": "y",
    }
    assert type(FULL.to_json()["inner"]["colour"]) is str


def test_only_a_younger_field_is_left_out_where_it_is_none() -> None:
    """The form of a value from before there was the field is the same."""
    assert BARE.to_json().keys() == FULL.to_json().keys() - {"later"}
    assert BARE.to_json()["most"] is None


@pytest.mark.parametrize("wrong", [{"name"}, {"most"}, {"inner"}])
def test_form_that_lacks_a_field_is_no_value(wrong: set[str]) -> None:
    """Nothing is guessed, also where the field has a default in the code."""
    form = {key: value for key, value in FULL.to_json().items() if key not in wrong}
    for beside in ({}, {"unheard": 1}):
        with pytest.raises(KeyError, match=min(wrong)):
            Outer.from_json(beside | form)


def test_form_with_another_field_is_no_value() -> None:
    """A newer version means something by it."""
    with pytest.raises(KeyError, match="unheard"):
        Outer.from_json(FULL.to_json() | {"unheard": 1})
    with pytest.raises(ValueError, match="blue"):
        Inner.from_json({"colour": "blue"})
