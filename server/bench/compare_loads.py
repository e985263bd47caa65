"""The loads that `octavo bench compare` knows. Pure."""

from dataclasses import dataclass

from server.bench.figure import (
    FIRST_TOKEN,
    GAP_IN_STEPS,
    OUTPUT_SPEED,
    PROMPT_SPEED,
    STEADY_GAP,
    TOKEN_TIME,
    WORST_GAP,
    Figure,
)
from server.bench.span import Span


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """`clients` send `num_requests`; `prompt` is in tokens, or in words where it says so."""

    name: str
    says: str
    clients: int
    num_requests: int
    prompt: Span
    new_tokens: Span
    shown: tuple[Figure, ...]
    shared_prefix: float = 0.0
    in_words: bool = False


@dataclass(frozen=True, slots=True)
class LongPromptLoad:
    """One long prompt arrives while `decoders` streams run; all lengths in tokens."""

    name: str
    says: str
    decoders: int
    decoder_prompt: int
    long_prompt: int
    shown: tuple[Figure, ...] = (STEADY_GAP, WORST_GAP, GAP_IN_STEPS, FIRST_TOKEN)


ComparedLoad = ClosedLoad | LongPromptLoad

LOADS: tuple[ComparedLoad, ...] = (
    ClosedLoad(
        "single",
        "1 client, 104 prompt + 64 new tokens",
        clients=1,
        num_requests=6,
        prompt=Span(104, 104),
        new_tokens=Span(64, 64),
        shown=(TOKEN_TIME, FIRST_TOKEN),
    ),
    ClosedLoad(
        "clients-8",
        "8 clients, 104 prompt + 64 new tokens",
        clients=8,
        num_requests=16,
        prompt=Span(104, 104),
        new_tokens=Span(64, 64),
        shown=(OUTPUT_SPEED,),
    ),
    ClosedLoad(
        "clients-16",
        "16 clients, 104 prompt + 64 new tokens",
        clients=16,
        num_requests=32,
        prompt=Span(104, 104),
        new_tokens=Span(64, 64),
        shown=(OUTPUT_SPEED,),
    ),
    ClosedLoad(
        "shared-prefix",
        "8 clients, 24 prompts of 400 words, 90% the same, + 32 new tokens",
        clients=8,
        num_requests=24,
        prompt=Span(400, 400),
        new_tokens=Span(32, 32),
        shown=(OUTPUT_SPEED,),
        shared_prefix=0.9,
        in_words=True,
    ),
    ClosedLoad(
        "prefill",
        "1 client, 512 prompt + 1 new token",
        clients=1,
        num_requests=6,
        prompt=Span(512, 512),
        new_tokens=Span(1, 1),
        shown=(PROMPT_SPEED,),
    ),
    ClosedLoad(
        "mixed",
        "4 clients, 16 requests, 128-1024 prompt + 32-128 new tokens",
        clients=4,
        num_requests=16,
        prompt=Span(128, 1024),
        new_tokens=Span(32, 128),
        shown=(OUTPUT_SPEED,),
    ),
    LongPromptLoad(
        "long-prompt",
        "a prompt of 4000 tokens arrives while 4 clients decode",
        decoders=4,
        decoder_prompt=64,
        long_prompt=4000,
    ),
)
