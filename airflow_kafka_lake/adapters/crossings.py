"""Crossings: every call through a port, as seen by somebody who stands at the port.

A watcher is called instead of the method and decides when, and whether, to go on. Failpoints and histories are
watchers; services and adapters know of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.ports import (
    BatchReader,
    GroupMirror,
    JobRunner,
    LakeTable,
    Ledger,
    LedgerReader,
    OffsetSource,
    Ports,
    SchemaRegistry,
)

PORTS: Mapping[str, tuple[type, ...]] = {
    "ledger": (LedgerReader, Ledger),
    "source": (OffsetSource,),
    "batches": (BatchReader,),
    "mirror": (GroupMirror,),
    "table": (LakeTable,),
    "runner": (JobRunner,),
    "schemas": (SchemaRegistry,),
}
"""Port → the protocols whose methods cross it, the last one with all of them."""

_NO_CALL = frozenset({"runner.where"})
"""Answers in words, and asks nobody for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """One call: `name` is `<port>.<method>`, for example `table.publish`; `table` is the table's identifier there."""

    name: str
    table: str | None
    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def go(self) -> Any:
        """Make the call; returns its answer."""
        return self.method(*self.arguments, **self.named)


Watcher = Callable[[Crossing], Any]


def methods(port: type) -> frozenset[str]:
    """Return the names of a port's own methods."""
    return frozenset(name for name, value in vars(port).items() if callable(value) and not name.startswith("_"))


def calls() -> tuple[str, ...]:
    """Return every crossing of a port: ledger, Kafka's offsets and batches, tables, the job, and schemas."""
    named = (
        f"{port}.{name}"
        for port, protocols in PORTS.items()
        for name in sorted(frozenset().union(*map(methods, protocols)))
    )
    return tuple(name for name in named if name not in _NO_CALL)


def watched(ports: Ports, watcher: Watcher) -> Ports:
    """Return ports at every one of which somebody stands."""
    return replace(
        ports,
        ledger=Watched("ledger", ports.ledger, watcher),
        source=Watched("source", ports.source, watcher),
        batches=Watched("batches", ports.batches, watcher),
        mirror=Watched("mirror", ports.mirror, watcher),
        lake=_Tables(ports.lake, watcher),
        runner=Watched("runner", ports.runner, watcher),
        schemas=Watched("schemas", ports.schemas, watcher),
    )


class _Tables:
    def __init__(self, lake: Any, watcher: Watcher) -> None:
        self._lake, self._watcher = lake, watcher

    def table(self, identifier: str) -> Any:
        return Watched("table", self._lake.table(identifier), self._watcher, table=identifier)


class Watched:
    """A port whose every call goes through a watcher."""

    def __init__(self, port: str, target: Any, watcher: Watcher, *, table: str | None = None) -> None:
        self._port, self._target, self._watcher, self._table = port, target, watcher, table

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        return self._crossing(f"{self._port}.{name}", value) if callable(value) else value

    def _crossing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def cross(*arguments: Any, **named: Any) -> Any:
            return self._watcher(
                Crossing(name=name, table=self._table, method=method, arguments=arguments, named=named)
            )

        return cross
