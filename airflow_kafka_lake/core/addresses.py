"""Web addresses that people are given: only http and https, no login in them, every value escaped."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlsplit

MOST_LETTERS = 2000
SITE = "/kafka-lake"
"""Where Airflow's API server has the pages of this package."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = frozenset({"table", "snapshot"})
_SECRET = re.compile(r"(?i)pass|secret|token|credential|signature|(^|[._-])(key|sig|auth|sas)([._-]|$)|api[._-]?key")


def web_address(text: object) -> str | None:
    """Return an address if a browser may be sent there: http or https, a host, no login, nothing invisible."""
    if not isinstance(text, str) or len(text) > MOST_LETTERS or not text.isascii() or not text.isprintable():
        return None
    if re.search(r"[\s\"'<>\\^`{|}]", text):
        return None
    try:
        parts = urlsplit(text)
        named = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    return text if parts.scheme in {"http", "https"} and named and "@" not in parts.netloc else None


def template_problem(template: str) -> str | None:
    """Return the fault in a template of addresses of snapshots; None without one.

    It has `{table}` and `{snapshot}` where they belong, after the host. Everybody with access to the task sees a link,
    so nothing that is named like a secret may be in it.
    """
    unknown = sorted(set(_FIELD.findall(template)) - _FIELDS)
    if unknown:
        return f"it has {{{unknown[0]}}}, and only {{table}} and {{snapshot}} are known"
    if "{snapshot}" not in template:
        return "it has no {snapshot}, so all snapshots would have one address"
    if web_address(_FIELD.sub("x", template)) is None:
        return "it is no http or https address without login"
    if "{" in urlsplit(_FIELD.sub("{}", template)).netloc:
        return "its host is not fixed"
    named = [name for name, _ in parse_qsl(urlsplit(_FIELD.sub("x", template)).query, keep_blank_values=True)]
    if secret := next((name for name in named if _SECRET.search(name)), None):
        return f"its parameter {secret!r} looks like a secret, and everybody who sees a task sees its links"
    return None


def snapshot_page(template: str | None, table: str, snapshot: int | None) -> str | None:
    """Return the address of a table's snapshot; None without a template, and for a snapshot that has expired."""
    if template is None or snapshot is None or template_problem(template) is not None:
        return None
    values = {"table": table, "snapshot": str(snapshot)}
    return web_address(_FIELD.sub(lambda field: quote(values[field[1]], safe=""), template))


def pipeline_page(base: str | None, pipeline: str, wave: str | None = None) -> str:
    """Return the address of a pipeline's page, or of a wave on it, below the address of Airflow's API server.

    Without an address that a browser can be sent to, it is one on the host that shows the link.
    """
    shown = f"{_root(base)}{SITE}/pipelines/{quote(pipeline, safe='')}"
    return shown if wave is None else f"{shown}/waves/{quote(wave, safe='')}"


def dry_run_page(base: str | None, dag: str, run: str) -> str:
    """Return the address of the page from which a person goes on after a dry run, like `pipeline_page`."""
    return f"{_root(base)}{SITE}/dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"


def _root(base: str | None) -> str:
    return (web_address(base) or "").rstrip("/")
