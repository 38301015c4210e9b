"""Mutations of Python source: small changes of one statement each, which a good test suite notices.

Docstrings, imports, annotations, type aliases, class headers, decorators and the inside of f-strings stay as they are.
"""

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

_OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
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
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_OTHER_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_UNCHANGED_FIELDS = {"annotation", "returns", "decorator_list", "type_params"}
_Change = tuple[str, ast.stmt | ast.expr, ast.AST | None]
"""What kind of change it is, the node that is replaced, and by what; None for `pass`."""


@dataclass(frozen=True)
class Mutation:
    """The text that replaces a part of the source; `start` and `end` count bytes."""

    kind: str
    line: int
    start: int
    end: int
    text: str

    def of(self, source: str) -> str:
        """Return the mutated source."""
        whole = source.encode()
        return (whole[: self.start] + self.text.encode() + whole[self.end :]).decode()


@dataclass(frozen=True)
class Statement:
    """A statement with its mutations; of a compound statement, what stands before its body.

    `names` are what it defines, and `body` the lines of a function: they tell which tests notice a statement that runs
    at import, such as a default value.
    """

    text: str
    line: int
    names: tuple[str, ...]
    body: range
    mutations: tuple[Mutation, ...]


def statements(source: str) -> list[Statement]:
    """Return the statements of a module that have mutations, in order."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    found = (_statement(node, lines, starts) for node in _nodes(ast.parse(source).body))
    return [each for each in found if each.mutations]


def _nodes(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of the bodies in it."""
    for node in body:
        if _is_for_types(node):
            continue
        yield node
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                yield from _nodes(getattr(part, field, []))


def _is_for_types(node: ast.stmt) -> bool:
    """Whether a statement is an import, a docstring, a type alias or the like."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp(op=ast.BitOr())):
            return bool(re.match("_*[A-Z].*[a-z]", name))
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return True
        case _:
            return False


def _statement(node: ast.stmt, lines: list[bytes], starts: list[int]) -> Statement:
    mutations = []
    for kind, old, new in _changes(node):
        start = starts[old.lineno - 1] + old.col_offset
        end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
        mutations.append(Mutation(kind, old.lineno, start, end, _text(new)))
    body: list[ast.stmt] = getattr(node, "body", [])
    last = node.end_lineno or node.lineno
    header = lines[node.lineno - 1 : body[0].lineno - 1 if body else last]
    inner = range(body[0].lineno, last + 1) if body else range(0)
    return Statement(b"".join(header).decode(), node.lineno, tuple(_names(node)), inner, tuple(mutations))


def _text(node: ast.AST | None) -> str:
    if node is None:
        return "pass"
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp | ast.BinOp | ast.IfExp) else text


def _names(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


# --- changes ----------------------------------------------------------------------------------------------------------


def _changes(node: ast.stmt) -> Iterator[_Change]:
    """Yield the changes of a statement, without those of the statements in its body."""
    yield from _changes_of_statement(node)
    if not isinstance(node, ast.ClassDef):
        for each in _expressions(node):
            yield from _changes_of_expression(each)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field not in _UNCHANGED_FIELDS:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr):
                    yield child
                    yield from _expressions(child)


def _changes_of_statement(node: ast.stmt) -> Iterator[_Change]:
    match node:
        case ast.If(test=test, orelse=orelse):
            yield "swapped branches" if orelse else "negated condition", test, _negated(test)
        case ast.Break():
            yield "break and continue", node, ast.Continue()
        case ast.Continue():
            yield "break and continue", node, ast.Break()
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None", node, ast.Return(value=ast.Constant(None))
        case ast.AugAssign(op=op) if type(op) in _OPPOSITES:
            yield "arithmetic", node, _with(node, op=_OPPOSITES[type(op)]())
            yield "removed statement", node, None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "removed statement", node, None
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Assert():
            yield "removed statement", node, None


def _changes_of_expression(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield "comparison", node, _with(node, ops=[*ops[:i], _OPPOSITES[type(op)](), *ops[i + 1 :]])
        case ast.BoolOp(op=op):
            yield "and and or", node, _with(node, op=_OPPOSITES[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "removed not", node, operand
        case ast.BinOp(op=op) if type(op) in _OPPOSITES:
            yield "arithmetic", node, _with(node, op=_OPPOSITES[type(op)]())
        case ast.IfExp(body=body, orelse=orelse):
            yield "swapped branches", node, _with(node, body=orelse, orelse=body)
        case ast.comprehension(ifs=ifs):
            yield from (("negated condition", test, _negated(test)) for test in ifs)
        case ast.Call():
            yield from _changes_of_call(node)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            yield _change_of_constant(node, value)


def _changes_of_call(node: ast.Call) -> Iterator[_Change]:
    for keyword in node.keywords:
        if keyword.arg:
            others = [each for each in node.keywords if each is not keyword]
            yield "removed keyword argument", node, _with(node, keywords=others)
    if isinstance(node.func, ast.Name) and node.func.id in _OTHER_FUNCTIONS:
        yield "other function", node.func, ast.Name(_OTHER_FUNCTIONS[node.func.id])


def _change_of_constant(node: ast.Constant, value: float | str) -> _Change:
    match value:
        case bool():
            return "constant", node, ast.Constant(not value)
        case str():
            return "constant", node, ast.Constant(f"{value}XX")
        case _:
            return "off by one", node, ast.Constant(value + 1)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
