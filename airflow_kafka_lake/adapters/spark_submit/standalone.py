"""Applications of a Spark standalone master, found and ended by their name through the master's web address."""

from __future__ import annotations

import http.client
import json
import logging
import time
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

SCHEME = "spark://"
UI_PORT = "spark.master.ui.port"
"""The setting of the port of the master's web address; 8080 by default."""

_DEFAULT_PORT = 8080
_TIMEOUT_SECONDS = 3.0
_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.2
_logger = logging.getLogger(__name__)


def end_application(master: str, ui_port: str | None, name: str) -> bool:
    """End the running applications of exactly this name; return whether there was one and it has ended.

    `master` is `spark://host:port`, or several hosts of which one leads. A master that does not answer, or does not
    allow to end applications, is logged and is no error: an application that goes on can only stage.
    """
    ended = False
    for host in _hosts(master):
        try:
            ended = _end_at(host, int(ui_port or _DEFAULT_PORT), name) or ended
        except (OSError, http.client.HTTPException, ValueError) as error:
            _logger.info("the Spark master on %s could not be asked for %r: %s", host, name, error)
    return ended


def _hosts(master: str) -> list[str]:
    return [address.rsplit(":", 1)[0] for address in master.removeprefix(SCHEME).split(",")]


def _end_at(host: str, port: int, name: str) -> bool:
    found = _running(host, port, name)
    for application in found:
        _ask(host, port, "POST", "/app/kill/", form=urlencode({"id": application, "terminate": "true"}))
    until = time.monotonic() + _GONE_SECONDS
    while found and time.monotonic() < until:
        if not found & _running(host, port, name):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _running(host: str, port: int, name: str) -> set[str]:
    try:
        document: Any = json.loads(_ask(host, port, "GET", "/json/"))
        return {str(item["id"]) for item in document["activeapps"] if item["name"] == name}
    except (KeyError, TypeError) as error:
        raise ValueError(f"its answer is no list of applications ({error})") from None


def _ask(host: str, port: int, method: str, path: str, *, form: str | None = None) -> bytes:
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    with closing(http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)) as connection:
        connection.request(method, path, form, headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise http.client.HTTPException(f"{method} {path} answered {answer.status}")
        return body
