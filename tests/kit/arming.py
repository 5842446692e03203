"""Arms the processes that tests start: with failpoints, with a history, or with both.

The product knows of neither. `environment` returns the variables with which a process is started; its Python arms
itself by them before anything else runs (`tests/kit/site`), and so do all that it starts: tasks, triggers, drivers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

FAILPOINTS, DIARY, HISTORY = "KIT_FAILPOINTS", "KIT_DIARY", "KIT_HISTORY"
ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent / "site"


def environment(*, traps: str = "", diary: Path | str = "", history: Path | str = "") -> dict[str, str]:
    """Return what a process needs in its environment; `traps` as `tests.kit.traps.parse` reads them."""
    given = {FAILPOINTS: traps, DIARY: str(diary), HISTORY: str(history)}
    path = [str(SITE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**{name: value for name, value in given.items() if value}, "PYTHONPATH": os.pathsep.join(path)}


def arm(given: Mapping[str, str] = os.environ) -> None:
    """Arm this process; wrong values of the variables are refused when ports are opened.

    The history comes last and is outermost: it has the answers that the actor got, not what really happened.
    A Spark driver has only the part of the package that travels, opens no port, and has its traps in its program.
    """
    if not any(map(given.get, (FAILPOINTS, HISTORY))) or find_spec("airflow_kafka_lake.wiring") is None:
        return
    from airflow_kafka_lake.wiring.assemble import wrap

    if given.get(FAILPOINTS):
        from tests.kit.failpoints import Trapping

        trapping = Trapping(given[FAILPOINTS], given.get(DIARY, ""))
        trapping.arm_drivers()
        wrap(trapping)
    if given.get(HISTORY):
        from tests.kit.recorder import Recording

        wrap(Recording(Path(given[HISTORY])))
