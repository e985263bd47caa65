"""An engine on each device of this machine: the kernels against plain attention over gathered pages."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from engine.build import load_engine
from engine.config import AttentionKind
from engine.request import Request, SamplingParams
from tests.support.checkpoints import tiny_llama
from tests.support.engine_runs import CONFIG, run

NO_METAL = pytest.mark.skipif(not mx.metal.is_available(), reason="no Metal on this machine")


@pytest.fixture(
    params=[pytest.param(mx.cpu, id="cpu"), pytest.param(mx.gpu, id="gpu", marks=NO_METAL)]
)
def device(request: pytest.FixtureRequest) -> Iterator[mx.DeviceType]:
    """Everything computes there, as `select_device` has it."""
    before = mx.default_device()
    mx.set_default_device(request.param)
    yield request.param
    mx.set_default_device(before)


def test_greedy_tokens_do_not_depend_on_the_kind_of_attention(
    device: mx.DeviceType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny_llama(tmp_path)
    requests = [
        Request(
            name, tuple(range(3, 3 + length)), SamplingParams(8, temperature=0, ignore_eos=True)
        )
        for name, length in (("short", 2), ("long", 70), ("longer", 90))
    ]
    answers = {
        kind: run(load_engine(folder, replace(CONFIG, attention=kind)), requests, every=2)
        for kind in AttentionKind
    }
    assert mx.default_device().type == device
    assert [record.getMessage() for record in caplog.records] == []  # no self-test failed
    assert answers[AttentionKind.PAGED] == answers[AttentionKind.DENSE]
