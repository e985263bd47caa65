"""`octavo generate`: one answer on the terminal, through the same engine as the server's."""

import asyncio
import logging
import secrets
import sys
from argparse import Namespace
from collections.abc import AsyncIterator

from engine.build import build_engine
from engine.device import select_device
from engine.engine_loop import EngineLoop
from engine.engine_stats import StepReport
from engine.request import Request, SamplingParams
from engine.token_event import FinishReason, TokenEvent
from server.config import LogConfig
from server.draft_model import with_draft_model
from server.errors import GenerationFailed
from server.flag_reading import device_of, engine_config
from server.logs import configure_logging
from server.machine import this_machine
from server.standard_output import standard_output
from server.store.model_store import resolve_model
from server.text.chat_template import render_chat
from server.text.detokenizer import Detokenizer
from server.text.stop_strings import StopStrings
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer


def generate(flags: Namespace) -> int:
    """Streams the answer to the standard output. Raises ModelError, InvalidRequest, GenerationFailed,
    OutputError, ReaderLeft."""
    configure_logging(LogConfig(level="error"))
    logging.getLogger("engine").setLevel(logging.CRITICAL)  # its errors are told in one line below
    prompt = sys.stdin.read() if flags.prompt == "-" else flags.prompt
    asyncio.run(_generate(flags, prompt))
    return 0


async def _generate(flags: Namespace, prompt: str) -> None:
    path = resolve_model(flags.model).path
    tokenizer = load_tokenizer(path)
    prompt_ids = _prompt_ids(tokenizer, flags, prompt)
    machine = this_machine()
    device = device_of(flags, machine)
    config = with_draft_model(engine_config(flags, device, machine), tokenizer)
    select_device(device, flags.threads)
    engine = await build_engine(path, config, _NoObserver())
    try:
        async for text in _texts(engine, tokenizer, prompt_ids, flags):
            with standard_output() as out:
                print(text, end="", file=out)
    finally:
        await engine.stop(0)
        with standard_output() as out:
            print(file=out)


class _NoObserver:
    def step(self, report: StepReport) -> None:
        """Nobody asks for the times of one answer."""


def _prompt_ids(tokenizer: Tokenizer, flags: Namespace, prompt: str) -> list[int]:
    if flags.raw or not tokenizer.has_chat_template:
        return tokenizer.encode(prompt, add_special=True, parse_special=False)
    messages = [{"role": "system", "content": flags.system}] if flags.system else []
    return render_chat(
        tokenizer,
        [*messages, {"role": "user", "content": prompt}],
        add_generation_prompt=True,
        continue_final=False,
        template_kwargs={},
    )


async def _texts(
    engine: EngineLoop, tokenizer: Tokenizer, prompt_ids: list[int], flags: Namespace
) -> AsyncIterator[str]:
    """The answer in pieces, up to its end or a stop string."""
    detokenizer = Detokenizer(tokenizer, prompt_ids)
    stops = StopStrings(flags.stop)
    room = engine.limits.max_model_len - len(prompt_ids)
    sampling = _sampling(flags, max_tokens=max(1, min(flags.max_tokens, room)))
    stream = engine.submit(Request("generate", tuple(prompt_ids), sampling))
    try:
        async for event in stream:
            if event.finish_reason is FinishReason.ERROR:
                raise GenerationFailed(event.error or "the answer failed")
            text, hit = stops.push(_new_text(detokenizer, event))
            yield text
            if hit:
                return
    finally:
        await stream.aclose()
    text, hit = stops.push(detokenizer.flush())
    yield text if hit else text + stops.flush()


def _new_text(detokenizer: Detokenizer, event: TokenEvent) -> str:
    """A token that ends the answer is no part of its text."""
    if event.token_id is None or event.finish_reason is FinishReason.STOP:
        return ""
    return detokenizer.push(event.token_id)


def _sampling(flags: Namespace, max_tokens: int) -> SamplingParams:
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=flags.temperature,
        top_p=flags.top_p,
        top_k=flags.top_k,
        min_p=flags.min_p,
        seed=secrets.randbits(63) if flags.seed is None else flags.seed,
    )
