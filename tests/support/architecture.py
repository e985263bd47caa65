"""The rules of the house, as functions from source text to complaints.

engine/ has three rings, and imports go inwards only:

    pure      standard library alone; no clock, randomness, threads or I/O
    device    MLX; a few modules of it also the kernels in metal/
    shell     wires the two others and runs them

Whatever engine module is not named below belongs to the pure ring.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

DEVICE_RING = frozenset(
    {"attention", "device", "kv_pages", "kv_storage", "model_runner", "models", "sampler"}
    | {"step_arrays"}
)
SHELL = frozenset(
    {"build", "engine", "engine_loop", "gpu_kernels", "kernel_benchmark", "token_stream"}
)
MAY_IMPORT_METAL = frozenset(
    {"engine/kv_pages.py", "engine/attention.py", "engine/device.py", "engine/gpu_kernels.py"}
    | {"engine/models/linear.py", "engine/models/row_ops.py", "engine/kernel_benchmark.py"}
)
# The parts of server/ that start an engine; all others know its borders alone.
STARTS_ENGINES = frozenset(
    f"server/{name}.py" for name in ("serve", "generate", "doctor", "start_report")
)
IMPURE = frozenset(
    {"asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib"}
    | {"random", "secrets", "selectors", "shutil", "signal", "socket", "subprocess", "tempfile"}
    | {"threading", "time", "uuid"}
)
IMPURE_CALLS = frozenset({"open", "print", "input"})
MUTABLE_CALLS = frozenset(
    {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray"}
)
READ_ONLY_TYPES = frozenset({"Mapping", "Sequence", "Collection"})
MUTABLE_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# Spelled in parts, so that this file does not break its own rule.
MACHINE_PATH = re.compile(
    "|".join(("/" + "work/", "/" + "tmp/lab", "/" + "root/", "/" + "home/[a-z]"))
)


@dataclass(frozen=True, slots=True)
class Source:
    """One file; `path` is relative to the project, with forward slashes."""

    path: str
    text: str

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    @property
    def ring(self) -> str:
        """Of an engine module: pure, device or shell."""
        name = self.path.split("/")[1].removesuffix(".py")
        return ring_of(name)


def ring_of(module: str) -> str:
    if module in DEVICE_RING:
        return "device"
    return "shell" if module in SHELL else "pure"


def imports(source: Source) -> Iterator[str]:
    """Every module imported anywhere in the file, also within functions, by its full name."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = PurePosixPath(source.path).parents[node.level - 1]
    return ".".join([*package.parts, *((node.module,) if node.module else ())])


def import_complaints(source: Source) -> list[str]:
    return [
        f"{source.path}: must not import {name}"
        for name in imports(source)
        if not _may_import(source, name)
    ]


def _may_import(source: Source, name: str) -> bool:
    top, _, rest = name.partition(".")
    match source.package:
        case "metal":
            return top not in {"engine", "server"}
        case "engine":
            return _engine_may_import(source, top, rest)
        case "server":
            return top not in {"mlx", "metal"} and (
                top != "engine" or _server_may_import(source, rest)
            )
    return True


def _server_may_import(source: Source, engine_module: str) -> bool:
    starts_engines = source.path in STARTS_ENGINES or source.path.startswith("server/bench/")
    return starts_engines or ring_of(engine_module.partition(".")[0]) == "pure"


def _engine_may_import(source: Source, top: str, rest: str) -> bool:
    if top == "server" or (top == "metal" and source.path not in MAY_IMPORT_METAL):
        return False
    inner = ring_of(rest.partition(".")[0])
    match source.ring:
        case "pure":
            if top == "engine":
                return inner == "pure"
            return top in sys.stdlib_module_names - IMPURE
        case "device":
            return top != "engine" or inner != "shell"
    return True


def purity_complaints(source: Source) -> list[str]:
    """Calls that read or write, in the pure ring."""
    if source.package != "engine" or source.ring != "pure":
        return []
    return [
        f"{source.path}:{node.lineno}: the pure ring must not call {node.func.id}"
        for node in ast.walk(ast.parse(source.text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in IMPURE_CALLS
    ]


def state_complaints(source: Source) -> list[str]:
    """Ambient state: `global`, thread-locals, and mutable values at the top of a module."""
    tree = ast.parse(source.text)
    found = [
        f"{source.path}:{node.lineno}: {what}"
        for node in ast.walk(tree)
        if (what := _ambient(node)) is not None
    ]
    read_only = READ_ONLY_TYPES | _aliases(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_mutable(node.value):
            names = [ast.unparse(target) for target in _targets(node)]
            if names != ["__all__"] and _annotation(node) not in read_only:
                found.append(f"{source.path}:{node.lineno}: {names[0]} is mutable")
    return found


def _annotation(node: ast.Assign | ast.AnnAssign) -> str | None:
    """The annotated type without its parameters. A read-only one has no method that writes."""
    if isinstance(node, ast.Assign):
        return None
    return ast.unparse(node.annotation).partition("[")[0]


def _aliases(tree: ast.Module) -> frozenset[str]:
    """Names that the module gives to read-only types."""
    return frozenset(
        ast.unparse(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign)
        if ast.unparse(node.value).partition("[")[0] in READ_ONLY_TYPES
    )


def _ambient(node: ast.AST) -> str | None:
    if isinstance(node, ast.Global):
        return "global state"
    if isinstance(node, ast.Attribute) and ast.unparse(node) == "threading.local":
        return "thread-local state"
    return None


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, MUTABLE_LITERALS):
        return True
    return (
        isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in MUTABLE_CALLS
    )


def size_complaints(source: Source) -> list[str]:
    found = []
    lines = source.text.count("\n")
    if lines > MAX_FILE_LINES:
        found.append(f"{source.path}: {lines} lines, at most {MAX_FILE_LINES}")
    if source.path.endswith(".py"):
        found += _long_functions(source)
    return found


def _long_functions(source: Source) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                place = f"{source.path}:{node.lineno}: {node.name}"
                yield f"{place} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def path_complaints(source: Source) -> list[str]:
    """Places on one particular machine."""
    return [
        f"{source.path}:{number}: names a path of one machine"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
