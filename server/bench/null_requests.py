"""Random requests for the null runner: lengths matter, tokens do not. The same seed gives the same ones."""

import random

from engine.request import Request, SamplingParams
from server.bench.span import Span


def null_requests(count: int, prompt_tokens: Span, new_tokens: Span, seed: int) -> list[Request]:
    dice = random.Random(seed)
    return [
        Request(
            str(i),
            (0,) * prompt_tokens.draw(dice),
            SamplingParams(new_tokens.draw(dice), temperature=0.0),
        )
        for i in range(count)
    ]
