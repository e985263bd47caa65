import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from metal.kernels.embed import kernel_source
from tests.metal_emulator.bench import Bench
from tests.metal_emulator.launch_logic import LaunchLogic
from tests.metal_emulator.paged_case import Case

MakeBench = Callable[[Iterable[Case]], Bench]


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("the emulator needs Linux; on a Mac the same cases run on the GPU itself")
    return tmp_path_factory.mktemp("emulator")


@pytest.fixture(scope="session")
def launch_logic(build_folder: Path) -> LaunchLogic:
    return LaunchLogic(build_folder)


@pytest.fixture(scope="session")
def source() -> str:
    """The text that ships."""
    return kernel_source()


@pytest.fixture(scope="session")
def make_bench(launch_logic: LaunchLogic, source: str, build_folder: Path) -> MakeBench:
    return lambda cases: Bench(launch_logic, source, cases, build_folder)
