"""Wrappers of the ports that this process opens, with which a program can watch or disturb every call.

Only code can add one, by `wrap`: no setting, no connection and no environment variable does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_kafka_lake.ports import Ledger, Ports


class Wrapper(Protocol):
    """Returns ports that wrap given ones."""

    def ports(self, ports: Ports) -> Ports:
        """Wrap all ports of a pipeline."""

    def ledger(self, ledger: Ledger) -> Ledger:
        """Wrap a ledger that is opened alone."""


_wrappers: list[Wrapper] = []


def wrap(wrapper: Wrapper) -> None:
    """Wrap all ports that this process, and those forked from it, open from now on."""
    _wrappers.append(wrapper)


def wrapped(ports: Ports) -> Ports:
    """Return ports in every wrapper, the first one innermost."""
    for wrapper in _wrappers:
        ports = wrapper.ports(ports)
    return ports


def wrapped_ledger(ledger: Ledger) -> Ledger:
    """Return a ledger in every wrapper."""
    for wrapper in _wrappers:
        ledger = wrapper.ledger(ledger)
    return ledger
