"""Answers of the models of this project, to hold beside those of transformers."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.models import CausalLM
from tests.parity.records import NUM_TOP, Record
from tests.support.dense_attend import DenseAttend


def answer(model: CausalLM, prompt: Sequence[int], num_tokens: int) -> Record:
    """The greedy continuation: the prompt in one step, then one token a step."""
    attend = DenseAttend()
    step, position = list(prompt), 0
    tokens: list[int] = []
    top: list[list[tuple[int, float]]] = []
    for _ in range(num_tokens):
        attend.row_lengths = [len(step)]
        positions = mx.arange(position, position + len(step))
        hidden = model(mx.array(step), positions, attend)
        top.append(likeliest(model.logits(hidden[-1:]))[0])
        position += len(step)
        tokens.append(top[-1][0][0])
        step = tokens[-1:]
    return Record(list(prompt), tokens, top)


def reread(model: CausalLM, record: Record) -> list[list[tuple[int, float]]]:
    """The likeliest tokens of each step where the model is given the recorded text at once."""
    text = record.prompt + record.tokens[:-1]
    attend = DenseAttend()
    attend.row_lengths = [len(text)]
    hidden = model(mx.array(text), mx.arange(len(text)), attend)
    return likeliest(model.logits(hidden[len(record.prompt) - 1 :]))


def likeliest(logits: mx.array) -> list[list[tuple[int, float]]]:
    """The NUM_TOP best tokens of each row [R, vocab], best first, with log probabilities."""
    logprobs = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    best = np.argpartition(-logprobs, NUM_TOP, axis=-1)[:, :NUM_TOP]
    rows = zip(best.tolist(), np.take_along_axis(logprobs, best, -1).tolist(), strict=True)
    return [
        sorted(zip(ids, values, strict=True), key=lambda pair: -pair[1]) for ids, values in rows
    ]
