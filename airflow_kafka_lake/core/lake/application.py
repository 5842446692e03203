"""The Spark application that works on a wave, and where people can watch it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from airflow_kafka_lake.core.addresses import web_address

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
HISTORY = "spark.yarn.historyServer.address"
"""Spark's own setting of a history server, `host:port`, which YARN shows; only there Spark has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A Spark application: its id, the address of its page while it runs, and that of a history server for afterwards.

    An address is None where there is no such page: a local master has no page unless its connection asks for one, and a
    history server shows only what writes an event log.
    """

    id: str
    page: str | None = None
    history: str | None = None

    @classmethod
    def parse(cls, document: object, history_server: str | None) -> Application | None:
        """Read what a driver says of itself: `{"id", "page", "logged"}`; None where that is nothing to rely on."""
        name = document.get("id") if isinstance(document, Mapping) else None
        if not isinstance(document, Mapping) or not isinstance(name, str) or not _ID.fullmatch(name):
            return None
        base = web_address(history_server) if document.get("logged") is True else None
        return cls(
            id=name,
            page=web_address(document.get("page")),
            history=None if base is None else f"{base.rstrip('/')}/history/{quote(name, safe='')}/",
        )

    @property
    def has_page(self) -> bool:
        """Whether there is anything to look at, now or later."""
        return bool(self.page or self.history)

    def describe(self) -> str:
        """Return the line for a log."""
        shown = self.page or self.history
        later = f", later {self.history}" if self.page and self.history else ""
        return f"Spark application {self.id}{f': {shown}' if shown else ''}{later}"


def history_server_of(given: object, conf: Mapping[str, str]) -> str | None:
    """Return the address of a history server: what a connection names, else what its Spark settings have for YARN."""
    if given not in {None, ""}:
        return str(given)
    found = conf.get(HISTORY)
    return found if not found or "://" in found else f"http://{found}"
