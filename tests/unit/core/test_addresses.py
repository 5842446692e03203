"""Addresses that tasks link to: a browser can be sent there, and nothing is in them that people should not see."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.addresses import pipeline_page, snapshot_page, template_problem, web_address

pytestmark = pytest.mark.unit

TEMPLATE = "https://catalog.example.org/ui/{table}/snapshots/{snapshot}?tab=files"


@pytest.mark.parametrize(
    "address",
    ["http://host", "https://host:8443/a/b?c=d#e", "http://10.0.0.1:4040", "http://[::1]:4040/"],
)
def test_web_addresses_are_taken_as_they_are(address: str) -> None:
    """Of http and https, with a host, and whatever follows it."""
    assert web_address(address) == address


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JAVASCRIPT://host/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "ftp://host/",
        "//host/path",
        "http://",
        "http:///path",
        "https://user:pw@host/",
        "https://user@host/",
        "http://host:99999/",
        "http://host/\n",
        "http://host/a b",
        'http://host/"onclick=',
        "http://host/<script>",
        "http://hóst/",
        f"http://host/{'x' * 2000}",
        "",
        None,
        7,
    ],
)
def test_nothing_else_is_an_address(text: object) -> None:
    """No script, no file, no login, nothing invisible, nothing that ends an attribute."""
    assert web_address(text) is None


def test_snapshot_has_its_own_page_in_a_template() -> None:
    """Table and snapshot stand where the template has them, with every letter escaped that could mean something."""
    assert snapshot_page(TEMPLATE, "raw.orders", 17) == (
        "https://catalog.example.org/ui/raw.orders/snapshots/17?tab=files"
    )
    assert snapshot_page(TEMPLATE, "raw./../<x>&#?%", 17) == (
        "https://catalog.example.org/ui/raw.%2F..%2F%3Cx%3E%26%23%3F%25/snapshots/17?tab=files"
    )


def test_snapshot_without_a_page_has_no_link() -> None:
    """Neither where nothing says how snapshots are shown, nor for one that has expired."""
    assert snapshot_page(None, "raw.orders", 17) is None
    assert snapshot_page(TEMPLATE, "raw.orders", None) is None
    assert snapshot_page("https://{table}/{snapshot}", "raw.orders", 17) is None


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (TEMPLATE, None),
        ("https://host/{table}", "no {snapshot}"),
        ("https://host/{snapshot}/{}", "has {}"),
        ("https://host/{snapshot}/{table.__class__}", "has {table.__class__}"),
        ("javascript:{snapshot}", "no http or https"),
        ("https://ada:pw@host/{snapshot}", "no http or https"),
        ("https://{table}.host/{snapshot}", "host is not fixed"),
        ("https://host/{snapshot}?api_key=abc", "'api_key' looks like a secret"),
        ("https://host/{snapshot}?a=b&X-Amz-Signature=abc", "'X-Amz-Signature' looks like a secret"),
        ("https://host/{snapshot}?keyspace=a&monkey=b", None),
    ],
)
def test_template_is_refused_for_what_is_wrong_with_it(template: str, problem: str | None) -> None:
    """Unknown fields, a host that a table's name would choose, another scheme, logins and tokens."""
    found = template_problem(template)
    assert (found is None) if problem is None else (problem in str(found)), found


def test_page_of_a_pipeline_is_below_the_address_of_airflow() -> None:
    """Under its path, with names escaped; on the same host where Airflow's address is not known, or no address."""
    assert pipeline_page("https://airflow/team/", "orders") == "https://airflow/team/kafka-lake/pipelines/orders"
    assert pipeline_page("http://h", "a/../b?<c>", "w 1") == (
        "http://h/kafka-lake/pipelines/a%2F..%2Fb%3F%3Cc%3E/waves/w%201"
    )
    for base in ("", None, "javascript:alert(1)", "http://user:pw@h"):
        assert pipeline_page(base, "orders") == "/kafka-lake/pipelines/orders"
