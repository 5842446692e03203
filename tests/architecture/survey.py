"""Survey the house: `python -m tests.architecture.survey [COMMIT ...]`, of the working tree without one.

Modules (with more than a docstring), lines, lines of code, sizes of modules and functions, files of the package in one
commit, the depth of imports, modules with one importer, data types, class names that are bare participles or given
twice, comments for each line of code, words "what" and "who" as nouns in docstrings, look-ups by a string in documents,
and lines of tests; then each folder. `test_survey.py` holds the figures that only shrink.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_kafka_lake"
COMMITS = 200
_PARTICIPLE = re.compile(r"(?:[A-Z][a-z]*(?:ed|en|ing)|Seen|Made|Given|Kept|Most|Gone|Sent|Chosen|Lost|Held)$")
_NOUNS = re.compile(r"\b(?:what|who|those that|whoever)\b", re.IGNORECASE)
_DATA = {"dataclass", "StrEnum", "Enum", "IntEnum", "NamedTuple", "TypedDict"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The figures of a checkout; shares are per cent, `nouns` is for each thousand words of docstrings."""

    modules: int
    lines: int
    code: int
    module_p50: int
    module_p90: int
    module_max: int
    function_p50: int
    function_p90: int
    function_p99: int
    commit_p50: int
    commit_p90: int
    depth: int
    one_importer: int
    data_types: int
    participles: int
    names_twice: int
    comments: float
    nouns: float
    lookups: int
    test_lines: int
    tests_per_line: float


class House:
    """The package of a checkout, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        text = {path: path.read_text(encoding="utf-8") for path in sorted((root / PACKAGE).rglob("*.py"))}
        trees = {path: ast.parse(each) for path, each in text.items()}
        self.tree = {path: tree for path, tree in trees.items() if len(tree.body) > bool(ast.get_docstring(tree))}
        self.text = {path: text[path] for path in self.tree}

    def module(self, path: Path) -> str:
        """Return the dotted name of a file."""
        return ".".join(path.relative_to(self.root).with_suffix("").parts).removesuffix(".__init__")

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Return the modules of the package that each module imports when it is loaded."""
        names = {self.module(path): path for path in self.tree}
        found: dict[str, set[str]] = {name: set() for name in names}
        for name, path in names.items():
            for node in _loaded(self.tree[path].body):
                if isinstance(node, ast.ImportFrom) and node.module:
                    full = {f"{node.module}.{alias.name}" for alias in node.names}
                    found[name] |= {each if each in names else node.module for each in full} & names.keys() - {name}
        return found

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Return the modules that import each module, anywhere in their text."""
        names = {self.module(path) for path in self.tree}
        found: dict[str, set[str]] = defaultdict(set)
        for path, tree in self.tree.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        full = f"{node.module}.{alias.name}"
                        found[full if full in names else node.module].add(self.module(path))
        return found

    @cached_property
    def depth(self) -> int:
        """Return the longest chain of imports at load time, counted in modules."""
        depths: dict[str, int] = {}

        def of(name: str, above: tuple[str, ...] = ()) -> int:
            if name in above:
                return 0
            if name not in depths:
                depths[name] = 1 + max((of(each, (*above, name)) for each in self.imports[name]), default=0)
            return depths[name]

        return max(map(of, self.imports))

    @cached_property
    def classes(self) -> Counter[str]:
        """Return how often each class name is defined at the top of a module, without private ones."""
        return Counter(
            node.name
            for tree in self.tree.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )


def _loaded(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Give the statements that run when a module is loaded: not those for the type checker alone."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for block in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try):
                yield from _loaded(getattr(node, block, []))


def _at(values: Sequence[int], share: float) -> int:
    ordered = sorted(values) or [0]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _functions(trees: Iterable[ast.AST]) -> list[int]:
    """Return the lines of code of every function, without its docstring."""
    found = []
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                found.append((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0)
    return found


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for each in body:
                if (
                    isinstance(each, ast.Expr)
                    and isinstance(each.value, ast.Constant)
                    and isinstance(each.value.value, str)
                ):
                    yield each.value


def _code(text: str, tree: ast.AST) -> tuple[int, int]:
    """Return the lines of code and of comments."""
    prose = {line for each in _docstrings(tree) for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT and "noqa" not in token.string}
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    filled = {line for token in tokens if token.type not in blank for line in range(token.start[0], token.end[0] + 1)}
    return len(filled - prose), len(comments)


def _commits(commit: str) -> list[int]:
    """Return how many files of the package each of the last commits touched."""
    words = ["git", "log", f"-{COMMITS}", "--name-only", "--format=%x00", commit, "--", f"{PACKAGE}/*.py"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return [len(part.split()) for part in done.stdout.split("\0") if part.split()]


def budgeted(house: House) -> dict[str, float]:
    """Return the figures that have a budget."""
    sizes = [text.count("\n") for text in house.text.values()]
    words = " ".join(each.value for tree in house.tree.values() for each in _docstrings(tree))
    nodes = [node for tree in house.tree.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {
        "modules": len(house.text),
        "lines": sum(sizes),
        "module_max": max(sizes),
        "depth": house.depth,
        "data_types": sum(map(_is_data, nodes)),
        "participles": sum(bool(_PARTICIPLE.match(name)) for name in house.classes),
        "lookups": sum(map(lookups, house.tree.values())),
        "nouns": round(1000 * len(_NOUNS.findall(words)) / max(1, len(words.split())), 1),
    }


def survey(root: Path = ROOT, commit: str = "HEAD") -> Survey:
    """Return the figures of a tree, which is that of a commit."""
    house = House(root)
    sizes = [text.count("\n") for text in house.text.values()]
    functions = _functions(house.tree.values())
    counted = [_code(text, house.tree[path]) for path, text in house.text.items()]
    code = sum(lines for lines, _ in counted)
    commits = _commits(commit)
    tests = sum(path.read_text(encoding="utf-8").count("\n") for path in (root / "tests").rglob("*.py"))
    return Survey(
        code=code,
        module_p50=_at(sizes, 0.5),
        module_p90=_at(sizes, 0.9),
        function_p50=_at(functions, 0.5),
        function_p90=_at(functions, 0.9),
        function_p99=_at(functions, 0.99),
        commit_p50=_at(commits, 0.5),
        commit_p90=_at(commits, 0.9),
        one_importer=round(100 * sum(len(each) == 1 for each in house.importers.values()) / len(house.text)),
        names_twice=sum(count > 1 for count in house.classes.values()),
        comments=round(100 * sum(lines for _, lines in counted) / code, 1),
        test_lines=tests,
        tests_per_line=round(tests / sum(sizes), 2),
        **budgeted(house),
    )


def _is_data(node: ast.ClassDef) -> bool:
    """Return whether a class is there for its fields; a trigger has some only because Airflow keeps them."""
    is_trigger = any(_last(base).endswith("Trigger") for base in node.bases)
    return bool(_DATA & {_last(each) for each in (*node.decorator_list, *node.bases)}) and not is_trigger


_ACCESS = {"get", "pop", "setdefault"}


def lookups(tree: ast.AST) -> int:
    """Count look-ups by a string: `document["rows"]`, `document.get("rows")`, where no type is checked."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            found += isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ACCESS:
            found += bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return found


def _last(node: ast.expr) -> str:
    """Return the last part of a decorator's or base's name, without its arguments."""
    return ast.unparse(node).partition("(")[0].partition("[")[0].rpartition(".")[2]


def folders(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Return the modules and lines of each folder of the package."""
    found: dict[str, tuple[int, int]] = {}
    for path, text in House(root).text.items():
        parts = path.relative_to(root / PACKAGE).parts
        name = parts[0] if len(parts) > 1 else "."
        modules, lines = found.get(name, (0, 0))
        found[name] = (modules + 1, lines + text.count("\n"))
    return found


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Give a folder with the tree of a commit; its history stays here."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # Python 3.11.4
        tar.extractall(folder)
        yield Path(folder)


def shown(root: Path, name: str) -> str:
    """Return the figures of a tree as tables in Markdown."""
    figures = "\n".join(f"| {figure} | {value:,} |" for figure, value in asdict(survey(root, name)).items())
    by_size = sorted(folders(root).items(), key=lambda item: -item[1][1])
    rows = "\n".join(f"| {folder} | {modules} | {lines:,} |" for folder, (modules, lines) in by_size)
    return f"| {name} | |\n|---|---|\n{figures}\n\n| folder | modules | lines |\n|---|---|---|\n{rows}\n\n"


def main(commits: Sequence[str]) -> None:
    """Print the figures of each tree."""
    for commit in commits:
        with tree_of(commit) as root:
            sys.stdout.write(shown(root, commit))
    if not commits:
        sys.stdout.write(shown(ROOT, "HEAD"))


if __name__ == "__main__":
    main(sys.argv[1:])
