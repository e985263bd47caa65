"""A compiler for macOS on any machine: zig from its wheel, and MLX's own wheels for macOS."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.metal_emulator.launch_logic import METAL, REPOSITORY

FOLDER = REPOSITORY / "build" / "mac_host"  # kept: the wheels are large
STUBS = Path(__file__).with_name("stubs")
ZIG = "ziglang==0.17.1"
PLATFORM = ("--platform", "macosx_14_0_arm64", "--only-binary=:all:", "--no-deps", "--quiet")


class NoWheels(Exception):
    """The wheels cannot be had here; the message is pip's."""


@dataclass(frozen=True, slots=True)
class MacToolchain:
    mlx: Path  # the unpacked mlx/ folder of the wheels
    zig: Path  # a folder for PYTHONPATH

    def compile(self, source: Path, output: Path, *flags: str) -> None:
        """An object file for macOS on Apple silicon. Raises AssertionError with the errors."""
        include = self.mlx / "include"
        folders = [f"-isystem{path}" for path in (STUBS, include, include / "metal_cpp")]
        folders += [f"-I{path}" for path in (METAL / "src", METAL, source.parent)]
        warnings = ["-Wall", "-Wextra", "-Werror"]
        self._zig(
            "c++",
            "-target",
            "aarch64-macos.14.0",
            "-std=c++20",
            *warnings,
            "-D_METAL_",
            *folders,
            *flags,
            "-c",
            str(source),
            "-o",
            str(output),
        )

    def _zig(self, *arguments: str) -> None:
        cache = str(FOLDER / "cache")
        environment = {
            "PYTHONPATH": str(self.zig),
            "ZIG_GLOBAL_CACHE_DIR": cache,
            "ZIG_LOCAL_CACHE_DIR": cache,
            "HOME": str(FOLDER),
        }
        run = subprocess.run(
            [sys.executable, "-m", "ziglang", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise AssertionError(run.stderr)


def mac_toolchain(mlx_version: str) -> MacToolchain:
    """Fetches what is missing. Raises NoWheels."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wheels, zig = FOLDER / "wheels", FOLDER / "zig"
    unpacked = FOLDER / f"mlx-{mlx_version}"
    if not unpacked.exists():
        names = [f"mlx=={mlx_version}", f"mlx-metal=={mlx_version}"]
        _pip("download", *PLATFORM, "--dest", str(wheels), *names)
        with _filled(unpacked) as folder:
            for wheel in wheels.glob(f"mlx*-{mlx_version}-*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder)
    if not zig.exists():
        with _filled(zig) as folder:
            _pip("install", "--quiet", "--no-deps", "--target", str(folder), ZIG)
    return MacToolchain(unpacked / "mlx", zig)


@contextmanager
def _filled(folder: Path) -> Iterator[Path]:
    """A place to fill, which becomes `folder` once it is whole: an interrupted test leaves no half."""
    with TemporaryDirectory(dir=FOLDER) as place:
        filled = Path(place) / "filled"
        yield filled
        filled.rename(folder)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise NoWheels(run.stderr.strip().splitlines()[-1])
