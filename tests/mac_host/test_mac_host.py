"""The C++ that talks to Metal compiles for a Mac, and MLX's macOS library has what it asks for.

Skipped, and only this, where the wheels of zig and of MLX for macOS cannot be had.
"""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from metal.kernels.embed import cpp_source, kernel_source
from tests.mac_host.mach_o import MachO
from tests.mac_host.toolchain import MacToolchain, NoWheels, mac_toolchain

# One translation unit: MLX's headers take most of the time.
HOST_CODE = (
    "gpu/metal_commands.cpp",
    "gpu/paged_attention_gpu.cpp",
    "gpu/paged_cache_update_gpu.cpp",
    "checks.cpp",
    "launch/attention_launch.cpp",
    "launch/cache_update_launch.cpp",
    "launch/kernel_name.cpp",
    "kernel_source.cpp",
)
OF_MLX = re.compile("^__Z.*(3mlx4core|3MTL|2NS)")


@pytest.fixture(scope="module")
def toolchain() -> MacToolchain:
    if sys.platform == "darwin":
        pytest.skip("the extension is built here by the system's own compiler")
    try:
        return mac_toolchain(version("mlx"))
    except NoWheels as reason:
        pytest.skip(f"no wheels of zig and of MLX for macOS here: {reason}")


@pytest.fixture(scope="module")
def host_object(toolchain: MacToolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mac_host")
    (folder / "kernel_source.cpp").write_text(cpp_source(kernel_source(), "0.1.0"))
    unit = folder / "host_code.cpp"
    unit.write_text("".join(f'#include "{name}"\n' for name in HOST_CODE))
    output = folder / "host_code.o"
    toolchain.compile(unit, output)
    return output


def test_the_host_code_asks_mlx_only_for_what_its_macos_library_exports(
    toolchain: MacToolchain, host_object: Path
) -> None:
    asked = {name for name in MachO(host_object).undefined_symbols() if OF_MLX.match(name)}
    exported = MachO(toolchain.mlx / "lib/libmlx.dylib").exported_symbols()
    assert any("CommandEncoder" in name for name in asked)
    assert asked - exported == set()


def test_the_cpu_kernels_compile_for_apple_silicon(toolchain: MacToolchain, tmp_path: Path) -> None:
    source = tmp_path / "neon.cpp"
    source.write_text('#include "cpu/kernels.cpp"\n')
    toolchain.compile(
        source, tmp_path / "neon.o", "-DOCTAVO_LEVEL=neon", "-DOCTAVO_LEVEL_neon", "-O1"
    )
