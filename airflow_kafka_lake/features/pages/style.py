"""The look of a page: light and dark, narrow and wide, without anything from elsewhere."""

from __future__ import annotations

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for a page (Content-Security-Policy): nothing."""

STYLE = """
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1d2125; --faint: #5e6770; --line: #dfe3e6;
  --good: #1a7f4e; --bad: #b3261e; --good-back: #e3f4ea; --bad-back: #fbe6e4;
  --committed: #3d7ea6; --skipped: #9aa3ab; --planned: #a9d3ea; --unread: #e4e8eb; --held: #e69f00; --lost: #c8321f;
  --sealed: #111417; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171a; --card: #1c2024; --ink: #e6e9ec; --faint: #9aa5af; --line: #30373d;
  --good: #6fd3a0; --bad: #ff9d94; --good-back: #173527; --bad-back: #41201d;
  --committed: #4f9cc9; --skipped: #6d767e; --planned: #2c5670; --unread: #30373d; --held: #e6a91a; --lost: #ee5a46;
  --sealed: #ffffff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.25rem clamp(.75rem, 3vw, 2rem) 3rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .faint { color: var(--faint); } .small { font-size: .86rem; }
header { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; }
.verdict { padding: .15rem .7rem; border-radius: 1rem; font-weight: 600; }
.ok { color: var(--good); background: var(--good-back); } .failed { color: var(--bad); background: var(--bad-back); }
.sum { font-size: 1.05rem; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; margin: .8rem 0; }
.legend span { display: inline-block; width: 1rem; height: .8rem; margin-right: .4rem; border-radius: 2px;
  vertical-align: -1px; }
.committed { fill: var(--committed); background: var(--committed); }
.skipped { fill: var(--skipped); background: var(--skipped); }
.planned { fill: var(--planned); background: var(--planned); }
.unread { fill: var(--unread); background: var(--unread); }
.held { fill: var(--held); background: var(--held); } .lost { fill: var(--lost); background: var(--lost); }
.sealed { fill: var(--sealed); background: var(--sealed); }
.streams, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: .2rem .9rem; overflow-x: auto; }
.stream { display: grid; grid-template-columns: 3.5rem minmax(8rem, 2fr) 3fr; gap: .1rem .9rem; padding: .4rem .9rem;
  align-items: center; content-visibility: auto; contain-intrinsic-size: auto 3rem; }
.stream + .stream { border-top: 1px solid var(--line); }
.stream svg { display: block; width: 100%; height: 14px; border-radius: 2px; background: var(--page); }
.number { font-variant-numeric: tabular-nums; font-weight: 600; } .stream.bad .number { color: var(--bad); }
.edges { display: flex; justify-content: space-between; } ul.message { margin: 0; padding: 0; list-style: none; }
.problem { color: var(--bad); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .8rem .3rem 0;
  vertical-align: top; } tr + tr td { border-top: 1px solid var(--line); } th { color: var(--faint); font-weight: 500; }
td.kind { white-space: nowrap; font-weight: 600; }
@media (max-width: 46rem) { .stream { grid-template-columns: 2.6rem 1fr; } .stream > .said { grid-column: 1 / -1; }
  table, tbody, tr, td { display: block; } thead { display: none; } td { padding: .1rem 0; border: 0 !important; }
  tr { padding: .4rem 0; } tr + tr { border-top: 1px solid var(--line); } }
@media print { body { max-width: none; } .stream { break-inside: avoid; content-visibility: visible; } }
"""
