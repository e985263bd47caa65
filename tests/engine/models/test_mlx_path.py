"""What runs on Metal, MLX's own operations, held beside the CPU kernels, both here on the CPU."""

import mlx.core as mx
import pytest

from engine.models.loading import build_model, open_checkpoint
from tests.support.checkpoints import Quantization, tiny_llama, tiny_qwen2, tiny_qwen3
from tests.support.row_attend import RowAttend

TOKENS, POSITIONS = [5, 90, 33, 200, 7, 12], [0, 1, 2, 300, 301, 5]
MIXED = Quantization(bits=4, bits_by_module={"model.layers.0.self_attn.k_proj": 8, "lm_head": 6})
MAKERS = {
    "llama": tiny_llama,
    "llama-mixed": lambda folder: tiny_llama(folder, quantization=MIXED, tied=False),
    "qwen2-quantised": lambda folder: tiny_qwen2(folder, quantization=Quantization(bits=8)),
    "qwen2": lambda folder: tiny_qwen2(folder, tied=False),
    "qwen3-half": lambda folder: tiny_qwen3(folder, dtype="bfloat16"),
}


def logits(model):
    return model.logits(model(mx.array(TOKENS), mx.array(POSITIONS), RowAttend()))


@pytest.mark.parametrize("name", MAKERS)
def test_both_paths_give_the_same_logits_in_float32(tmp_path, name):
    folder = MAKERS[name](tmp_path)
    kernels = build_model(open_checkpoint(folder), mx.float32, on_cpu=True)
    plain = build_model(open_checkpoint(folder), mx.float32, on_cpu=False)
    assert mx.allclose(logits(kernels), logits(plain), rtol=1e-4, atol=1e-4).item()


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_hidden_states_have_the_checkpoints_dtype_and_logits_are_float32(tmp_path, dtype):
    folder = tiny_qwen3(tmp_path, dtype=str(dtype).removeprefix("mlx.core."))
    checkpoint = open_checkpoint(folder)
    assert checkpoint.dtype == dtype
    model = build_model(checkpoint, checkpoint.dtype, on_cpu=False)
    hidden = model(mx.array(TOKENS), mx.array(POSITIONS), RowAttend())
    assert hidden.dtype == model.spec.dtype == dtype
    assert model.logits(hidden).dtype == mx.float32
    exact = logits(build_model(open_checkpoint(folder), mx.float32, on_cpu=True))
    assert mx.abs(model.logits(hidden) - exact).max().item() < 0.5  # of logits around 5
