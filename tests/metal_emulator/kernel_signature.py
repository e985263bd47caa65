"""What a Metal source says of its kernels: names, template parameters, parameters, instances."""

import re
from dataclasses import dataclass

BUILTINS = {  # attribute of a parameter -> field of EmulatorThread
    "thread_position_in_grid": "in_grid",
    "thread_position_in_threadgroup": "in_group",
    "threadgroup_position_in_grid": "group_in_grid",
    "threads_per_threadgroup": "group_size",
    "thread_index_in_threadgroup": "index",
    "thread_index_in_simdgroup": "lane",
    "simdgroup_index_in_threadgroup": "simdgroup",
}
ADDRESS_SPACES = ("device", "constant", "threadgroup", "thread")

_KERNEL = re.compile(r"(?:template\s*<([^;{}]*?)>\s*)?\[\[\s*kernel\s*\]\]\s*(\w+)\s+(\w+)\s*\(")
_INSTANCE = re.compile(
    r'template\s*\[\[host_name\("(\w+)"\)\]\]\s*\[\[kernel\]\]\s*decltype\((\w+)<([^;]*?)>\)\s*\2<\3>;'
)
THREADGROUP_VARIABLE = re.compile(r"\bthreadgroup\s+([\w:]+)\s+(\w+)\s*((?:\[[^\];]*\]\s*)+);")


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str  # without address space, const, * and &
    address_space: str  # "": none given
    is_const: bool
    indirection: str  # "*", "&" or ""
    attribute: str  # buffer, or a key of BUILTINS, or ""
    buffer: int | None  # None: no literal index


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    result: str
    template_parameters: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    start: int  # offsets in the source
    body: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Instance:
    host_name: str
    function: str
    template_arguments: tuple[str, ...]

    @property
    def call(self) -> str:
        return f"{self.function}<{', '.join(self.template_arguments)}>"


def without_comments(source: str) -> str:
    """Comments become blanks; offsets and line numbers stay."""
    return re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), source)


def kernels(source: str) -> list[Kernel]:
    source = without_comments(source)
    return [_kernel(source, match) for match in _KERNEL.finditer(source)]


def instances(source: str) -> list[Instance]:
    return [
        Instance(m.group(1), m.group(2), tuple(_split(m.group(3))))
        for m in _INSTANCE.finditer(without_comments(source))
    ]


def without_instances(source: str) -> str:
    return _INSTANCE.sub(lambda m: "\n" * m.group().count("\n"), source)


def closing(source: str, start: int) -> int:
    """Offset of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(source)):
        depth += (source[i] in "({") - (source[i] in ")}")
        if depth == 0:
            return i
    raise ValueError(f"unbalanced {source[start]}")


def _kernel(source: str, match: re.Match[str]) -> Kernel:
    end = closing(source, match.end() - 1)
    body = source.index("{", end)
    return Kernel(
        name=match.group(3),
        result=match.group(2),
        template_parameters=tuple(p.split()[-1] for p in _split(match.group(1) or "")),
        parameters=tuple(_parameter(p) for p in _split(source[match.end() : end])),
        start=match.start(3),
        body=(body, closing(source, body)),
    )


def _parameter(text: str) -> Parameter:
    attribute = re.search(r"\[\[\s*(\w+)\s*(?:\(\s*(\w+)\s*\))?\s*\]\]", text)
    declaration = re.sub(r"\[\[.*?\]\]", "", text).strip()
    parts = re.match(r"(.*?)([*&]?)\s*(\w+)$", declaration, re.DOTALL)
    if parts is None:
        raise ValueError(f"not a parameter: {text}")
    words = parts.group(1).split()
    index = attribute.group(2) if attribute else None
    return Parameter(
        name=parts.group(3),
        type=" ".join(w for w in words if w not in (*ADDRESS_SPACES, "const")),
        address_space=next((w for w in words if w in ADDRESS_SPACES), ""),
        is_const="const" in words or "constant" in words,
        indirection=parts.group(2),
        attribute=attribute.group(1) if attribute else "",
        buffer=int(index) if index is not None and index.isdigit() else None,
    )


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts
