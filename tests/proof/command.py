"""`make proof`: the nightly. It goes on where a stopped one was; a part that is not green makes the whole red.

    make proof                                    # everything that is not green for this commit yet
    make proof ARGS="--list"                      # the parts, their minutes, and what is known of them
    make proof ARGS="--only histories --seed 7"
    make proof ARGS="--red"                       # once more what is red in the evidence, as it was dealt then

Exit code: 0 all of the chosen parts are green, 1 one is not, 2 it cannot begin or the tree changed, 130 stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.proof.evidence import FOLDER, Evidence
from tests.proof.parts import HISTORIES, PARTS, SOAK_MINUTES, Part, Wish, Work
from tests.proof.play import MovedError, Proof, in_minutes
from tests.proof.tree import Tree
from tests.proof.versions import versions
from tests.soak.screen import Screen

SEEDS = 10**6
Chosen = Mapping[str, tuple[Part, Sequence[Work]]]


def arguments(words: Sequence[str], names: Sequence[str]) -> argparse.Namespace:
    """Read the words."""
    parser = argparse.ArgumentParser(prog="make proof ARGS=…", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=names, action="append", help="only this part; may be given again")
    parser.add_argument("--list", action="store_true", help="show the parts and what is known of them, and end")
    parser.add_argument("--again", action="store_true", help="play also what is green for this commit")
    parser.add_argument("--red", action="store_true", help="only the chunks that are red, with the seed of the first")
    parser.add_argument("--seed", type=int, help="deals histories, faults and orders; the commit deals them without it")
    parser.add_argument("--histories", type=int, default=HISTORIES, help=f"how many are simulated ({HISTORIES:,})")
    parser.add_argument("--minutes", type=float, default=SOAK_MINUTES, help="how long the soak strikes (60)")
    parser.add_argument("--evidence", type=Path, default=FOLDER, help="another folder for the evidence, for a try")
    return parser.parse_args(words)


def main(
    words: Sequence[str],
    parts: Sequence[Part] = PARTS,
    tree: Tree | None = None,
    found_versions: Callable[[], Mapping[str, str]] = versions,
) -> int:
    """Play what was asked for; returns the exit code."""
    tree = tree or Tree()
    asked = arguments(words, [part.name for part in parts])
    screen = Screen()
    if changed := tree.changed():
        screen.line(
            f"{len(changed)} files differ from the commit ({changed[0]}, …). Evidence speaks of a commit: "
            "commit them, or stash them (git stash -u), and run it again"
        )
        if not asked.list:
            return 2
    chosen = [part for part in parts if not asked.only or part.name in asked.only]
    seed = asked.seed if asked.seed is not None else _seed(tree, asked.evidence, parts, red=chosen if asked.red else ())
    wish = Wish(seed=seed, histories=asked.histories, minutes=asked.minutes)
    works: Chosen = {part.name: (part, part.works(wish)) for part in chosen}
    proof = Proof(
        tree=tree,
        folder=asked.evidence,
        logs=tree.root / "build" / "proof",
        versions=found_versions(),
        screen=screen,
        again=asked.again,
        only_red=asked.red,
    )
    if asked.list:
        _show(proof, works)
        return 0
    screen.line(f"seed {seed}, commit {tree.commit()}")
    try:
        proof.play(works, seed)
    except KeyboardInterrupt:
        screen.line("stopped; run it again, and it goes on with what is not green yet")
        return 130
    except MovedError as moved:
        screen.line(f"the tree changed while it was played, so this proves nothing: {moved}")
        return 2
    return _show(proof, works)


def _seed(tree: Tree, folder: Path, parts: Sequence[Part], *, red: Sequence[Part]) -> int:
    """Return the seed of the first that is red in some parts, or of what is known of this tree, so that it goes on with
    that; else one that the commit deals."""
    for part in red or parts:
        for chunk in Evidence.read(part.name, folder).chunks.values():
            if chunk.seed is not None and (chunk.red if red else tree.same(chunk.commit)):
                return chunk.seed
    return int(tree.commit(), 16) % SEEDS


def _show(proof: Proof, works: Chosen) -> int:
    """Show a line for each part; returns 0 when all of them are green for this tree."""
    rows = []
    for name, (part, items) in works.items():
        evidence = Evidence.read(name, proof.folder)
        waiting = list(proof.waiting(part, items, again=False))
        red = [f"{chunk}: {item.red}" for chunk, item in evidence.chunks.items() if item.red]
        took = evidence.seconds or sum(proof.expected(name, work) for work in items)
        counts = evidence.counts
        done = f"{len(items) - len(waiting)} of {len(items)}"
        state = "not played" if waiting else "green" if counts.passed else "RED no case was played"
        state = f"RED {'; '.join(red)}" if red else state
        rows.append((name, state, done, f"{counts.passed:,} {part.cases}", in_minutes(took), evidence.played()))
    proof.screen.table("proof", ("part", "is", "#chunks", "#passed", "#takes", "played at"), rows)
    return int(any(row[1] != "green" for row in rows))
