"""Pictures of a report, as SVG that suits light and dark pages: bars with their spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from bench.racing import Run
from bench.results import Spread, spread

WIDTH, ROW, TOP, LEFT, RIGHT = 760, 30, 46, 190, 110
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff; color: #1c2733 }
text { fill: currentColor } .title { font-weight: 600; font-size: 15px } .small { font-size: 11px; opacity: .75 }
.bar { fill: #9db4c8 } .ours { fill: #2f7d4f }
.spread { stroke: currentColor; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
svg { background: #14191f; color: #dde5ec } .bar { fill: #48627a } .ours { fill: #4fae78 } }
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


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<text class="title" x="14" y="26">{escape(title)}</text>\n{body}\n</svg>\n'
    )
