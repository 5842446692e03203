"""Count the house by folder: `python tests/architecture/count.py [COMMIT ...]`, of the working tree without one.

Modules, lines, code (lines that are neither blank, comment nor docstring), classes, functions; of the code, in per
cent, the comments, and of the functions with more than two parameters those that take the others by keyword only;
functions with more than four positional parameters, and over a complexity of 8 (branches, loops, handlers, cases,
conditions of comprehensions, conditional expressions and boolean operators, each one more); and public names that have
a word which the last table of the glossary replaces. `types in core` are its classes and aliases.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_kafka_lake"
COUNTED = (PACKAGE, "tests", "bench", "docs")
POSITIONAL, COMPLEXITY = 4, 8
_ROW = re.compile(r"\| (?P<old>[a-z_, ]+) \| [^|]+ \|")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.match_case,
    ast.Assert,
)


@dataclass
class Counts:
    """What was counted in some modules."""

    modules: int = 0
    lines: int = 0
    code: int = 0
    classes: int = 0
    functions: int = 0
    comments: int = 0
    long_functions: int = 0
    by_keyword: int = 0
    positional: int = 0
    complex: int = 0
    old_words: int = 0
    words: set[str] = field(default_factory=set)

    def add(self, other: Counts) -> None:
        """Add what was counted elsewhere."""
        for each in fields(self):
            if each.name == "words":
                self.words |= other.words
            else:
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def row(self) -> list[str]:
        """Return the cells of a table."""
        return [
            *(f"{number:,}" for number in (self.modules, self.lines, self.code, self.classes, self.functions)),
            f"{100 * self.comments / max(1, self.code):.1f}",
            f"{100 * self.by_keyword / max(1, self.long_functions):.0f}",
            *(f"{number:,}" for number in (self.positional, self.complex, self.old_words)),
        ]


COLUMNS = ("modules", "lines", "code", "classes", "functions", "comments %", "keyword %", ">4 pos.", ">8", "old words")


def replaced_words() -> frozenset[str]:
    """Return the words that the last table of the glossary replaces."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = (match["old"] for line in text.splitlines() if (match := _ROW.fullmatch(line)))
    return frozenset(word.strip() for row in rows for word in row.split(",")) - {"word"}


def count(path: Path, old: frozenset[str]) -> Counts:
    """Count one module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = Counts(modules=1, lines=len(text.splitlines()))
    found.code, found.comments = _code_and_comments(text, tree)
    public = [path.stem if path.stem != "__init__" else path.parent.name]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.classes += 1
            public.append(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(_function(node))
            public.append(node.name)
    for name in public:
        if not name.startswith("_") and (has := old & {word.lower() for word in _WORD.findall(name)}):
            found.old_words += 1
            found.words |= has
    return found


def _code_and_comments(text: str, tree: ast.Module) -> tuple[int, int]:
    """Count lines with code, and lines with a comment that is meant for people."""
    prose = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code, comments = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:)", token.string):
            comments.add(token.start[0])
        elif token.type not in silent:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - prose), len(comments)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Counts:
    by_position = [item.arg for item in (*node.args.posonlyargs, *node.args.args) if item.arg not in {"self", "cls"}]
    long = len(by_position) + len(node.args.kwonlyargs) > 2
    return Counts(
        functions=1,
        long_functions=int(long),
        by_keyword=int(long and len(by_position) <= 2),
        positional=int(len(by_position) > POSITIONAL),
        complex=int(_complexity(node) > COMPLEXITY),
    )


def _complexity(node: ast.AST) -> int:
    total = 1
    for inner in _own(node):
        total += isinstance(inner, _BRANCHES)
        total += len(inner.values) - 1 if isinstance(inner, ast.BoolOp) else 0
        total += 1 + len(inner.ifs) if isinstance(inner, ast.comprehension) else 0
    return total


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a function, without the functions and classes inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            yield from _own(child)


def types_in_core(root: Path) -> int:
    """Count classes and aliases of types in core."""
    found = 0
    for path in (root / PACKAGE / "core").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        found += sum(_is_alias(node) for node in tree.body)
    return found


def _is_alias(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    name, value = node.targets[0].id, node.value
    return (
        not name.startswith("_")
        and not name.isupper()
        and name[0].isupper()
        and isinstance(value, ast.Subscript | ast.BinOp)
    )


def by_folder(root: Path) -> dict[str, Counts]:
    """Count a tree, by folder: those of the package one by one, and the rest as a whole."""
    old, found = replaced_words(), defaultdict[str, Counts](Counts)
    for top in COUNTED:
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).parts
            deep = 2 if top == PACKAGE and len(parts) > 3 and parts[1] in {"core", "adapters", "features"} else 1
            counted = count(path, old)
            folder = "/".join(parts[: min(deep + 1, len(parts) - 1)])
            found[folder].add(counted)
            found[f"{top} as a whole"].add(counted)
    return dict(found)


def trees(commits: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield each tree with its name."""
    if not commits:
        yield "the working tree", ROOT
    for commit in commits:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(folder, filter="data")
            yield commit, Path(folder)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(commits: Sequence[str]) -> int:
    """Print the counts of each tree."""
    for name, root in trees(commits):
        found = by_folder(root)
        words = found[f"{PACKAGE} as a whole"].words
        head = [("folder", *COLUMNS), ["---"] * (len(COLUMNS) + 1)]
        rows = [(folder, *counts.row()) for folder, counts in sorted(found.items())]
        sys.stdout.write(
            f"## {name}\n\n{table([*head, *rows])}\n\ntypes in core: {types_in_core(root)}; replaced words that the "
            f"package still names something with: {len(words)} ({', '.join(sorted(words)) or 'none'})\n\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
