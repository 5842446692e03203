"""What a driver says of its Spark application, and what is made of it."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.spark.job import Application

pytestmark = pytest.mark.unit

ID, PAGE = "app-20260301-0001", "http://driver:4040"


def test_application_is_shown_while_it_runs_and_afterwards() -> None:
    """Its own page first, then that of the history server."""
    found = Application.of(ID, PAGE, history_server="https://history:18480/")
    assert found is not None
    assert (found.page, found.history) == ("http://driver:4040", "https://history:18480/history/app-20260301-0001/")
    assert found.describe() == (
        "Spark application app-20260301-0001: http://driver:4040, "
        "later https://history:18480/history/app-20260301-0001/"
    )


@pytest.mark.parametrize(
    ("told", "server", "page", "history"),
    [
        (None, None, None, None),
        ("javascript:alert(1)", None, None, None),
        (PAGE, None, PAGE, None),
        (None, "https://history", None, "https://history/history/app-20260301-0001/"),
        (PAGE, "ftp://history", PAGE, None),
    ],
)
def test_page_that_is_not_there_is_not_shown(
    told: str | None, server: str | None, page: str | None, history: str | None
) -> None:
    """No page on a local master, and no address but of the web."""
    found = Application.of(ID, told, history_server=server)
    assert found is not None
    assert (found.page, found.history) == (page, history)
    assert "None" not in found.describe()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 201])
def test_nothing_is_made_of_what_is_no_application(name: str) -> None:
    """A file that was cut off, or written by another, gives no link."""
    assert Application.of(name, PAGE, history_server="https://history") is None
