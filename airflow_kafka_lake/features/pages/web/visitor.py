"""For whom a page is drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A user before a page: `base` is the address of these pages without a slash at its end, `csrf` goes with every
    decision in the header `X-Kafka-Lake-Token`, `may_decide` whether the user may decide about what the page shows."""

    base: str
    name: str
    csrf: str
    ledger: str
    may_decide: bool = False
