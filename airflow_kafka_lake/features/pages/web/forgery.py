"""Requests that change something come from these pages, and not from another site in the same browser.

A browser sends Airflow's cookie along with what any site asks of it. So a decision needs a token that only these pages
are given, signed with the secret of Airflow's API server for one user; and a request that a browser says comes from
elsewhere is refused whatever it brings. A program that authenticates with a bearer token, and sends no cookie, needs no
token of ours: no site can make a browser send that.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

HEADER = "X-Kafka-Lake-Token"
LASTS = 12 * 60 * 60
"""How many seconds a token is taken."""


def token_for(secret: str, user: str) -> str:
    """Return the token of a user, by id."""
    return _signer(secret).dumps(user)


def refusal(headers: Mapping[str, str], *, user: str, secret: str, base_url: str, by_bearer_alone: bool) -> str | None:
    """Return why a request that changes something is refused; None when it is not.

    `headers` are looked up in lower case; `base_url` is where people find Airflow, which a proxy may hide from us.
    """
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "a decision is sent as application/json"
    if not _same_site(headers, base_url):
        return "the request comes from another site"
    if by_bearer_alone:
        return None
    if "origin" not in headers and "sec-fetch-site" not in headers:
        return "the browser does not say where the request comes from: use a current one, or a bearer token"
    try:
        named = _signer(secret).loads(headers.get(HEADER.lower(), ""), max_age=LASTS)
    except BadSignature:
        named = None
    return None if named == user else "the page is too old: reload it, and decide again"


def _same_site(headers: Mapping[str, str], base_url: str) -> bool:
    """Return whether nothing in a request says that it was made elsewhere."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc in {headers.get("host"), urlsplit(base_url).netloc} - {None, ""}


def _signer(secret: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(secret, salt="kafka-lake pages")
