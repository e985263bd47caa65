"""Runs launches of a Metal source on NumPy arrays."""

import ctypes
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.metal_emulator.compiler import compile_library, compile_object
from tests.metal_emulator.host_source import host_source
from tests.metal_emulator.launch_logic import Launch

RUNTIME = Path(__file__).with_name("runtime")
CHECKS = "bounds,shift,alignment,signed-integer-overflow,integer-divide-by-zero,float-cast-overflow"
# -O1: the sanitizer pass does not see accesses that a stronger optimiser removed.
KERNEL_FLAGS = (
    "-std=c++20",
    "-g1",
    "-O1",
    "-ffp-contract=off",
    "-Wno-attributes",
    "-fsanitize=thread",
    f"-fsanitize={CHECKS}",
    "-fno-sanitize-recover=all",
    f"-I{RUNTIME / 'host'}",
)

Array = npt.NDArray[np.generic]


class KernelError(Exception):
    """What the emulator found: out of bounds, a race, divergence, an uninitialised read..."""


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("host", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("writable", ctypes.c_uint32),
        ("undefined", ctypes.c_uint32),
        ("all_written", ctypes.c_uint32),
    )


class _Dispatch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("group", ctypes.c_uint32 * 3),
        ("grid_counts_threads", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
    )


class Emulator:
    """A Metal source with instances of its kernels, compiled for the CPU. Raises CompileError."""

    def __init__(self, source: str, folder: Path) -> None:
        cpp = folder / "kernels.cpp"
        cpp.write_text(host_source(source), encoding="ascii")
        kernels = compile_object(cpp, KERNEL_FLAGS, folder)
        runtime = [
            compile_object(path, ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"], folder)
            for path in sorted(RUNTIME.glob("*.cpp"))
        ]
        self._path = compile_library([kernels, *runtime], [], folder, "emulated_kernels")
        self._library = ctypes.CDLL(str(self._path))
        self._library.emulator_error.restype = ctypes.c_char_p
        self._library.emulator_error_offset.restype = ctypes.c_uint64
        self._library.emulator_accesses.restype = ctypes.c_uint64

    def run(
        self,
        launch: Launch,
        arrays: Mapping[str, Array],
        *,
        undefined: frozenset[str] = frozenset(),
        all_written: frozenset[str] = frozenset(),
        seed: int = 0,
    ) -> int:
        """Runs one launch; `written` arrays change. Gives the number of checked accesses.

        Arrays named in `undefined` hold nothing at the start; those in `all_written` must be written
        to the last byte. Raises KernelError.
        """
        params = np.frombuffer(launch.params, np.uint8)
        buffers = [
            _buffer(
                arrays[name],
                written,
                name in undefined and written,
                name in all_written and written,
            )
            for name, written in launch.arguments
        ]
        buffers.append(_buffer(params, False, False, False))
        dispatch = _Dispatch(
            (ctypes.c_uint32 * 3)(*launch.grid),
            (ctypes.c_uint32 * 3)(*launch.group),
            launch.grid_counts_threads,
            seed,
        )
        function = getattr(self._library, f"launch_{launch.kernel}")
        if function(ctypes.byref(dispatch), (_Buffer * len(buffers))(*buffers), len(buffers)):
            raise KernelError(self._message())
        return int(self._library.emulator_accesses())

    def _message(self) -> str:
        message: str = self._library.emulator_error().decode()
        offset = self._library.emulator_error_offset()
        if offset == 0:
            return message
        command = ["addr2line", "-i", "-e", str(self._path), hex(offset - 1)]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        place = re.search(r"(\w+\.metal:\d+)", found)
        return f"{message} at {place.group(1)}" if place else message


def _buffer(array: Array, writable: bool, undefined: bool, all_written: bool) -> _Buffer:
    if not array.flags.c_contiguous or (writable and not array.flags.writeable):
        raise ValueError("a buffer is a contiguous array, and writeable if the kernel writes")
    return _Buffer(array.ctypes.data, array.nbytes, writable, undefined, all_written)
