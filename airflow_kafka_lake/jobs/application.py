"""Say which Spark application a driver is, in a file beside its request: only the driver knows its id and its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

APPLICATION_FILE = "application.json"


def write_application(spark: Any, folder: Path) -> None:
    """Write id, page and whether there is an event log; a session that cannot say leaves no file, and works on."""
    try:
        context = spark.sparkContext
        document = {"id": context.applicationId, "page": _page(context), "logged": _is_logged(context)}
        unfinished = folder / f"{APPLICATION_FILE}.part"
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        unfinished.rename(folder / APPLICATION_FILE)
    except Exception:  # noqa: BLE001, S110 - a full disk, Spark Connect: no job fails for want of a link to it
        pass


def _page(context: Any) -> str | None:
    """Return where its page is for a browser: behind the master's reverse proxy if there is one."""
    conf = context.getConf()
    proxy = conf.get("spark.ui.reverseProxyUrl", "")
    if proxy and conf.get("spark.ui.reverseProxy", "false").lower() == "true":
        return f"{proxy.rstrip('/')}/proxy/{context.applicationId}/"
    found: str | None = context.uiWebUrl
    return found


def _is_logged(context: Any) -> bool:
    return bool(context.getConf().get("spark.eventLog.enabled", "false").lower() == "true")
