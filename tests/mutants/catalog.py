"""Every guard of the protocol, with its removal and the tests that fail without it."""

from __future__ import annotations

from tests.mutants.approving import APPROVING
from tests.mutants.audit import AUDIT
from tests.mutants.bisecting import BISECTING
from tests.mutants.edges import EDGES
from tests.mutants.machine import MACHINE
from tests.mutants.mutant import Mutant
from tests.mutants.neighbours import NEIGHBOURS
from tests.mutants.notifying import NOTIFYING
from tests.mutants.only_copies import ONLY_COPIES
from tests.mutants.order import GATE, SEALS
from tests.mutants.page import PAGE
from tests.mutants.pauses import PAUSES
from tests.mutants.rebuilding import REBUILDING
from tests.mutants.records import RECORDS
from tests.mutants.reopening import REOPENING
from tests.mutants.requests import REQUESTS
from tests.mutants.resuming import RESUMING
from tests.mutants.services import SERVICES
from tests.mutants.signals import SIGNALS
from tests.mutants.table import TABLE

MUTANTS: tuple[Mutant, ...] = (
    *SERVICES,
    *GATE,
    *SEALS,
    *REBUILDING,
    *REOPENING,
    *RECORDS,
    *TABLE,
    *MACHINE,
    *AUDIT,
    *BISECTING,
    *RESUMING,
    *ONLY_COPIES,
    *EDGES,
    *PAUSES,
    *REQUESTS,
    *PAGE,
    *APPROVING,
    *SIGNALS,
    *NEIGHBOURS,
    *NOTIFYING,
)
