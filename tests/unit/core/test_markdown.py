"""Texts for Airflow's page: whatever people and Kafka have named things, it is shown and never rendered."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.reports.plan import bullets, plain, table

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("a | b", r"a \| b"),
        ("[click](javascript:x)", r"\[click\](javascript:x)"),
        ("two\nlines", "two lines"),
        ("orders-v2.eu 0-5", "orders-v2.eu 0-5"),
        ("kafka_lake_x", r"kafka\_lake\_x"),
    ],
)
def test_what_means_something_to_markdown_is_shown_as_it_is(text: str, shown: str) -> None:
    """No tag, no link, no further cell."""
    assert plain(text) == shown


@given(st.text())
def test_no_text_breaks_out_of_its_cell(text: str) -> None:
    """A table has as many cells as it was given, each on its line."""
    lines = table(("a", "b"), [(text, "end")], most=5).splitlines()
    assert len(lines) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", lines[2])) == 3
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>\[\]`]", lines[2])


def test_long_table_says_how_many_more_there_are() -> None:
    """Two thousand partitions fit into a page."""
    text = table(("partition", "rows"), [(number, 1) for number in range(2000)], most=50, numbers=(1,))
    assert len(text.splitlines()) == 54
    assert text.splitlines()[1] == "| --- | ---: |"
    assert text.endswith("and 1,950 more like these")


def test_bullets_are_one_line_each() -> None:
    """Also of a text with several."""
    assert bullets(["a\n- b", "c"]) == "- a - b\n- c"
