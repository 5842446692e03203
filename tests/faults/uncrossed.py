"""Failpoints that no command crosses, and why; a test holds this list against what every act crosses."""

from __future__ import annotations

from collections.abc import Mapping

UNCROSSED: Mapping[str, str] = {f"table.contents:{side}": "no command asks for it" for side in ("before", "after")}
