"""What a program's own code puts around the ports that this process opens, to see or to disturb every call.

Nothing is there unless code calls `wrap`: no setting, no connection and no variable of the environment does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ledger, Ports


class Wrapper(Protocol):
    """Takes ports and returns ports that stand before them."""

    def ports(self, ports: Ports) -> Ports:
        """Wrap all ports of a pipeline."""

    def ledger(self, ledger: Ledger) -> Ledger:
        """Wrap a ledger that is opened alone."""


_wrappers: list[Wrapper] = []


def wrap(wrapper: Wrapper) -> None:
    """Put a wrapper around whatever this process, and those forked from it, opens from now on."""
    _wrappers.append(wrapper)


def wrapped(ports: Ports) -> Ports:
    """Return ports behind every wrapper, the first one innermost."""
    for wrapper in _wrappers:
        ports = wrapper.ports(ports)
    return ports


def wrapped_ledger(ledger: Ledger) -> Ledger:
    """Return a ledger behind every wrapper."""
    for wrapper in _wrappers:
        ledger = wrapper.ledger(ledger)
    return ledger
