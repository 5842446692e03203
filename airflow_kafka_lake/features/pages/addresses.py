"""Addresses of the pages: below one base, and with the ledger where it is not the usual one."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from airflow_kafka_lake.features.pages.web.visitor import Visitor

USUAL_LEDGER = "kafka_lake_ledger"


def address(visitor: Visitor, *parts: str, **asked: object) -> str:
    """Return the address of a page; its parts are what comes from names, and cannot leave their place in it."""
    path = "/".join(quote(part, safe="") for part in parts)
    query = {key: str(value) for key, value in asked.items() if value is not None}
    if visitor.ledger != USUAL_LEDGER:
        query["ledger"] = visitor.ledger
    return f"{visitor.base}/{path}" + (f"?{urlencode(query)}" if query else "")
