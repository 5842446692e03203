"""The benchmark: `make bench`, or `make bench ARGS="--only audit --records 1000000"`.

Seconds depend on the machine and on what else it does; what is compared is the arms of one run with each other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.accounting import overhead
from bench.audit import Measured, comparing, counting
from bench.history import growing

ARMS: dict[str, Callable[[argparse.Namespace], list[Measured]]] = {
    "audit": lambda chosen: [
        counting("audit", chosen.records, 0),
        counting("audit, 1 % gaps", chosen.records, 100),
        counting("audit, one-record transactions", chosen.records, 2),
    ],
    "accounting": lambda chosen: overhead(chosen.wave_records),
    "history": lambda chosen: growing(chosen.waves),
    "deep": lambda chosen: comparing(chosen.deep_records),
}


def main(words: Sequence[str] | None = None) -> None:
    """Run the chosen arms and print what they cost."""
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(ARMS), action="append", help="only this part; may be given again")
    parser.add_argument("--records", type=int, default=10_000_000, help="offsets that are counted")
    parser.add_argument("--deep-records", type=int, default=1_000_000, help="records that are compared byte by byte")
    parser.add_argument("--wave-records", type=int, default=300_000, help="records of a wave whose audit is timed")
    parser.add_argument("--waves", type=int, default=1_000, help="waves that are behind a table at most")
    parser.add_argument("--report", type=Path, help="also write the numbers to this file, as JSON")
    chosen = parser.parse_args(words)
    found: list[Measured] = []
    print(f"{'arm':32}{'records':>12}{'seconds':>10}{'MiB':>8}{'records/s':>12}{'of the first':>14}")
    for name in chosen.only or ARMS:
        for item in ARMS[name](chosen):
            found.append(item)
            share = (item.seconds / item.records) / (found[0].seconds / found[0].records)
            speed = item.records / item.seconds
            print(f"{item.arm:32}{item.records:12,}{item.seconds:10.2f}{item.mib:8,.0f}{speed:12,.0f}{share:13.1f}x")
    if chosen.report:
        chosen.report.write_text(json.dumps([asdict(item) for item in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
