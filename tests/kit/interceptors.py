"""Interceptors of ports: called instead of each method of a port, they decide when, and whether, the call is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from airflow_kafka_lake.ports import (
    BatchReader,
    GroupCommitter,
    JobRunner,
    LakeTable,
    Ledger,
    OffsetSource,
    Ports,
    SchemaRegistry,
)
from tests.kit.writes import WRITES

PORTS: Mapping[str, type] = {
    "ledger": Ledger,
    "source": OffsetSource,
    "batches": BatchReader,
    "group_sync": GroupCommitter,
    "table": LakeTable,
    "runner": JobRunner,
    "schemas": SchemaRegistry,
}
"""Port → the protocol with all of its methods."""

_TEXT = "runner.where"
"""It only returns text: no interceptor gets to see it."""

_NO_CALL = frozenset({_TEXT, "ledger.commit"})
"""The second is named after the write that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCall:
    """One call: `name` is `<port>.<method>`, for example `table.publish`; `table` is the table's identifier there."""

    name: str
    table: str | None
    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def go(self) -> Any:
        """Make the call; returns its answer."""
        return self.method(*self.arguments, **self.named)


Interceptor = Callable[[PortCall], Any]


def methods(port: type) -> frozenset[str]:
    """Return the names of a port's methods, those of the protocols that it is made of included."""
    parts = (part for part in port.__mro__ if part not in {object, Generic, Protocol})
    return frozenset(
        name for part in parts for name, value in vars(part).items() if callable(value) and not name.startswith("_")
    )


def calls() -> tuple[str, ...]:
    """Return every call of a port: ledger, Kafka's offsets and batches, tables, the job, and schemas."""
    more = {"ledger": WRITES.keys()}
    named = (
        f"{port}.{name}"
        for port, protocol in PORTS.items()
        for name in sorted(methods(protocol).union(more.get(port, ())))
    )
    return tuple(name for name in named if name not in _NO_CALL)


def intercepted(ports: Ports, interceptor: Interceptor) -> Ports:
    """Return ports whose every call goes through an interceptor."""
    return replace(
        ports,
        ledger=Intercepted("ledger", ports.ledger, interceptor),
        source=Intercepted("source", ports.source, interceptor),
        batches=Intercepted("batches", ports.batches, interceptor),
        lake=_Tables(ports.lake, interceptor),
        runner=Intercepted("runner", ports.runner, interceptor),
        group_sync=Intercepted("group_sync", ports.group_sync, interceptor),
        schemas=Intercepted("schemas", ports.schemas, interceptor),
    )


class _Tables:
    def __init__(self, lake: Any, interceptor: Interceptor) -> None:
        self._lake, self._interceptor = lake, interceptor

    def table(self, identifier: str) -> Any:
        return Intercepted("table", self._lake.table(identifier), self._interceptor, table=identifier)


class Intercepted:
    """A port whose every call goes through an interceptor."""

    def __init__(self, port: str, target: Any, interceptor: Interceptor, *, table: str | None = None) -> None:
        self._port, self._target, self._interceptor, self._table = port, target, interceptor, table

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        full = f"{self._port}.{name}"
        return self._call(full, value) if callable(value) and full != _TEXT else value

    def _call(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def cross(*arguments: Any, **named: Any) -> Any:
            return self._interceptor(
                PortCall(
                    name=_name(name, arguments), table=self._table, method=method, arguments=arguments, named=named
                )
            )

        return cross


def _name(name: str, arguments: tuple[Any, ...]) -> str:
    """Return what a call is called: a commit to the ledger by its write, `ledger.claim`."""
    return f"ledger.{arguments[0].name}" if name == "ledger.commit" else name
