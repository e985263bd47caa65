"""The kernels run on the CPU, at every instruction level that this machine has."""

from collections.abc import Iterator

import mlx.core as mx
import pytest

import metal


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    with mx.stream(mx.cpu):
        yield


@pytest.fixture(params=metal.instruction_levels())
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction level in turn; the best one is back afterwards."""
    before = metal.instruction_level()
    metal.set_instruction_level(request.param)
    yield request.param
    metal.set_instruction_level(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = metal.num_threads()
    metal.set_num_threads(1)
    yield
    metal.set_num_threads(before)
