"""An interceptor sees every call of a port, and decides whether it is made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.interceptors import PORTS, PortCall, calls, intercepted
from tests.world import World

pytestmark = pytest.mark.unit


def test_every_call_of_every_port_is_seen() -> None:
    """A whole run, with the names of the calls in their order; attributes are handed through."""
    world, seen = World(), []
    world.produce(2)

    def watch(call: PortCall) -> Any:
        seen.append(call.name)
        return call.go()

    ports = intercepted(world.worker(), watch)
    assert world.run(worker=ports).exit_code == 0
    world.check()
    assert {name.split(".")[0] for name in seen} == {"ledger", "source", "batches", "table", "runner"}
    order = ["ledger.claim", "runner.stage", "table.staged", "table.publish", "ledger.record_commit", "ledger.advance"]
    assert [name for name in seen if name in order] == [*order, "ledger.advance"]
    assert ports.lake.table("raw.orders").identifier == "raw.orders"


def test_an_interceptor_may_keep_a_call_from_being_made() -> None:
    """A call that it does not make is not made."""
    world = World()
    ports = intercepted(world.worker(), lambda call: call.name)
    assert ports.lake.table("raw.orders").drop("0" * 16) == "table.drop"
    assert ports.ledger.pipelines() == "ledger.pipelines"
    assert world.table._store is None


def test_the_calls_are_computed_from_the_ports() -> None:
    """A new method of a port is a call without further ado; `runner.where` asks no other system and is none."""
    some = {"ledger.claim", "ledger.waves", "source.snapshot", "batches.explain", "table.publish", "runner.stage"}
    assert some <= set(calls())
    assert "runner.where" not in calls()


@pytest.mark.parametrize("port", PORTS)
def test_a_port_has_at_most_seven_methods(port: str) -> None:
    """More belong to ports of their own, by who asks; only unions of ports are larger."""
    for protocol in PORTS[port].__mro__:
        own = [name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_")]
        assert len(own) <= 7, f"{protocol.__name__}: {own}"
