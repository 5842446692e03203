"""The faults, by the room they happen in."""

from __future__ import annotations

from tests.soak.faults.kafka import KAFKA_FAULTS
from tests.soak.faults.lake import LAKE_FAULTS
from tests.soak.faults.machine import MACHINE_FAULTS
from tests.soak.faults.network import NETWORK_FAULTS
from tests.soak.faults.processes import PROCESS_FAULTS
from tests.soak.faults.realistic import REALISTIC_FAULTS
from tests.soak.faults.strike import Fault, Scene

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        *PROCESS_FAULTS,
        *NETWORK_FAULTS,
        *KAFKA_FAULTS,
        *LAKE_FAULTS,
        *MACHINE_FAULTS,
        *REALISTIC_FAULTS,
    )
}

__all__ = ["FAULTS", "Fault", "Scene"]
