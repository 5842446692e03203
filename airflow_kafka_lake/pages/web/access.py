"""Access: the user of a request, the ledgers and pipelines that the user may see, and protection against forgery."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.tokens import get_signing_key
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Query, Request
from fastapi import Path as InPath
from itsdangerous import BadSignature, URLSafeTimedSerializer

from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    LedgerSchemaError,
    UnavailableError,
    UnexpectedError,
    UnknownSubjectError,
    expected,
)
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.offsets import grouped
from airflow_kafka_lake.core.spec import CONNECTION_ID, PIPELINE_NAME, PipelineSpec
from airflow_kafka_lake.pages import rendering
from airflow_kafka_lake.pages.rendering import Visitor
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER, LedgerConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger


# The ledgers that the pages show, opened once for all requests.

SECTION, OPTION = "kafka_lake", "page_ledgers"
KEPT = 30.0
"""After how many seconds a connection is read again: it may have been changed."""


def configured() -> tuple[str, ...]:
    """Return the connections of the ledgers that the pages show; the first is shown where none is named."""
    from airflow.configuration import conf

    named = (conf.get(SECTION, OPTION, fallback=None) or "").replace(",", " ").split()
    return tuple(dict.fromkeys(name for name in named if CONNECTION_ID.fullmatch(name))) or (DEFAULT_LEDGER,)


@dataclass
class Ledgers:
    """Open ledgers, by connection."""

    now: Callable[[], float] = time.monotonic
    _open: dict[str, tuple[float, SqlLedger]] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def known(self, conn_id: str | None) -> str:
        """Return the connection that a request names, or the first one. Raises UnknownSubjectError for any other."""
        names = configured()
        if conn_id is None:
            return names[0]
        if conn_id not in names:
            raise UnknownSubjectError(f"no ledger of that name is shown here: add it to [{SECTION}] {OPTION}")
        return conn_id

    def ledger(self, conn_id: str) -> SqlLedger:
        """Return an open ledger, which is never created or upgraded here.

        Raises ConnectionSettingsError, UnavailableError, LedgerSchemaError.
        """
        with self._opening:
            until, ledger = self._open.get(conn_id, (0.0, None))
            if ledger is not None and self.now() < until:
                return ledger
            connection = LedgerConnection(conn_id)
            url = connection.url
            if ledger is None or ledger.engine.url != url:
                if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
                    raise rendering.missing(f"{url.database} (connection {connection.ledger_conn_id!r})")
                ledger = connection.ledger()
                ledger.check()
            self._open[conn_id] = (self.now() + KEPT, ledger)
            return ledger


# Who may see a pipeline, and who may decide about it: Airflow's auth manager says, by Dags and by connections.
#
# A pipeline is as visible as the Dags that have planned it; one that no Dag has planned is as visible as the
# connection of its ledger. Nothing of it is kept: each request asks Airflow again.

Planners = Mapping[str, frozenset[str]]
"""The pipelines of a ledger by name, each with the Dags that have planned it."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The rights of one user about the pipelines of one ledger; each question may ask Airflow's database."""

    user: BaseUser
    ledger: str

    def seen(self, planners: Planners) -> list[str]:
        """Return the pipelines that the user may see, sorted."""
        readable = self.readable(frozenset[str]().union(*planners.values()))
        return sorted(name for name, dags in planners.items() if (dags & readable if dags else self.reads_ledger))

    def sees(self, dags: Collection[str]) -> bool:
        """Return whether the user may see a pipeline that these Dags have planned."""
        return bool(self.readable(dags)) if dags else self.reads_ledger

    def rights(self, dags: Collection[str]) -> tuple[bool, set[str]]:
        """Return whether the user may decide about a pipeline of these Dags, and the readable ones that are paused."""
        own = self.readable(dags)
        return self._triggers(own) or self._has_connection("PUT"), DagModel.get_paused_dag_ids(sorted(own))

    def readable(self, dags: Collection[str]) -> frozenset[str]:
        """Return those of some Dags that the user may read."""
        manager = get_auth_manager()
        return frozenset(
            dag
            for team, members in _by_team(dags).items()
            for dag in manager.filter_authorized_dag_ids(dag_ids=members, user=self.user, team_name=team)
        )

    @cached_property
    def reads_ledger(self) -> bool:
        """Whether the user may read the ledger's connection."""
        return self._has_connection("GET")

    def _triggers(self, dags: Collection[str]) -> bool:
        manager = get_auth_manager()
        return any(
            manager.is_authorized_dag(
                method="POST",
                access_entity=DagAccessEntity.RUN,
                details=DagDetails(id=dag, team_name=team),
                user=self.user,
            )
            for team, members in _by_team(dags).items()
            for dag in sorted(members)
        )

    def _has_connection(self, method: ResourceMethod) -> bool:
        details = ConnectionDetails(conn_id=self.ledger, team_name=Connection.get_team_name(self.ledger))
        return get_auth_manager().is_authorized_connection(method=method, details=details, user=self.user)


def _by_team(dags: Collection[str]) -> dict[str | None, set[str]]:
    teams = DagModel.get_dag_id_to_team_name_mapping(sorted(dags)) if dags else {}
    return {team: set(its) for team, its in grouped((teams.get(dag), dag) for dag in dags).items()}


# Requests that change something come from these pages, and not from another site in the same browser.
#
# A browser sends Airflow's cookie along with what any site asks of it. So a decision needs a token that only these
# pages are given, signed with the secret of Airflow's API server for one user; and a request that a browser says
# comes from elsewhere is refused whatever it brings. A program that authenticates with a bearer token, and sends no
# cookie, needs no token of ours: no site can make a browser send that.

HEADER = "X-Kafka-Lake-Token"
LASTS = 12 * 60 * 60
"""How many seconds a token is taken."""


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


# Headers of every answer: what a browser may do with it.

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'self'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")


class Headers:
    """Adds the headers to every answer of an ASGI application; an answer is kept only if it says so."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                ours = [(name, value) for name, value in (*HEADERS, NO_STORE) if name not in names]
                message = {**message, "headers": [*given, *ours]}
            await send(message)

        await self._app(scope, receive, with_headers)


# Work of requests in threads of its own: Airflow's event loop never waits for a ledger, a broker or a lake.

T = TypeVar("T")
THREADS = 8
SHARE, LONGEST = 5, 15.0
"""How many times longer a value is kept, at least, than it took to make; but for that, no more seconds than these."""

WAITING = 100
"""How many requests may wait for a thread; further ones are refused at once, and Airflow's own pages go on."""


@dataclass
class Workers:
    """A bounded number of threads. Values can be shared: requests that come while one is made, or is fresh, get it."""

    threads: int = THREADS
    waiting: int = WAITING
    now: Callable[[], float] = time.monotonic
    _limiter: CapacityLimiter | None = None
    _here: int = 0
    _made: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)
    _making: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)
    _forgotten: int = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises UnavailableError when too many wait already."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self.threads)
        if self._here >= self.threads + self.waiting:
            raise UnavailableError("too many requests wait for this page. Nothing was done; repeat in a few seconds")
        self._here += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._here -= 1

    async def shared(self, key: Hashable, seconds: float, work: Callable[[], T]) -> T:
        """Return a value that is at most `seconds` old; however many ask for it, one thread makes it."""
        found = self._made.get(key)
        if found is not None and self.now() < found[0]:
            return found[1]
        making = self._making.get(key)
        if making is None:
            making = asyncio.ensure_future(self._make(key, seconds, work))
            self._making[key] = making
            making.add_done_callback(lambda done: self._end(key, done))
        # One who goes away does not end what the others wait for.
        return await asyncio.shield(making)

    def forget(self, first: object) -> None:
        """Make the values anew whose key begins so; one that is being made is not kept."""
        self._forgotten += 1
        for kept in (self._made, self._making):
            for key in [key for key in kept if isinstance(key, tuple) and key[0] == first]:
                del kept[key]

    async def _make(self, key: Hashable, seconds: float, work: Callable[[], T]) -> T:
        before, begun = self._forgotten, self.now()
        value = await self.run(work)
        now = self.now()
        # What takes long to make is made less often: one page never takes more than a share of the server.
        seconds = max(seconds, min(SHARE * (now - begun), LONGEST))
        if before == self._forgotten:
            self._made = {name: kept for name, kept in self._made.items() if now < kept[0]}
            self._made[key] = (now + seconds, value)
        return value

    def _end(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        if self._making.get(key) is done:
            del self._making[key]
        if not done.cancelled():
            done.exception()


# Who asks, of which ledger, about which pipeline: what one may not see is as unknown as what is not there.

_logger = logging.getLogger(__name__)

FRESH = 3.0
"""How many seconds a document is shown to all visitors, before it is made anew."""

REMEMBERED = 600.0
"""For how many seconds a decision that comes again with the same id is answered as the first time."""

KAFKA_SECONDS = 5.0
"""How long one call waits for a broker: an answer with unknown values is worth more than one that waits."""

DECIDERS = 4
"""How many decisions are carried out at once."""

_OF_THE_LEDGER = (UnavailableError, ConnectionSettingsError, LedgerSchemaError)
"""Errors whose message may name hosts and users of a database."""


OpenPorts = Callable[..., AbstractContextManager[Ports]]
"""`wiring.assemble.open_ports`: opens a pipeline's ports for the length of a `with` block."""


@dataclass
class Server:
    """The shared state of all requests to an API server."""

    open_ports: OpenPorts
    workers: Workers = field(default_factory=Workers)
    deciders: Workers = field(default_factory=lambda: Workers(threads=DECIDERS))
    ledgers: Ledgers = field(default_factory=Ledgers)
    secret: Callable[[], str] = lambda: get_signing_key("api", "secret_key")


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """One request of a user about one ledger."""

    request: Request
    server: Server
    access: Access

    @property
    def ledger(self) -> str:
        """The ledger's connection."""
        return self.access.ledger

    @property
    def user_id(self) -> str:
        """The user's id in Airflow."""
        return str(self.access.user.get_id())

    @property
    def actor(self) -> str:
        """The user, as the ledger's history names one."""
        return history.user(str(self.access.user.get_name()))

    async def before(self, pipeline: str) -> Visitor:
        """Return the user as one before a page of a pipeline. Raises UnknownSubjectError for a hidden one."""
        dags = await self.dags(pipeline)
        may_decide, paused = await self.run(lambda: self.access.rights(dags))
        return replace(self.visitor(), may_decide=may_decide, paused=tuple(sorted(paused)))

    def visitor(self) -> Visitor:
        """Return the user as one before a page."""
        return Visitor(
            base=self.request.scope.get("root_path", ""),
            name=str(self.access.user.get_name()),
            csrf=_signer(self.server.secret()).dumps(self.user_id),
            ledger=self.ledger,
        )

    async def planners(self) -> Planners:
        """Return all pipelines of the ledger, with the Dags that have planned them."""
        return await self.shared(("planners",), lambda ledger: ledger.planners())

    async def dags(self, pipeline: str) -> frozenset[str]:
        """Return the Dags that have planned a pipeline. Raises UnknownSubjectError for a hidden one."""
        dags = (await self.planners()).get(pipeline)
        if dags is None or not await self.run(lambda: self.access.sees(dags)):
            raise unknown("pipeline", rendering.FIRST_PLAN)
        return dags

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in a thread; whatever it raises is an error of this package."""
        return await self._told(self.server.workers.run(work))

    async def shared(self, key: tuple[Hashable, ...], work: Callable[[SqlLedger], T]) -> T:
        """Like `run`, for a value of the ledger that all requests within some seconds may have."""
        ledgers, name = self.server.ledgers, self.ledger
        return await self._told(self.server.workers.shared((name, *key), FRESH, lambda: work(ledgers.ledger(name))))

    async def decided(self, work: Callable[[], T], *, once: Hashable | None) -> T:
        """Carry out a decision, which readers never keep waiting; one of the name `once` is carried out once, and
        answered so for some minutes."""
        workers = self.server.deciders
        return await self._told(workers.run(work) if once is None else workers.shared(once, REMEMBERED, work))

    def ports(self, spec: PipelineSpec) -> AbstractContextManager[Ports]:
        """Open a pipeline's ports in the user's name."""
        return self.server.open_ports(
            spec, ledger_conn_id=self.ledger, actor=self.actor, progress=_logger.info, kafka_seconds=KAFKA_SECONDS
        )

    async def _told(self, working: Awaitable[T]) -> T:
        """Wait for work; only a user that may read the ledger's connection is told where the ledger is."""
        try:
            return await working
        except Exception as error:  # noqa: BLE001  # the text of any other exception may hold a secret
            known = expected(error, "answering this request")
        if isinstance(known, UnexpectedError):
            _logger.error("%s", known.message)
        if not isinstance(known, _OF_THE_LEDGER) or await self.server.workers.run(lambda: self.access.reads_ledger):
            raise known from None
        if rendering.is_missing(known):
            raise rendering.missing()
        _logger.warning("%s", known.named)
        raise UnavailableError(
            "something that this page needs does not answer. Repeat later; the log of the API server says more"
        )


def unknown(what: str, hint: str = "") -> UnknownSubjectError:
    """Return the answer about a subject that is not there, or that the user may not see; `hint` is for both."""
    return UnknownSubjectError(f"there is no such {what}, or you may not see it{f'. {hint}' if hint else ''}")


async def asked(request: Request, user: GetUserDep, ledger: Annotated[str | None, Query()] = None) -> PageRequest:
    """Return the user; Airflow refuses one that is not logged in."""
    server: Server = request.app.state.server
    return PageRequest(request=request, server=server, access=Access(user=user, ledger=server.ledgers.known(ledger)))


AskedDep = Annotated[PageRequest, Depends(asked)]
Name = Annotated[str, InPath(alias="pipeline", pattern=f"^{PIPELINE_NAME.pattern}$")]
