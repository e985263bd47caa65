"""Checks types and address spaces of a Metal source with libclang, from its wheel.

The source is read as "C++ for OpenCL", whose address spaces are Metal's: device is __global,
threadgroup is __local, thread is __private. Two rules are read off the tree: every pointer and
reference names its address space, and nothing calls itself.
"""

from collections.abc import Iterator
from pathlib import Path

from clang import cindex

from tests.metal_emulator.host_source import SOURCE_NAME, with_threadgroup_macros
from tests.metal_emulator.kernel_signature import ADDRESS_SPACES, instances

_HEADERS = Path(__file__).with_name("runtime") / "gate"
_ARGUMENTS = [
    "-xclcpp",
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-Xclang",
    "-cl-ext=-all,+cl_khr_fp16,+__opencl_c_generic_address_space",
    "-Wall",
    "-Wextra",
    "-Wconditional-uninitialized",
    "-Wpre-c++17-compat",  # Metal 3 is C++14 with some of C++17
    "-Wno-unknown-attributes",
    "-Wno-undefined-inline",
    "-Wno-undefined-internal",
    "-Wno-null-dereference",
    "-isystem",
    str(_HEADERS),
]
_FILE = "gate.clcpp"
_KINDS = cindex.CursorKind
_FUNCTIONS = (_KINDS.FUNCTION_DECL, _KINDS.FUNCTION_TEMPLATE, _KINDS.CXX_METHOD)
_DECLARATIONS = (_KINDS.PARM_DECL, _KINDS.VAR_DECL, _KINDS.FIELD_DECL)
_REFERENCES = (_KINDS.CALL_EXPR, _KINDS.DECL_REF_EXPR, _KINDS.OVERLOADED_DECL_REF)


def check_address_spaces(source: str) -> list[str]:
    """What is wrong, as "kernels.metal:12: ..." with the line in `source`."""
    calls = (f"template decltype({i.call}) {i.call};" for i in instances(source))
    lines = [
        f'#line 1 "{SOURCE_NAME}"',
        with_threadgroup_macros(source),
        '#line 1 "instances"',
        *calls,
        "",
    ]
    unit = cindex.Index.create().parse(
        _FILE, args=_ARGUMENTS, unsaved_files=[(_FILE, "\n".join(lines))]
    )
    return [*_diagnostics(unit), *_generic_pointers(unit.cursor), *_recursions(unit.cursor)]


def _diagnostics(unit: cindex.TranslationUnit) -> Iterator[str]:
    for found in unit.diagnostics:
        if found.severity >= cindex.Diagnostic.Warning:
            yield f"{SOURCE_NAME}:{found.location.line - 1}: {found.spelling}"


def _own(cursor: cindex.Cursor) -> Iterator[cindex.Cursor]:
    """The nodes of the source itself, without those of the headers."""
    for child in cursor.get_children():
        if child.location.file is None or child.location.file.name == _FILE:
            yield child
            yield from _own(child)


def _generic_pointers(cursor: cindex.Cursor) -> Iterator[str]:
    for node in _own(cursor):
        place = f"{SOURCE_NAME}:{node.location.line - 1}"
        if node.kind in _DECLARATIONS and _lacks_address_space(node):
            yield f"{place}: '{node.spelling}' names no address space"
        if node.kind in _FUNCTIONS and "__generic" in node.result_type.spelling:
            yield f"{place}: the result of '{node.spelling}' names no address space"


def _lacks_address_space(declaration: cindex.Cursor) -> bool:
    """Clang knows a pointer's space only in an instance of a template; the words are there before."""
    words = [token.spelling for token in declaration.get_tokens()]
    if declaration.spelling in words:
        words = words[: words.index(declaration.spelling)]
    return ("*" in words or "&" in words) and not set(words) & set(ADDRESS_SPACES)


def _recursions(cursor: cindex.Cursor) -> Iterator[str]:
    called: dict[str, set[str]] = {}
    for function in _own(cursor):
        if function.kind in _FUNCTIONS:
            names = {node.spelling for node in _own(function) if node.kind in _REFERENCES}
            called.setdefault(function.spelling, set()).update(names)
    for name in called:
        if name in _reachable(name, called):
            yield f"{SOURCE_NAME}: '{name}' calls itself"


def _reachable(name: str, called: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(called[name])
    while waiting:
        function = waiting.pop()
        if function not in seen:
            seen.add(function)
            waiting.extend(called.get(function, ()))
    return seen
