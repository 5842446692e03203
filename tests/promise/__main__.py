"""`python -m tests.promise`: freeze what today's code promises, when a version is released.

A break that the changelog does not name is not frozen. Before the first release nothing is promised, and all is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.promise import changelog
from tests.promise.surfaces import SURFACES, Surface, breaks


def freeze(surfaces: Sequence[Surface], text: str) -> list[str]:
    """Write the frozen copies; returns the subjects that the changelog has to name before, and then writes nothing."""
    now = {surface.name: surface.now() for surface in surfaces}
    found = [item for each in surfaces if each.file.exists() for item in breaks(each, each.frozen(), now[each.name])]
    missing = changelog.unnamed(found, text) if changelog.released(text) else []
    for surface in surfaces if not missing else ():
        surface.file.write_text("\n".join(now[surface.name]) + "\n", encoding="utf-8")
    return missing


def main() -> int:
    """Freeze; returns the exit code."""
    missing = freeze(SURFACES, changelog.read())
    for item in missing:
        sys.stderr.write(f"not in the changelog: `{item}`\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
