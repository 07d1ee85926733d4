"""Defects that can be put into a module: each changes one place of its text, and nothing else."""

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

OTHER: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
TRUE = ast.Constant(True)
# The name of a lock, and not that of a block.
LOCK = re.compile("(?<!b)lock")

# The lengths that `zip(strict=)` compares agree by construction: where they may not, the code looks first. The second
# and third change how much memory an object takes, the fourth how many answers are remembered, and the last what a type
# checker says.
WITHOUT_EFFECT = {"strict", "gc", "slots", "maxsize", "covariant"}


class Mutant(NamedTuple):
    """A defect: where it is, of what kind, and the node that takes another one's place."""

    line: int
    kind: str
    node: ast.expr | ast.stmt
    instead: ast.AST

    def text(self, source: str) -> str:
        """Return a module's text with the defect in it."""
        lines = source.encode().splitlines(keepends=True)
        node = self.node
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        new = ast.unparse(ast.fix_missing_locations(self.instead))
        if isinstance(node, ast.stmt):
            new = new.replace("\n", "\n" + " " * node.col_offset)
        elif not isinstance(self.instead, ast.Constant):
            new = f"({new})"
        before, behind = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        return b"".join([*lines[:first], before, new.encode(), behind, *lines[last + 1 :]]).decode()


def mutants_of(source: str) -> list[Mutant]:
    """Return all defects that can be put into a module's text."""
    return list(_within(ast.parse(source)))


def _within(node: ast.AST) -> Iterator[Mutant]:
    """Pass over what says types, and over what only a type checker reads."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.unparse(node.body[-1]) == "...":
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield from (Mutant(node.lineno, kind, *changed) for kind, changed in _changes(node))
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "bases", "keywords") and not isinstance(node, ast.Call):
            continue
        for inner in value if isinstance(value, list) else [value]:
            # The version of a class that makes rows is only compared: with another number they are made anew.
            if (
                isinstance(node, ast.ClassDef)
                and isinstance(inner, ast.Assign)
                and ast.unparse(inner.targets[0]) == "version"
            ):
                continue
            if isinstance(inner, ast.AST) and not (isinstance(inner, ast.keyword) and inner.arg in WITHOUT_EFFECT):
                yield from _within(inner)


def _changes(node: ast.AST) -> Iterator[tuple[str, tuple[Any, ast.AST]]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in OTHER:
            yield "comparison flipped", (node, ast.Compare(left, [OTHER[type(operator)]()], comparators))
        case ast.BoolOp(op=operator, values=values):
            yield "and, or", (node, ast.BoolOp(OTHER[type(operator)](), values))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            yield "plus, minus", (node, ast.BinOp(left, OTHER[type(operator)](), right))
        case ast.Constant(value=bool(value)):
            yield "constant changed", (node, ast.Constant(not value))
        case ast.Constant(value=int(value)):
            yield "constant changed", (node, ast.Constant(value + 1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "condition negated", (test, ast.UnaryOp(ast.Not(), test))
        # Who asks for a truth cannot tell None from False.
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "False"):
            yield "return value replaced", (value, ast.Constant(None))
        # What no call reaches, and says so.
        case ast.Raise(exc=ast.Call(func=ast.Name("AssertionError"))) | ast.Raise(exc=ast.Name("NotImplementedError")):
            return
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom()) | ast.Delete():
            yield "statement removed", (node, ast.Pass())
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple(elts=[ast.Attribute(), *_])]):
            yield "statement removed", (node, ast.Pass())
        case ast.With(items=[ast.withitem(context_expr=context)], body=body) if LOCK.search(ast.unparse(context)):
            yield "lock removed", (node, ast.If(TRUE, body, []))
        case ast.Call(func=ast.Name(id="locked"), args=[_, work, *given]):
            yield "lock removed", (node, ast.Call(work, given, []))
        case ast.FunctionDef(decorator_list=decorators):
            named = (one for one in decorators if ast.unparse(one) == "synchronized")
            yield from (("lock removed", (one, ast.parse("lambda method: method", mode="eval").body)) for one in named)
