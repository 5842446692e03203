"""`make soak`: hours of faults on real parts, and the proof afterwards that nothing was lost or doubled.

    make soak ARGS="--minutes 30 --records 1000000 --seed 7"
    make soak ARGS="--list"

The same seed deals the same faults to the same rounds; what they hit at which moment is up to the machine.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tests.soak.screen import Screen

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

ALONE = "KAFKA_LAKE_SOAK_ALONE"
"""Set in the process that has a process and mount namespace of its own: when it ends, everything in it has ended."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the words."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=…", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long faults strike (30)")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many records are produced at least")
    parser.add_argument("--seed", type=int, help="deals the faults; printed, so that a run can be repeated")
    parser.add_argument("--realistic", action="store_true", help="on secured brokers, a REST catalog, S3 and a cluster")
    parser.add_argument("--faults", help="only these, separated by commas")
    parser.add_argument("--list", action="store_true", help="show the faults and end")
    parser.add_argument("--keep", action="store_true", help="leave logs, ledger dump and warehouse for a look")
    parser.add_argument("--report", type=Path, help="write the result as JSON")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the soak; 0 when everything held."""
    words = arguments(argv)
    if words.list:
        return show_faults()
    if words.seed is None:
        words.seed = random.SystemRandom().randrange(1, 10**6)
    return soak(words)


def screen() -> Screen:
    """Return what speaks to people; imported late, for this file must find its own tree first."""
    from tests.soak.screen import Screen

    return Screen()


def show_faults() -> int:
    """Print every kind of fault."""
    from tests.soak.faults import FAULTS

    rows = [(name, fault.words) for name, fault in FAULTS.items()]
    screen().table(f"{len(rows)} kinds of faults", ("fault", "what it does"), rows)
    return 0


def soak(words: argparse.Namespace) -> int:
    """Run the soak, where possible in namespaces of its own."""
    if not os.environ.get(ALONE) and (apart := unshared()):
        return subprocess.run([*apart, sys.executable, __file__, *again(words)], check=False).returncode
    return soak_here(words)


def unshared() -> list[str]:
    """Return the words that give a process its own namespaces; none where that is not allowed."""
    tool = shutil.which("unshare")
    words = [tool or "", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if tool is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        return []
    return ["env", f"{ALONE}=1", *words]


def again(words: argparse.Namespace) -> list[str]:
    """Return the words that say the same again, with the seed."""
    found = ["--minutes", str(words.minutes), "--records", str(words.records)]
    found += ["--seed", str(words.seed)]
    found += ["--faults", words.faults] if words.faults else []
    found += [f"--{name}" for name in ("keep", "realistic") if getattr(words, name)]
    return found + (["--report", str(words.report.absolute())] if words.report else [])


def soak_here(words: argparse.Namespace) -> int:
    """Run the soak in this process."""
    from tests.soak.campaign import Campaign, Wish
    from tests.soak.faults import FAULTS
    from tests.soak.place import Place
    from tests.soak.realistic import RealisticPlace

    signal.signal(signal.SIGTERM, _interrupt)
    faulthandler.register(signal.SIGUSR1)  # where does it stand?
    place = RealisticPlace if words.realistic else Place
    possible = tuple(name for name in FAULTS if name not in place.impossible)
    chosen = tuple(words.faults.split(",")) if words.faults else possible
    if unknown := [name for name in chosen if name not in possible]:
        screen().line(f"no such fault: {', '.join(unknown)}. See --list")
        return 2
    asked = {"minutes": words.minutes, "records": words.records, "seed": words.seed, "keep": words.keep}
    wish = Wish(place=place, faults=chosen, **asked)
    shown = screen()
    shown.line(f"seed {wish.seed}: {len(chosen)} kinds of faults, {words.minutes:g} minutes, {words.records:,} records")
    try:
        report = Campaign(wish, shown).run()
    except KeyboardInterrupt:
        shown.line("stopped; nothing is left running")
        return 130
    if words.report:
        words.report.write_text(json.dumps(report, indent=2) + "\n")
    shown.result(report)
    return 0 if report["ok"] else 1


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
