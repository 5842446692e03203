"""Pictures of a report, as SVG that suits light and dark pages: bars with their spread, and lines of growth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from bench.racing import Run
from bench.results import Growth, Spread, spread

WIDTH, ROW, TOP, LEFT, RIGHT = 760, 30, 46, 190, 110
PLOT = 300
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff; color: #1c2733 }
text { fill: currentColor } .title { font-weight: 600; font-size: 15px } .small { font-size: 11px; opacity: .75 }
.bar { fill: #9db4c8 } .ours { fill: #2f7d4f } .line { stroke: #5b7186; stroke-width: 1.5; fill: none }
.mine { stroke: #2f7d4f; stroke-width: 2.5; fill: none } .axis { stroke: currentColor; opacity: .35 }
.spread { stroke: currentColor; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
svg { background: #14191f; color: #dde5ec } .bar { fill: #48627a } .ours { fill: #4fae78 }
.line { stroke: #8aa3ba } .mine { stroke: #4fae78 } }
"""


def is_ours(arm: str) -> bool:
    """Return whether an arm is this package's."""
    return arm == "ours" or arm.startswith("ours-")


def bars(title: str, arms: Mapping[str, Sequence[Run]]) -> str:
    """Return the medians of the arms' seconds as bars, each with its least and most."""
    found = {name: seconds for name, runs in arms.items() if (seconds := spread(runs, lambda run: run.seconds))}
    longest = max((item.most for item in found.values()), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / longest
    rows = [_bar(name, item, TOP + number * ROW, scale=scale) for number, (name, item) in enumerate(found.items())]
    return _svg(f"{title}: seconds", TOP + len(rows) * ROW + 14, rows)


def _bar(name: str, seconds: Spread, top: float, *, scale: float) -> str:
    middle, end = top + ROW / 2 - 3, LEFT + seconds.median * scale
    least, most = LEFT + seconds.least * scale, LEFT + seconds.most * scale
    kind = "ours" if is_ours(name) else "bar"
    return (
        f'<text x="{LEFT - 10}" y="{middle + 4:.0f}" text-anchor="end">{escape(name)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{top + 3:.0f}" width="{end - LEFT:.1f}" height="{ROW - 12}" rx="3"/>'
        f'<line class="spread" x1="{least:.1f}" x2="{most:.1f}" y1="{middle:.0f}" y2="{middle:.0f}"/>'
        f'<text x="{most + 8:.1f}" y="{middle + 4:.0f}">{seconds.median:.1f} s</text>'
    )


def lines(title: str, growths: Sequence[Growth]) -> str:
    """Return times over sizes, both axes in logarithms: a straight line is a power, its slope the exponent."""
    points = [point for item in growths for point in item.points]
    x, y = _Axis.of(size for size, _ in points), _Axis.of(seconds for _, seconds in points)
    across, down = WIDTH - 60 - 240, PLOT
    parts = [f'<path class="axis" d="M60 {TOP}V{TOP + down}H{60 + across}" fill="none"/>']
    parts += [
        f'<text class="small" x="{60 + x.at(size) * across:.0f}" y="{TOP + down + 18}">{size:g}×</text>'
        for size in sorted({size for size, _ in points})
    ]
    parts += [
        f'<text class="small" x="10" y="{TOP + (1 - y.at(value)) * down + 4:.0f}">{value:.1f} s</text>'
        for value in (y.least, y.most)
    ]
    ends: list[float] = []
    for item in growths:
        path = [(60 + x.at(size) * across, TOP + (1 - y.at(seconds)) * down) for size, seconds in item.points]
        ends.append(_free(path[-1][1], ends))
        drawn = "L".join(f"{left:.1f} {top:.1f}" for left, top in path)
        parts.append(
            f'<path class="{"mine" if is_ours(item.arm) else "line"}" d="M{drawn}"/>'
            f'<text x="{path[-1][0] + 8:.0f}" y="{ends[-1] + 4:.0f}">{escape(item.arm)}, {item.exponent:.2f}</text>'
        )
    return _svg(f"{title}: growth", TOP + down + 34, parts)


class _Axis:
    """A logarithmic axis from the least to the most."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    @classmethod
    def of(cls, values: Iterable[float]) -> _Axis:
        found = list(values)
        return cls(min(found), max(found))

    def at(self, value: float) -> float:
        """Return where a value is, from 0 to 1."""
        whole = math.log(self.most / self.least)
        return math.log(value / self.least) / whole if whole else 0.5


def _free(wanted: float, taken: Sequence[float], apart: float = 15) -> float:
    """Return the nearest height below which no label is written yet."""
    while any(abs(wanted - other) < apart for other in taken):
        wanted += apart
    return wanted


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<text class="title" x="14" y="26">{escape(title)}</text>\n{body}\n</svg>\n'
    )
