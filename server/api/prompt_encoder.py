"""From prompts to token ids, beside the event loop, after a look at their size."""

from collections.abc import Mapping, Sequence

from engine.engine_stats import EngineLimits
from engine.errors import PromptTooLong
from server.api.text_rules import Prompt
from server.api.workers import Workers
from server.text.chat_template import Message, render_chat
from server.text.tokenizer import Tokenizer


class PromptEncoder:
    """A text so long that even its longest tokens could not fit the context is not tokenised."""

    def __init__(self, tokenizer: Tokenizer, workers: Workers, limits: EngineLimits) -> None:
        self._tokenizer = tokenizer
        self._workers = workers
        self._longest = limits.longest_and_why
        self._max_bytes = _longest_token(tokenizer) * limits.max_model_len

    async def encode_texts(
        self, texts: Sequence[str], *, add_special: bool, parse_special: bool
    ) -> list[Prompt]:
        """Raises InvalidRequest, PromptTooLong, Overloaded."""
        for text in texts:
            self._check_size(text)

        def encode() -> list[Prompt]:
            return [self._encode(text, add_special, parse_special) for text in texts]

        return await self._workers.run(encode)

    async def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool,
        continue_final: bool,
        template_kwargs: Mapping[str, object],
    ) -> Prompt:
        """Raises InvalidRequest, PromptTooLong, Overloaded."""
        for message in messages:
            self._check_size(str(message["content"] or ""))

        def encode() -> Prompt:
            token_ids = render_chat(
                self._tokenizer,
                messages,
                add_generation_prompt=add_generation_prompt,
                continue_final=continue_final,
                template_kwargs=template_kwargs,
            )
            return Prompt(tuple(token_ids))

        return await self._workers.run(encode)

    def _encode(self, text: str, add_special: bool, parse_special: bool) -> Prompt:
        own = self._tokenizer.encode(text, add_special=False, parse_special=parse_special)
        token_ids = self._tokenizer.with_bos(own) if add_special else own
        return Prompt(tuple(token_ids), text, num_added=len(token_ids) - len(own))

    def _check_size(self, text: str) -> None:
        if len(text.encode()) > self._max_bytes:
            raise PromptTooLong(
                f"The prompt cannot fit: prompt and answer together may have {self._longest}."
            )


def _longest_token(tokenizer: Tokenizer) -> int:
    """In bytes, at least 4: an unknown character may be one token."""
    return max([4, *(len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size))])
