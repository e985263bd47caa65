"""Random traffic that replays from its seed: who arrives when, with what, and who leaves early."""

import random
from dataclasses import dataclass, replace

from engine.request import Request, SamplingParams


@dataclass(frozen=True, slots=True)
class TraceShape:
    """What the traffic is like; lengths in tokens, times in steps.

    Prompts come from `num_templates` texts. Each template is the head of one of `num_heads`
    shared texts, `head_lengths` long, and a body of its own, `body_lengths` long.
    """

    num_requests: int = 200
    num_templates: int = 15
    num_heads: int = 3
    head_lengths: tuple[int, ...] = (0, 4, 8, 12)
    body_lengths: tuple[int, ...] = (2, 10, 40)
    max_tokens: tuple[int, ...] = (1, 4, 12)
    max_n: int = 1
    vocab_size: int = 60
    requests_per_step: float = 0.5
    cancelled_share: float = 0.2
    cancelled_within: int = 20
    retried_share: float = 0.1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes at `step` and, where `abort_step` is set, is aborted then."""

    step: int
    request: Request
    abort_step: int | None = None


def make_trace(seed: int, shape: TraceShape | None = None) -> tuple[Arrival, ...]:
    """The same seed and shape give the same trace on every machine. Sorted by step."""
    shape = shape or TraceShape()
    dice = random.Random(seed)
    templates = _make_templates(dice, shape)
    arrivals: list[Arrival] = []
    time = 0.0
    while len(arrivals) < shape.num_requests:
        time += dice.expovariate(shape.requests_per_step)
        arrival = _make_arrival(dice, shape, int(time), str(len(arrivals)), templates)
        arrivals.append(arrival)
        if arrival.abort_step is not None and dice.random() < shape.retried_share:
            arrivals.append(_retry(arrival, str(len(arrivals))))
    return tuple(sorted(arrivals, key=lambda arrival: arrival.step))


def _make_templates(dice: random.Random, shape: TraceShape) -> list[tuple[int, ...]]:
    longest = max(shape.head_lengths)
    heads = [_make_text(dice, shape, longest) for _ in range(shape.num_heads)]
    return [
        dice.choice(heads)[: dice.choice(shape.head_lengths)]
        + _make_text(dice, shape, dice.choice(shape.body_lengths))
        for _ in range(shape.num_templates)
    ]


def _make_text(dice: random.Random, shape: TraceShape, length: int) -> tuple[int, ...]:
    return tuple(dice.randrange(shape.vocab_size) for _ in range(length))


def _make_arrival(
    dice: random.Random,
    shape: TraceShape,
    step: int,
    request_id: str,
    templates: list[tuple[int, ...]],
) -> Arrival:
    sampling = SamplingParams(
        max_tokens=dice.choice(shape.max_tokens),
        temperature=0.0,
        n=dice.randint(1, shape.max_n),
        presence_penalty=dice.choice((0.0, 0.0, 0.5)),
    )
    request = Request(request_id, dice.choice(templates), sampling)
    is_cancelled = dice.random() < shape.cancelled_share
    abort_step = step + dice.randint(0, shape.cancelled_within) if is_cancelled else None
    return Arrival(step, request, abort_step)


def _retry(cancelled: Arrival, request_id: str) -> Arrival:
    """A client that gave up asks the same again right after."""
    assert cancelled.abort_step is not None
    return Arrival(cancelled.abort_step + 1, replace(cancelled.request, request_id=request_id))
