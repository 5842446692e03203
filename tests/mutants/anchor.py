"""Where a guard stands: in a function, the one node that is written so, whatever its lines, comments and words are.

A pattern is Python: an expression, or statements that follow each other. It is compared as syntax, so neither layout
nor place matters. `...` stands for any expression, as the only argument of a call for any arguments, and as a block for
any block: what an error says may change, and the guard is still found. In what comes instead, each `...` is what the
`...` of the same number stood for.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(frozen=True, slots=True)
class _Place:
    """What matches: the field of its parent, and where in it; statements may be several. `held` is each `...`."""

    parent: ast.AST
    name: str
    index: int | None = None
    length: int = 1
    held: list[Any] = field(default_factory=list)

    def put(self, new: list[Any]) -> None:
        """Put other nodes there."""
        held = deque(self.held)
        filled = [_filled(item, held) for item in new]
        if self.index is None:
            (one,) = filled
            setattr(self.parent, self.name, one)
        else:
            getattr(self.parent, self.name)[self.index : self.index + self.length] = filled or self._nothing()

    def _nothing(self) -> list[ast.stmt]:
        return [ast.Pass()] if len(getattr(self.parent, self.name)) == self.length and self.name == "body" else []


def exchange(tree: ast.Module, function: str, old: str, new: str) -> None:
    """Exchange, in the function of that qualified name (the module itself without one), what is written as `old`.

    Nothing comes in its place when `new` is empty. ValueError unless it stands there exactly once.
    """
    scope = _scope(tree, function)
    match ast.parse(old).body, ast.parse(new).body:
        case [ast.Expr(value=wanted)], [ast.Expr(value=other)]:
            found, instead = list(_expressions(scope, wanted)), [other]
        case pattern, statements:
            found, instead = list(_statements(scope, pattern)), statements
    if len(found) != 1:
        raise ValueError(f"{old!r} is {len(found)} times in {function or 'the module'}, not once")
    found[0].put(instead)


def _scope(tree: ast.Module, function: str) -> ast.AST:
    scope: ast.AST = tree
    for name in filter(None, function.split(".")):
        named = [item for item in _definitions(scope) if item.name == name]
        if len(named) != 1:
            raise ValueError(f"{function} is {len(named)} times in the module, not once")
        (scope,) = named
    return scope


def _definitions(scope: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Give what a scope defines, not what those define in turn."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, _SCOPES):
            yield node
        else:
            yield from _definitions(node)


def _expressions(scope: ast.AST, pattern: ast.expr) -> Iterator[_Place]:
    for parent in ast.walk(scope):
        for name, value in ast.iter_fields(parent):
            for at, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if (held := held_by(pattern, node)) is not None:
                    yield _Place(parent, name, at, held=held)


def _statements(scope: ast.AST, pattern: list[ast.stmt]) -> Iterator[_Place]:
    size = len(pattern)
    for parent in ast.walk(scope):
        for name in _BLOCKS:
            block = getattr(parent, name, None)
            for at in range(len(block) - size + 1) if isinstance(block, list) else ():
                pairs = zip(pattern, block[at : at + size], strict=True)
                parts = [held_by(wanted, node) for wanted, node in pairs]
                if None not in parts:
                    yield _Place(parent, name, at, size, [item for part in parts for item in part or ()])


def held_by(pattern: object, node: object) -> list[Any] | None:
    """Return what each `...` of a pattern stands for in a node; None when the node is another."""
    match pattern, node:
        case ast.Constant(value=value), ast.expr() if value is ...:
            return [node]
        case ast.Call(args=[ast.Constant(value=value)], keywords=[]), ast.Call() if value is ...:
            before = held_by(pattern.func, node.func)
            return None if before is None else [*before, (node.args, node.keywords)]
        case [ast.Expr(value=ast.Constant(value=value))], [ast.stmt(), *_] if value is ...:
            return [node]
        case (ast.AST(), ast.AST()) if type(pattern) is type(node):
            pairs = [(getattr(pattern, name, None), getattr(node, name, None)) for name in pattern._fields]
        case (list(), list()) if len(pattern) == len(node):
            pairs = list(zip(pattern, node, strict=True))
        case _:
            return (
                [] if type(pattern) is type(node) and not isinstance(node, ast.AST | list) and pattern == node else None
            )
    parts = [held_by(*pair) for pair in pairs]
    return None if None in parts else [item for part in parts for item in part or ()]


def _filled(node: Any, held: deque[Any]) -> Any:
    """Return a node with what each `...` stands for, where the pattern had some."""
    match node:
        case ast.Constant(value=value) if value is ... and held:
            return held.popleft()
        case ast.Call(args=[ast.Constant(value=value)], keywords=[]) if value is ...:
            node.func = _filled(node.func, held)
            if held and isinstance(held[0], tuple):
                node.args, node.keywords = held.popleft()
            elif held:
                node.args = [held.popleft()]
        case [ast.Expr(value=ast.Constant(value=value))] if value is ... and held:
            return held.popleft()
        case list():
            return [_filled(item, held) for item in node]
        case ast.AST():
            for name in node._fields:
                if isinstance(value := getattr(node, name, None), ast.AST | list):
                    setattr(node, name, _filled(value, held))
    return node
