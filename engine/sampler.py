"""From one row of logits to one token, on the host.

A row is sampled by itself: its outcome cannot depend on its neighbours, and what goes wrong with it
ends its sequence alone. Order: repetition, frequency and presence penalty, logit_bias, banned
tokens; then temperature, top_k, min_p, top_p. Log probabilities are those of the model, before all
of that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.keyed_random import keyed_uniform
from engine.request import SamplingParams
from engine.step_batch import Draw, Drawn, History
from engine.token_event import TokenLogprob

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class SamplingFault(Exception):
    """A row of logits from which no token can be drawn; the message is for the client."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Tokens that may be drawn, and their unnormalised probabilities."""

    ids: Ids
    weights: NDArray[np.float64]


def is_plain_greedy(draw: Draw) -> bool:
    """True where the token is the argmax of the model's logits and nothing more is asked."""
    sampling = draw.sampling
    return (
        sampling.temperature == 0
        and sampling.logprobs is None
        and not sampling.logit_bias
        and not draw.banned_token_ids
        and draw.history is None
    )


def sample(logits: Floats, draw: Draw) -> Drawn:
    """Choose a token from `logits` [V]; they are not changed. Raises SamplingFault."""
    _require_finite(logits)
    adjusted = _adjusted(logits, draw)
    token = _greedy(adjusted) if draw.sampling.temperature == 0 else _drawn(adjusted, draw)
    if draw.sampling.logprobs is None:
        return Drawn(token)
    return Drawn(token, token_logprob(logits, token, draw.sampling.logprobs))


def token_logprob(logits: Floats, token_id: int, num_alternatives: int) -> TokenLogprob:
    """The log probability of a token under `logits` [V], and the likeliest tokens, best first."""
    shifted = logits.astype(np.float64) - logits.max()
    logprobs = shifted - np.log(np.exp(shifted).sum())
    best = _largest(logits, num_alternatives)
    top = tuple((int(token), float(logprobs[token])) for token in best)
    return TokenLogprob(token_id, float(logprobs[token_id]), top)


def _require_finite(logits: Floats) -> None:
    if not np.isfinite(logits).all():
        raise SamplingFault("the model's logits are not finite")


def _adjusted(logits: Floats, draw: Draw) -> Floats:
    sampling = draw.sampling
    if not (draw.history or sampling.logit_bias or draw.banned_token_ids):
        return logits
    logits = logits.copy()
    if draw.history:
        _penalise(logits, sampling, draw.history)
    for token, bias in sampling.logit_bias.items():
        logits[token] += bias
    logits[list(draw.banned_token_ids)] = -np.inf
    return logits


def _penalise(logits: Floats, sampling: SamplingParams, history: History) -> None:
    """Repetition penalty: Keskar et al., "CTRL", 2019, over prompt and answer; the others as OpenAI
    documents them, over the answer."""
    generated = list(history.generated_counts)
    seen = list(history.prompt_token_ids.union(generated))
    before = logits[seen]
    penalty = np.float32(sampling.repetition_penalty)
    logits[seen] = np.where(before > 0, before / penalty, before * penalty)
    counts = np.array([history.generated_counts[token] for token in generated], np.float32)
    logits[generated] -= sampling.frequency_penalty * counts + sampling.presence_penalty


def _greedy(logits: Floats) -> int:
    token = int(logits.argmax())
    if logits[token] == -np.inf:
        raise SamplingFault("every token is banned")
    return token


def _drawn(logits: Floats, draw: Draw) -> int:
    """Inverse transform sampling with the one random number that belongs to this draw."""
    candidates = _candidates(logits, draw.sampling)
    cumulative = candidates.weights.cumsum()
    u = keyed_uniform(draw.sampling.seed, draw.index, draw.position)
    place = int(cumulative.searchsorted(u * cumulative[-1], side="right"))
    return int(candidates.ids[min(place, len(candidates.ids) - 1)])


def _candidates(logits: Floats, sampling: SamplingParams) -> _Candidates:
    best = logits[_greedy(logits)]
    scaled = (logits - best).astype(np.float64) / sampling.temperature
    ids: Ids = np.arange(len(logits))
    if 0 < sampling.top_k < len(logits):
        ids = _largest(logits, sampling.top_k)
    weights = np.exp(scaled[ids])
    if sampling.min_p > 0:
        kept = weights >= sampling.min_p  # the best token weighs 1
        ids, weights = ids[kept], weights[kept]
    if sampling.top_p < 1:
        return _nucleus(ids, weights, sampling.top_p)
    return _Candidates(ids, weights)


def _nucleus(ids: Ids, weights: NDArray[np.float64], top_p: float) -> _Candidates:
    """The fewest likeliest tokens that hold `top_p` of the weight.

    Tokens below (1 - top_p) / V of the weight hold less than 1 - top_p together, so none of them
    belongs to it; without them there is little left to sort.
    """
    total = weights.sum()
    kept = weights >= (1 - top_p) * total / len(weights)
    ids, weights = ids[kept], weights[kept]
    order = np.argsort(-weights, kind="stable")
    ids, weights = ids[order], weights[order]
    size = int(weights.cumsum().searchsorted(top_p * total)) + 1
    return _Candidates(ids[:size], weights[:size])


def _largest(logits: Floats, count: int) -> Ids:
    """The ids of the `count` largest logits, largest first, equal ones by id."""
    if count == 0:
        return np.empty(0, np.int64)
    count = min(count, len(logits))
    edge = np.partition(logits, -count)[-count]
    above = np.flatnonzero(logits > edge)
    ids = np.concatenate([above, np.flatnonzero(logits == edge)[: count - len(above)]])
    return ids[np.lexsort((ids, -logits[ids]))]
