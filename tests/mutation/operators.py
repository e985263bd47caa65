"""Small wrong changes to a module, made systematically from its syntax tree.

Left alone: what is not inside a function, docstrings, annotations and the text of messages.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}
DROPPED_CALLS = {"reversed", "sorted", "set"}
DROPPED_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Delete, ast.Raise, ast.Return, ast.Break)
UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list", "msg", "exc"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says where and what, without line numbers, so that it outlives other changes."""

    module: str
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class _Place:
    """One node in its tree: `parent.field`, or `parent.field[index]`."""

    scope: str
    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def systematic_mutants(module: str, source: str) -> list[Mutant]:
    tree = ast.parse(source)
    mutants: list[Mutant] = []
    seen: Counter[str] = Counter()
    for place in list(_places(tree, "module")):
        for variant in map(ast.fix_missing_locations, _variants(place.node)):
            name = f"{place.scope}: {_short(place.node)} -> {_short(variant)}"
            seen[name] += 1
            place.put(variant)
            text = ast.unparse(ast.fix_missing_locations(tree))
            place.put(place.node)
            suffix = f" ({seen[name]})" if seen[name] > 1 else ""
            mutants.append(Mutant(module, name + suffix, text))
    return mutants


def _places(parent: ast.AST, scope: str) -> Iterator[_Place]:
    for field, value in ast.iter_fields(parent):
        if field in UNTOUCHED_FIELDS:
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, node in children:
            if not isinstance(node, ast.AST) or _is_text(node):
                continue
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield from _places(node, f"{scope}.{node.name}".removeprefix("module."))
            elif not isinstance(parent, ast.Module | ast.ClassDef):
                yield _Place(scope, parent, field, index, node)
                yield from _places(node, scope)


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _short(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield ast.BinOp(node.left, ARITHMETIC[type(op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            yield from node.values
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int(number)):
            yield ast.Constant(number + 1)
            yield ast.Constant(number - 1)
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Call(func=ast.Name(id=name)):
            yield from _calls(node, name)
        case ast.Slice():
            yield from _slices(node)
        case ast.comprehension() if node.ifs:
            yield ast.comprehension(node.target, node.iter, [], node.is_async)
        case ast.If() | ast.While() if not isinstance(node.test, ast.Compare):
            yield type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.stmt():
            yield from _statements(node)


def _comparisons(node: ast.Compare) -> Iterator[ast.Compare]:
    for i, operator in enumerate(node.ops):
        for other in COMPARISONS[type(operator)]:
            operators = [*node.ops[:i], other(), *node.ops[i + 1 :]]
            yield ast.Compare(node.left, operators, node.comparators)


def _calls(node: ast.Call, name: str) -> Iterator[ast.AST]:
    if name in CALLS:
        yield ast.Call(ast.Name(CALLS[name]), node.args, node.keywords)
    if name in DROPPED_CALLS and len(node.args) == 1:
        yield node.args[0]


def _slices(node: ast.Slice) -> Iterator[ast.Slice]:
    if node.lower:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper:
        yield ast.Slice(node.lower, None, node.step)


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if is_call or isinstance(node, DROPPED_STATEMENTS):
        yield ast.Pass()
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        yield ast.Assign([node.target], node.value)
