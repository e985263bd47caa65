"""The law of rows: in float32 on CPU a token's numbers are the same bits in any batch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import load_model
from tests.support.checkpoints import Quantization, tiny_llama, tiny_qwen2, tiny_qwen3
from tests.support.row_attend import RowAttend

MIXED = Quantization(bits=4, bits_by_module={"model.layers.1.mlp.down_proj": 8, "lm_head": 8})
MAKERS = {
    "llama": tiny_llama,
    "llama-bfloat16": lambda folder: tiny_llama(folder, dtype="bfloat16", tied=False),
    "llama-mixed": lambda folder: tiny_llama(folder, tied=False, quantization=MIXED),
    "qwen2": tiny_qwen2,
    "qwen3": lambda folder: tiny_qwen3(folder, tied=False),
}
TOKENS = [(7 * i * i + 3) % 300 for i in range(80)]
POSITIONS = [(5 * i * i + i) % 512 for i in range(80)]


@pytest.fixture(scope="module", params=MAKERS)
def model(request, tmp_path_factory):
    return load_model(MAKERS[request.param](tmp_path_factory.mktemp(request.param))).model


@pytest.fixture(scope="module")
def alone(model):
    """Bits of the logits of every token, each computed in a batch of its own."""
    return np.concatenate([bits(model, [i]) for i in range(len(TOKENS))])


def bits(model, places):
    tokens, positions = [TOKENS[i] for i in places], [POSITIONS[i] for i in places]
    hidden = model(mx.array(tokens), mx.array(positions), RowAttend())
    return np.array(model.logits(hidden)).view(np.uint32)


@given(st.lists(st.integers(0, len(TOKENS) - 1), min_size=1, max_size=80))
def test_a_token_has_the_same_bits_in_any_company_and_at_any_place(model, alone, places):
    assert np.array_equal(bits(model, places), alone[places])


def test_the_logits_of_a_row_have_the_same_bits_whatever_rows_are_asked_for(model, alone):
    places = list(range(40))
    hidden = model(mx.array(TOKENS[:40]), mx.array(POSITIONS[:40]), RowAttend())
    for rows in ([39], [0, 20], [3, 5, 7, 9, 11]):
        logits = np.array(model.logits(hidden[mx.array(rows)])).view(np.uint32)
        assert np.array_equal(logits, alone[[places[row] for row in rows]])
