"""An HTTP proxy before a real REST catalog that answers what is not so, loses answers, and rewrites commits.

with CatalogProxy(foreign_lake.uri) as proxy:
    foreign_lake.extra(**proxy.addresses)  # a connection through the proxy
    proxy.lie()                          # 200 to the next commit, and nothing is done
    proxy.lie(table="orders", every=True)
    proxy.lose_answer(branch=True)       # the next commit to a branch is done, and its answer is lost
    proxy.refuse(504, landed=True, branch=False)  # the next commit to main is done, and answered with 504
    proxy.refuse(None, landed=False, branch=False).land()  # the next one is kept, its connection ended; it lands now
    proxy.stale = True                   # a table is answered as it was when it was first loaded after this
    proxy.silent = "orders"              # no commit to main of that table is passed on, nor answered before it heals
    proxy.before(lambda commit: …)       # called before each commit is passed on
    proxy.keeps_branches = False         # as Nessie: a new branch is not stored, and an append to one becomes main
    proxy.moves_main = True              # a branch is stored, and main is moved along with it
    proxy.is_named_nessie = True         # `/v1/config` says so
    proxy.page = (404, b"<html>…")       # what a gateway answers to everything, or to what has `paged` in it
    proxy.token_seconds = 2              # tokens of its own, which end by then and cannot be exchanged
    proxy.ended_is = 403                 # what an ended one is answered, 401 unless said
    proxy.keeps_until_ended = "orders"   # Spark's first request of that path is answered when its token has ended
    proxy.end_tokens()                   # all that were given have ended
    proxy.store = store_proxy.base       # where the catalog says that files are
    proxy.key_seconds = 5                # how long the keys serve that it hands out
    proxy.renews_keys = True             # where it says that Spark gets new ones
    proxy.heal()
"""

from __future__ import annotations

import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.local_http import LocalHttp

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
MAIN = "main"
SILENT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A request that commits to a table."""

    path: str
    body: dict[str, Any]

    @property
    def table(self) -> str:
        """The name of the table, without its namespace."""
        return self.path.partition("?")[0].rpartition("/")[2]

    @property
    def refs(self) -> set[str]:
        """The branches that it sets."""
        return {item["ref-name"] for item in self.body["updates"] if item.get("action") == "set-snapshot-ref"}

    @property
    def appends(self) -> bool:
        """Whether it adds a snapshot."""
        return any(item.get("action") == "add-snapshot" for item in self.body["updates"])

    def with_main_for_branches(self, *, keeping: bool) -> Commit:
        """Return what becomes of it where a branch's append moves main; `keeping` the branch, or in place of it."""
        updates: list[dict[str, Any]] = []
        for item in self.body["updates"]:
            is_set = item.get("action") == "set-snapshot-ref" and item["ref-name"] != MAIN
            is_removed = item.get("action") == "remove-snapshot-ref"
            if keeping or not (is_set or is_removed):
                updates.append(item)
            if is_set and self.appends:
                snapshot = item["snapshot-id"]
                updates.append(
                    {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": snapshot}
                )
        kept = [
            item
            for item in self.body["requirements"]
            if keeping or item.get("type") != "assert-ref-snapshot-id" or item["ref"] == MAIN
        ]
        return Commit(path=self.path, body={**self.body, "updates": updates, "requirements": kept})


@dataclass
class _Trap:
    passed_on: bool
    is_wanted: Callable[[Commit], bool]
    every: bool
    status: int | None
    """Of the answer; None ends the connection without one."""

    sprung: int = 0
    kept: list[Callable[[], object]] = field(default_factory=list)

    def land(self) -> None:
        """Let the commits that were kept arrive now."""
        while self.kept:
            self.kept.pop(0)()


@dataclass
class _Grant:
    """A token that the proxy has given in place of the catalog's own, to whom, and when it ends."""

    client: str
    real: str
    ends_at: float


@dataclass
class CatalogProxy(LocalHttp):
    """An HTTP proxy before a REST catalog that can lie; `commits` are those that have arrived."""

    target: str
    keeps_branches: bool = True
    moves_main: bool = False
    is_named_nessie: bool = False
    page: tuple[int, bytes] | None = None
    paged: str = ""
    stale: bool = False
    silent: str = ""
    token_seconds: float | None = None
    ended_is: int = 401
    keeps_until_ended: str = ""
    store: str = ""
    key_seconds: float | None = None
    renews_keys: bool = False
    keys: dict[str, float] = field(default_factory=dict)
    """The session tokens that were handed out, and when each ends."""
    renewals: int = 0
    grants: list[_Grant] = field(default_factory=list)
    exchanges: int = 0
    refused: int = 0
    commits: list[Commit] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._traps: list[_Trap] = []
        self._loaded: dict[str, tuple[int, bytes]] = {}
        self._healed = threading.Event()
        self._before: Callable[[Commit], None] = lambda _: None
        self._lock = threading.Lock()
        return super().__enter__()

    @property
    def uri(self) -> str:
        """The catalog's address through this proxy."""
        return self.base

    @property
    def addresses(self) -> dict[str, str]:
        """The settings of a connection that goes through it."""
        return {"uri": self.uri, "oauth2-server-uri": f"{self.uri}/v1/oauth/tokens"}

    def lie(self, *, table: str | None = None, every: bool = False, branch: bool | None = None) -> _Trap:
        """Answer the next commit (or every one), of a table, to a branch or to main, with 200, and do nothing."""
        return self._set(table, branch, passed_on=False, every=every, status=200)

    def lose_answer(self, *, table: str | None = None, every: bool = False, branch: bool | None = None) -> _Trap:
        """Pass the next commit on, and end the connection without an answer."""
        return self._set(table, branch, passed_on=True, every=every, status=None)

    def refuse(
        self, status: int | None, *, landed: bool, every: bool = False, table: str | None = None, branch: bool | None
    ) -> _Trap:
        """Answer the next commit (or every one) with a status, or end the connection (None), after it was done or not;
        what was not done can `land` later."""
        return self._set(table, branch, passed_on=landed, every=every, status=status)

    def _set(
        self, table: str | None, branch: bool | None, *, passed_on: bool, every: bool, status: int | None
    ) -> _Trap:
        def is_wanted(commit: Commit) -> bool:
            wanted = {None: True, True: commit.appends and bool(commit.refs - {MAIN}), False: MAIN in commit.refs}
            return table in {None, commit.table} and wanted[branch]

        trap = _Trap(passed_on=passed_on, is_wanted=is_wanted, every=every, status=status)
        self._traps.append(trap)
        return trap

    def before(self, happening: Callable[[Commit], None]) -> None:
        """Let something happen before each commit is passed on."""
        self._before = happening

    def heal(self) -> None:
        """Be an honest proxy again."""
        self._traps.clear()
        self._loaded.clear()
        self.stale, self.silent = False, ""
        self._healed.set()
        self.keeps_branches, self.moves_main, self.is_named_nessie = True, False, False
        self.page, self.paged = None, ""
        self.token_seconds, self.ended_is, self.keeps_until_ended = None, 401, ""
        self._before = lambda _: None

    def end_tokens(self) -> None:
        """Refuse every token that was given from now on."""
        for grant in self.grants:
            grant.ends_at = 0

    def _grant(self, client: str, body: bytes, answer: tuple[int, bytes]) -> tuple[int, bytes]:
        """Return a short-lived token of our own for the catalog's; exchanging one is refused, as by many servers."""
        if parse_qs(body.decode())["grant_type"] != ["client_credentials"]:
            self.exchanges += 1
            return 400, b'{"error": "unsupported_grant_type"}'
        if answer[0] != http.HTTPStatus.OK or self.token_seconds is None:
            return answer
        said = json.loads(answer[1])
        with self._lock:
            self.grants.append(_Grant(client, said["access_token"], time.monotonic() + self.token_seconds))
            ours = {"access_token": f"granted-{len(self.grants) - 1}", "expires_in": self.token_seconds}
        return 200, json.dumps({**said, **ours}).encode()

    def _granted(self, headers: dict[str, str]) -> _Grant | None:
        """Put the catalog's own token in place of ours; None where none is ours."""
        name = next((name for name in headers if name.lower() == "authorization"), "")
        kind, _, number = headers.get(name, "").partition("granted-")
        if not number:
            return None
        headers[name] = f"{kind}{self.grants[int(number)].real}"
        return self.grants[int(number)]

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Return status and body of the answer; None ends the connection."""
        self.asked.append(f"{method} {path}")
        if self.page is not None and self.paged in self.asked[-1]:
            return self.page
        client = next((value for name, value in headers.items() if name.lower() == "user-agent"), "")
        if path.endswith("/oauth/tokens"):
            return self._grant(client, body, _send(self.target, method, path, headers, body))
        if (grant := self._granted(headers)) and time.monotonic() >= grant.ends_at:
            self.refused += 1
            said = {"message": "the token has ended", "type": "NotAuthorizedException", "code": self.ended_is}
            return self.ended_is, json.dumps({"error": said}).encode()
        if grant and self.keeps_until_ended and self.keeps_until_ended in path and "PyIceberg" not in client:
            self.keeps_until_ended = ""
            threading.Event().wait(grant.ends_at - time.monotonic())
        return self._answer(method, path, headers, body)

    def has_ended(self, key: str | None) -> bool:
        """Return whether a handed-out key has ended, or all of them."""
        ends = [*self.keys.values()] if key is None else [self.keys.get(key, math.inf)]
        return time.monotonic() >= max(ends, default=0)

    def _with_keys(self, path: str, found: bytes) -> bytes:
        """Say of handed-out keys how long they serve, and where new ones are had."""
        said = json.loads(found or b"{}")
        if self.key_seconds is None or "s3.session-token" not in said.get("config", {}):
            return found
        self.keys[said["config"]["s3.session-token"]] = time.monotonic() + self.key_seconds
        told = {"s3.session-token-expires-at-ms": str(round((time.time() + self.key_seconds) * 1000))}
        if self.renews_keys:
            told["client.refresh-credentials-endpoint"] = f"{path.strip('/').partition('?')[0]}/credentials"
        if self.store:
            told["s3.endpoint"] = self.store
        kept = [{**item, "config": item["config"] | told} for item in said.get("storage-credentials", ())]
        return json.dumps({**said, "config": said["config"] | told, "storage-credentials": kept}).encode()

    def _renewed(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return new keys of a table, as its catalog hands them out."""
        self.renewals += 1
        table = path.partition("?")[0].removesuffix("/credentials")
        asked = {**headers, "X-Iceberg-Access-Delegation": "vended-credentials"}
        status, found = _send(self.target, "GET", table, asked, b"")
        config = json.loads(self._with_keys(table, found))["config"]
        return status, json.dumps({"storage-credentials": [{"prefix": "s3", "config": config}]}).encode()

    def _read(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the answer to what is no commit: the first one again while the proxy is stale."""
        if self.renews_keys and path.partition("?")[0].endswith("/credentials"):
            return self._renewed(path, headers)
        is_load = self.stale and method == "GET" and "/tables/" in path
        if not (is_load and path in self._loaded):
            status, found = _send(self.target, method, path, headers, body)
            if "/tables" in path and status == http.HTTPStatus.OK and method != "HEAD":
                found = self._with_keys(path, found)
            if not is_load:
                return status, self._named(path, status, found)
            self._loaded[path] = (status, found)
        return self._loaded[path]

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Return the catalog's answer, or what this proxy makes of it."""
        commit = _commit_of(method, path, body)
        if commit is None:
            return self._read(method, path, headers, body)
        if commit.table == self.silent and MAIN in commit.refs:
            self._healed.wait(SILENT_SECONDS)
            return None
        with self._lock:
            self.commits.append(commit)
            self._before(commit)
            trap = next((item for item in self._traps if item.is_wanted(commit)), None)
            if trap is not None:
                trap.sprung += 1
                if not trap.every:
                    self._traps.remove(trap)
            if trap is not None and not trap.passed_on:
                trap.kept.append(partial(_send, self.target, method, path, headers, body))
                return _send(self.target, "GET", path, headers, b"") if trap.status == 200 else _refusal(trap.status)
            if not self.keeps_branches or self.moves_main:
                commit = commit.with_main_for_branches(keeping=self.keeps_branches)
                if not commit.body["updates"]:
                    return _send(self.target, "GET", path, headers, b"")
                body = json.dumps(commit.body).encode()
            found_of_commit = _send(self.target, method, path, headers, body)
            return found_of_commit if trap is None else _refusal(trap.status)

    def _named(self, path: str, status: int, body: bytes) -> bytes:
        if not self.is_named_nessie or not path.startswith("/v1/config") or status != http.HTTPStatus.OK:
            return body
        said = json.loads(body)
        said["overrides"] = {**(said.get("overrides") or {}), "nessie.is-nessie-catalog": "true"}
        return json.dumps(said).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            """Else the body of each answer waits for the client's delayed acknowledgement of its head: 40 ms."""

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                found = proxy.answer(self.command, self.path, headers, body)
                if found is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, answer = found
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = _pass_on  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def _commit_of(method: str, path: str, body: bytes) -> Commit | None:
    if method != "POST" or "/tables/" not in path:
        return None
    found = json.loads(body or b"{}")
    return Commit(path=path, body=found) if "updates" in found and "requirements" in found else None


def _refusal(status: int | None) -> tuple[int, bytes] | None:
    said = {"message": f"refused with {status}", "type": "TestException", "code": status}
    return (status, json.dumps({"error": said}).encode()) if status else None


def _send(target: str, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    where = urlsplit(target)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        connection.request(method, path, body=body or None, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
