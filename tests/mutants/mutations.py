"""Small slips that a module's source may be given: one comparison turned, one statement gone, one constant changed.

What no test should look at is left alone: documentation, types, exports, representations, what is logged, the words
of errors, assertions that only narrow types, and how long a wait or how large a read is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.mutants.mutant import ROOT

PACKAGE = ROOT / "airflow_kafka_lake"

_OPPOSITE: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDARY: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_KEY = re.compile(r"[\w.\-]+")
"""A constant text that is a key, not prose."""

_SYMMETRIC = {"isinstance", "min", "max"}
_SILENT_CALLS = {"assert_never", "cast", "TypeVar", "NewType", "getLogger", "simplefilter", "filterwarnings"}
_LOGGERS = {"log", "_log", "logger", "_logger", "logging", "warnings"}
_DUNDERS = {"__all__", "__slots__", "__version__"}
_FORM = {"__repr__", "__str__", "__rich__"}
_TUNED = re.compile(r"_(SECONDS|BYTES|MS|PAUSE|TIMEOUT)\b|_(SECONDS|BYTES|MS)_")
"""Names of module constants whose value is a matter of taste."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """One change of one module; `start` and `end` bound the bytes of the source that `new` replaces.

    `place` is the function, or class and method, that holds it; empty at module level. `nth` tells slips of one place
    apart that read alike.
    """

    file: str
    place: str
    line: int
    operator: str
    before: str
    after: str
    nth: int
    start: int
    end: int
    new: str

    @property
    def key(self) -> str:
        """Return what names this slip as long as its place is not reworded."""
        return f"{self.file}:{self.place}:{self.operator}:{self.before} -> {self.after}:{self.nth}"

    def changed(self, source: bytes) -> bytes:
        """Return the source with the slip."""
        return source[: self.start] + self.new.encode() + source[self.end :]


@cache
def slips(path: Path) -> tuple[Slip, ...]:
    """Return every slip that a module of the package may be given, in the order of its source."""
    return slips_of(path.read_bytes(), path.relative_to(ROOT).as_posix())


def slips_of(source: bytes, file: str) -> tuple[Slip, ...]:
    """Return every slip that a source may be given, in its order."""
    found = _Finder(source)
    found.visit(ast.parse(source))
    seen: Counter[tuple[str, ...]] = Counter()
    made = []
    for place, node, operator, before, after, new in sorted(found.found, key=lambda item: found.span(item[1])):
        seen[place, operator, before, after] += 1
        start, end = found.span(node)
        made.append(
            Slip(
                file=file,
                place=place,
                line=node.lineno,
                operator=operator,
                before=before,
                after=after,
                nth=seen[place, operator, before, after],
                start=start,
                end=end,
                new=new,
            )
        )
    return tuple(made)


class _Finder(ast.NodeVisitor):
    """Walks a module, and passes by what no test should look at."""

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._places: list[str] = []
        self.found: list[tuple[str, Any, str, str, str, str]] = []

    def span(self, node: Any) -> tuple[int, int]:
        """Return the first byte of a node, and the one behind it."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _slip(self, operator: str, node: Any, after: str, *, whole: bool = False) -> None:
        before = ast.unparse(node)
        short = [" ".join(text.split())[:200] for text in (before, after)]
        if before != after:
            self.found.append((".".join(self._places), node, operator, *short, after if whole else f"({after})"))

    def _replaced(self, operator: str, node: Any, **changes: Any) -> None:
        other = deepcopy(node)
        for name, value in changes.items():
            setattr(other, name, value)
        self._slip(operator, node, ast.unparse(other))

    # What is passed by

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words, whose parts Python 3.11 cannot even place."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Narrows types."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Only the value matters."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Its annotation does not matter."""

    def visit_Import(self, node: ast.Import) -> None:
        """Nothing to slip on."""

    def _body(self, statements: list[ast.stmt]) -> None:
        for at, statement in enumerate(statements):
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not (text and (at == 0 or isinstance(statement.value.value, str))):  # type: ignore[attr-defined]
                self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any("Protocol" in ast.unparse(base) for base in node.bases):
            return
        self._places.append(node.name)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self._body(node.body)
        self._places.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _FORM or any("overload" in ast.unparse(item) for item in node.decorator_list):
            return
        self._places.append(node.name)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self._body(node.body)
        self._places.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as ast calls it

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        tuned = not self._places and any(_TUNED.search(ast.unparse(target)) for target in node.targets)
        if tuned or names & _DUNDERS or (isinstance(node.value, ast.Call) and _name(node.value.func) in _SILENT_CALLS):
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets) and self._in_a_function:
            self._slip("statement removed", node, "pass", whole=True)
        self.generic_visit(node)

    @property
    def _in_a_function(self) -> bool:
        return bool(self._places) and self._places[-1] not in {"__init__", "__post_init__"}

    # Conditions

    def visit_Compare(self, node: ast.Compare) -> None:
        if "__name__" in ast.unparse(node):
            return
        operator = type(node.ops[0])
        if len(node.ops) == 1:
            self._replaced("comparison turned", node, ops=[_OPPOSITE[operator]()])
        for at, one in enumerate(node.ops):
            if type(one) in _BOUNDARY:
                ops = [_BOUNDARY[type(one)]() if n == at else other for n, other in enumerate(node.ops)]
                self._replaced("boundary moved", node, ops=ops)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._replaced("and/or", node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            rest = [value for n, value in enumerate(node.values) if n != at]
            left = rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
            self._slip("condition dropped", node, ast.unparse(left))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._slip("not dropped", node, ast.unparse(node.operand))
        elif isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            self._slip("constant changed", node, ast.unparse(node.operand))
            return
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = any(
            isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if not words and type(node.op) in _ARITHMETIC:
            self._replaced("arithmetic", node, op=_ARITHMETIC[type(node.op)]())
        self.generic_visit(node)

    def _forced(self, test: ast.expr, *ways: bool) -> None:
        for way in ways:
            self._slip("condition forced", test, str(way))

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test):
            return
        # A name that the condition binds would be missing, which any test would notice.
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
            self._forced(node.test, True, False)
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._forced(node.test, True, False)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
            self._forced(node.test, False)
        self.visit(node.test)
        self._body(node.body)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(test)):
                self._forced(test, True)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._forced(node.guard, True)
            self.visit(node.guard)
        self._body(node.body)

    # Values

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._slip("constant changed", node, str(not value))
        elif isinstance(value, int):
            self._slip("constant changed", node, str(value + 1))
        elif isinstance(value, float):
            self._slip("constant changed", node, str(value * 2))
        elif isinstance(value, str) and _KEY.fullmatch(value):
            self._slip("constant changed", node, repr(f"{value}x"))

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        owner = _name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if name in _SILENT_CALLS or owner in _LOGGERS:
            return
        if isinstance(node.func, ast.Name) and name in _TWINS and node.args:
            self._slip("twin called", node.func, _TWINS[name])
        for at, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if all(isinstance(item, ast.Name | ast.Attribute) for item in (left, right)) and name not in _SYMMETRIC:
                args = [*node.args[:at], right, left, *node.args[at + 2 :]]
                self._replaced("arguments swapped", node, args=args)
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Constant) and not isinstance(keyword.value.value, str):
                self._replaced("argument dropped", node, keywords=[it for it in node.keywords if it is not keyword])
        for part in [node.func, *node.args, *(keyword.value for keyword in node.keywords)]:
            if not (name == "isinstance" and part is node.args[-1]):
                self.visit(part)

    # Statements

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        self._slip("result dropped", node, "return None", whole=True)
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The error is not raised; its words are not looked at."""
        self._slip("raise removed", node, "pass", whole=True)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and self._places:
            owner = _name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            if _name(call.func) in _SILENT_CALLS or owner in _LOGGERS:
                return
            self._slip("statement removed", node, "pass", whole=True)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._slip("statement removed", node, "pass", whole=True)
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._slip("statement removed", node, "pass", whole=True)

    def visit_Break(self, node: ast.Break) -> None:
        self._slip("statement removed", node, "pass", whole=True)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None and ast.unparse(node.type) not in {"Exception", "BaseException"}:
            self._slip("except widened", node.type, "Exception")
        self._body(node.body)


def _name(node: ast.expr) -> str:
    """Return the last name of what is called."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
