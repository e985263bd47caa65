"""The launch logic that ships, compiled for the tests: shapes in, dispatches out."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.metal_emulator.compiler import compile_library
from tests.metal_emulator.paged_case import CacheUpdateCase, Case

REPOSITORY = Path(__file__).parents[2]
METAL = REPOSITORY / "metal"


class RefusedLaunch(Exception):
    """The launch logic threw std::invalid_argument."""


@dataclass(slots=True)
class Launch:
    """One dispatch, as metal/src/launch/launch.h has it; arguments are (name, written) in order."""

    kernel: str
    instantiation: str = ""
    arguments: list[tuple[str, bool]] = field(default_factory=list)
    params: bytes = b""
    grid: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    grid_counts_threads: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    partial_floats: int
    launches: tuple[Launch, ...]


class LaunchLogic:
    def __init__(self, build_folder: Path) -> None:
        sources = [
            *sorted((METAL / "src/launch").glob("*.cpp")),
            Path(__file__).with_name("launch_abi.cpp"),
        ]
        flags = [
            "-std=c++20",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{METAL / 'src'}",
            f"-I{METAL}",
        ]
        self._library = ctypes.CDLL(
            str(compile_library(sources, flags, build_folder, "launch_logic"))
        )
        self._library.describe_attention.restype = ctypes.c_char_p
        self._library.describe_cache_update.restype = ctypes.c_char_p

    def plan(self, case: Case) -> Plan:
        """Raises RefusedLaunch."""
        if isinstance(case, CacheUpdateCase):
            return _plan(self._library.describe_cache_update(_ints(case.shape())))
        scale, soft_cap = ctypes.c_float(case.scale), ctypes.c_float(case.soft_cap)
        return _plan(self._library.describe_attention(_ints(case.shape()), scale, soft_cap))


def with_instances(source: str, launches: Iterable[Launch]) -> str:
    """The source and a line for each kernel of the launches."""
    lines = dict.fromkeys(launch.instantiation for launch in launches)
    return "\n".join([source, *lines, ""])


def _ints(values: Sequence[int]) -> "ctypes.Array[ctypes.c_int]":
    return (ctypes.c_int * len(values))(*values)


def _plan(description: bytes) -> Plan:
    launches: list[Launch] = []
    partial_floats = 0
    for line in description.decode().splitlines():
        key, _, value = line.partition(" ")
        match key:
            case "refused":
                raise RefusedLaunch(value)
            case "partial_floats":
                partial_floats = int(value)
            case "kernel":
                launches.append(Launch(value))
            case "instantiation":
                launches[-1].instantiation = value
            case "argument":
                name, written = value.split()
                launches[-1].arguments.append((name, written == "1"))
            case "params":
                launches[-1].params = bytes.fromhex(value)
            case "grid":
                launches[-1].grid = tuple(map(int, value.split()))
            case "group":
                launches[-1].group = tuple(map(int, value.split()))
            case "grid_counts_threads":
                launches[-1].grid_counts_threads = value == "1"
    return Plan(partial_floats, tuple(launches))
