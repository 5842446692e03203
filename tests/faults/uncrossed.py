"""Failpoints that no command crosses, and why; a test holds this list against what every act crosses."""

from __future__ import annotations

from collections.abc import Mapping

_REASONS = {
    "source.transactions": "asked only while a transaction is open",
    "mirror.commit": "only where a pipeline names a group",
    "runner.redecode": "only `kafka-lake decode`, which has no wave: main moves once, at its end, or not at all",
    "schemas.versions": "only where a pipeline decodes values with a schema registry",
    "source.epoch_ends": "asked only after a partition's leader epoch has changed",
}

UNCROSSED: Mapping[str, str] = {f"{call}:{side}": why for call, why in _REASONS.items() for side in ("before", "after")}
