"""Rules of Metal, and of compiling a source from a string, that no compiler here knows."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.metal_emulator.host_source import SOURCE_NAME
from tests.metal_emulator.kernel_signature import (
    ADDRESS_SPACES,
    BUILTINS,
    THREADGROUP_VARIABLE,
    Kernel,
    Parameter,
    kernels,
    without_comments,
)

MAX_BUFFER = 30
_FORBIDDEN = {
    r"\bstd\s*::": "Metal has no std::",
    r"\bdouble\b": "Metal has no double",
    r"\b(?:virtual|dynamic_cast|typeid)\b": "Metal has no run-time types",
    r"\b(?:try|catch|throw)\b": "Metal has no exceptions",
    r"\b(?:new|delete)\b": "Metal has no heap",
    r"\b(?:goto|asm|thread_local|register)\b": "not in Metal",
    r"\b(?:printf|malloc|free|memcpy|memset|assert)\s*\(": "Metal has no C library",
    r"\bif\s+constexpr\b": "Metal 3 is C++14",
    r"\]\s*\([^()]*\)\s*(?:mutable\s*)?\{": "no lambdas before Metal 3.2",
    r"#\s*pragma\s+once": "a warning in a source string",
    r'#\s*include\s*"': "a source string has no folder to include from",
}
_HEADERS = ("metal_stdlib", "metal_simdgroup", "metal_simdgroup_matrix")
_POSITIONS = tuple(name for name, field in BUILTINS.items() if field.startswith(("in_g", "group_")))
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+[eE][-+]?\d+)(?:[eE][-+]?\d+)?(?![\w.])")
_PARAMETER_STRUCT = re.compile(r"\bstruct\s+(\w+Params)\s*\{(.*?)\}", re.DOTALL)


def check_rules(source: str) -> list[str]:
    """What is wrong, as "kernels.metal:12: ..."."""
    found = [*_check_text(source), *_check_structs(source)]
    for kernel in kernels(source):
        found.extend((kernel.start, problem) for problem in _check_kernel(kernel))
    found.extend(_check_threadgroup_variables(source))
    return [
        f"{SOURCE_NAME}:{source.count(chr(10), 0, at) + 1}: {text}" for at, text in sorted(found)
    ]


Finding = tuple[int, str]  # offset in the source, what is wrong


def _check_text(source: str) -> Iterator[Finding]:
    for match in re.finditer(r"[^\x00-\x7f]", source):
        yield match.start(), "MLX hands the source over as ASCII"
    code = without_comments(source)
    for pattern, problem in _FORBIDDEN.items():
        for match in re.finditer(pattern, code):
            yield match.start(), problem
    for match in re.finditer(r"#\s*include\s*<([^>]+)>", code):
        if match.group(1) not in _HEADERS:
            yield match.start(), f"<{match.group(1)}> is not one of Metal's headers"
    for match in _NUMBER.finditer(re.sub(r'"[^"\n]*"', lambda m: " " * len(m.group()), code)):
        yield match.start(), f"{match.group()} without f is a double for the host"


def _check_structs(source: str) -> Iterator[Finding]:
    """Host and GPU lay out 32-bit scalars alike; of vectors that is not so."""
    for struct in _PARAMETER_STRUCT.finditer(without_comments(source)):
        for field in re.finditer(r"(\w+)\s+\w+\s*;", struct.group(2)):
            if field.group(1) not in ("int", "uint", "float"):
                yield struct.start(), f"{struct.group(1)}: a field of type {field.group(1)}"


def _check_kernel(kernel: Kernel) -> Iterator[str]:
    if kernel.result != "void":
        yield f"{kernel.name}: a kernel returns void"
    for parameter in kernel.parameters:
        yield from _check_parameter(kernel, parameter)
    buffers = Counter(p.buffer for p in kernel.parameters if p.buffer is not None)
    for index, uses in buffers.items():
        if uses > 1:
            yield f"{kernel.name}: buffer({index}) is used {uses} times"
    positions = {p.type for p in kernel.parameters if p.attribute in _POSITIONS}
    if len(positions) > 1:
        yield f"{kernel.name}: positions of different types: {', '.join(sorted(positions))}"


def _check_parameter(kernel: Kernel, parameter: Parameter) -> Iterator[str]:
    name = f"{kernel.name}: {parameter.name}"
    if not parameter.indirection:
        if parameter.attribute not in BUILTINS:
            yield f"{name} has no attribute that is known"
        return
    if parameter.address_space not in ADDRESS_SPACES[:2]:
        yield f"{name} is neither device nor constant"
    if parameter.buffer is None or parameter.buffer > MAX_BUFFER:
        yield f"{name} needs [[buffer(n)]], n a number up to {MAX_BUFFER}"


def _check_threadgroup_variables(source: str) -> Iterator[Finding]:
    code = without_comments(source)
    bodies = [kernel.body for kernel in kernels(source)]
    for match in THREADGROUP_VARIABLE.finditer(code):
        at = match.start()
        body = next((start for start, end in bodies if start < at < end), None)
        if body is None:
            yield at, "a threadgroup variable outside of a kernel"
        elif code.count("{", body, at) - code.count("}", body, at) != 1:
            yield at, "a threadgroup variable in an inner scope"
