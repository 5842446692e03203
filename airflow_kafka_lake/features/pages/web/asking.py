"""Who asks, of which ledger, about which pipeline: what one may not see is as unknown as what is not there."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from airflow.api_fastapi.auth.tokens import get_signing_key
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, Query, Request

from airflow_kafka_lake.core import actors
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    LedgerSchemaError,
    UnavailableError,
    UnexpectedError,
    UnknownSubjectError,
    expected,
)
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.pages import beginning
from airflow_kafka_lake.features.pages.web import forgery, reads
from airflow_kafka_lake.features.pages.web.access import Access, Planners
from airflow_kafka_lake.features.pages.web.ledgers import Ledgers
from airflow_kafka_lake.features.pages.web.visitor import Visitor
from airflow_kafka_lake.features.pages.web.working import Workers
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.ports.feature import OpenPorts

T = TypeVar("T")
_logger = logging.getLogger(__name__)

FRESH = 3.0
"""How many seconds a document is shown to all who ask for it, before it is made anew."""

REMEMBERED = 600.0
"""For how many seconds a decision that comes again with the same id is answered as the first time."""

KAFKA_SECONDS = 5.0
"""How long one call waits for a broker: an answer that says what is unknown is worth more than one that waits."""

DECIDERS = 4
"""How many decisions are carried out at once."""

_OF_THE_LEDGER = (UnavailableError, ConnectionSettingsError, LedgerSchemaError)
"""Errors whose message may name hosts and users of a database."""


@dataclass
class Server:
    """What all requests to an API server share."""

    open_ports: OpenPorts
    workers: Workers = field(default_factory=Workers)
    deciders: Workers = field(default_factory=lambda: Workers(threads=DECIDERS))
    ledgers: Ledgers = field(default_factory=Ledgers)
    secret: Callable[[], str] = lambda: get_signing_key("api", "secret_key")


@dataclass(frozen=True, kw_only=True)
class Asked:
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
        return actors.user(str(self.access.user.get_name()))

    def visitor(self, *, may_decide: bool = False) -> Visitor:
        """Return the user as one before a page."""
        return Visitor(
            base=self.request.scope.get("root_path", ""),
            name=str(self.access.user.get_name()),
            csrf=forgery.token_for(self.server.secret(), self.user_id),
            ledger=self.ledger,
            may_decide=may_decide,
        )

    async def planners(self) -> Planners:
        """Return all pipelines of the ledger, with the Dags that have planned them."""
        ledgers, name = self.server.ledgers, self.ledger
        return await self.shared((name, "planners"), lambda: reads.planners(ledgers.ledger(name)))

    async def dags(self, pipeline: str) -> frozenset[str]:
        """Return the Dags that have planned a pipeline; UnknownSubjectError for one that the user may not see."""
        dags = (await self.planners()).get(pipeline)
        if dags is None or not await self.run(lambda: self.access.sees(dags)):
            raise unknown("pipeline", beginning.FIRST_PLAN)
        return dags

    async def may_decide(self, pipeline: str) -> bool:
        """Return whether the user may decide about a pipeline; UnknownSubjectError where he may not see it."""
        dags = await self.dags(pipeline)
        return await self.run(lambda: self.access.may_decide(dags))

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in a thread; whatever it raises is an error of this package."""
        return await self._told(self.server.workers.run(work))

    async def shared(self, key: Hashable, work: Callable[[], T]) -> T:
        """Like `run`, for a value that all who ask within some seconds may have."""
        return await self._told(self.server.workers.shared(key, FRESH, work))

    async def decided(self, work: Callable[[], T], *, once: Hashable | None) -> T:
        """Carry out a decision, which readers never keep waiting; what is named by `once` is done once, and answered
        so for some minutes."""
        workers = self.server.deciders
        return await self._told(workers.run(work) if once is None else workers.shared(once, REMEMBERED, work))

    def ports(self, spec: PipelineSpec) -> AbstractContextManager[Ports]:
        """Open a pipeline's ports in the user's name."""
        return self.server.open_ports(
            spec,
            ledger_conn_id=self.ledger,
            actor=self.actor,
            progress=_logger.info,
            kafka_seconds=KAFKA_SECONDS,
        )

    async def _told(self, working: Awaitable[T]) -> T:
        """Wait for work; only one who may read the ledger's connection is told where the ledger is."""
        try:
            return await working
        except Exception as error:  # noqa: BLE001  # the text of any other exception may hold a secret
            known = expected(error, "answering this request")
        if isinstance(known, UnexpectedError):
            _logger.error("%s", known.message)
        if not isinstance(known, _OF_THE_LEDGER) or await self.server.workers.run(lambda: self.access.reads_ledger):
            raise known from None
        if beginning.is_missing(known):
            raise beginning.missing()
        _logger.warning("%s", known.named)
        raise UnavailableError(
            "something that this page needs does not answer. Repeat later; the log of the API server says more"
        )


def unknown(what: str, hint: str = "") -> UnknownSubjectError:
    """Return the answer about what is not there, and about what the user may not see; `hint` is for both."""
    return UnknownSubjectError(f"there is no such {what}, or you may not see it{f'. {hint}' if hint else ''}")


async def asked(request: Request, user: GetUserDep, ledger: Annotated[str | None, Query()] = None) -> Asked:
    """Return who asks; Airflow refuses one who is not logged in."""
    server: Server = request.app.state.server
    return Asked(request=request, server=server, access=Access(user=user, ledger=server.ledgers.known(ledger)))


AskedDep = Annotated[Asked, Depends(asked)]
