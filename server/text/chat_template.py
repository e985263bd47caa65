"""Messages to token ids, by the model's own template.

Only the template writes control tokens. Where a message spells one ("<|im_end|>"), it stays text:
each such spelling is swapped for one private character before rendering, and swapped back once
the rendered text has been cut at the template's own control tokens.
"""

from collections.abc import Iterator, Mapping, Sequence

from engine.errors import InvalidRequest
from server.text.jinja_template import JinjaTemplate, TemplateFault
from server.text.special_tokens import SpecialTokens
from server.text.tokenizer import Tokenizer

Message = Mapping[str, object]

_PRIVATE_USE = range(0xF0000, 0xFFFFE)
_RESERVED = frozenset({"messages", "add_generation_prompt"})


def render_chat(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool,
    continue_final: bool,
    template_kwargs: Mapping[str, object],
) -> list[int]:
    """The prompt of a chat, with exactly one begin-of-sequence token where the model has one.

    A message holds "role", "content" (text, or None for none) and whatever else the template
    reads. `continue_final` ends the prompt inside the last message, so that the answer goes on
    from there. Raises InvalidRequest where the model has no template or the template refuses.
    """
    template = tokenizer.chat_template
    if template is None:
        raise InvalidRequest("this model has no chat template; use /v1/completions", "messages")
    _check(tokenizer, messages, continue_final, template_kwargs)
    shield = _Shield(tokenizer.special_tokens, [template.source, *messages, template_kwargs])
    shown = [_shown(shield, message) for message in messages]
    if continue_final:
        shown[-1]["content"] = f"{shown[-1]['content']}{shield.end}"
    variables: dict[str, object] = {**tokenizer.named_tokens}
    variables |= {name: shield.cover(value) for name, value in template_kwargs.items()}
    variables |= {"messages": shown, "add_generation_prompt": add_generation_prompt}
    text = _render(template, variables)
    return _encode(tokenizer, shield, _before(shield.end, text) if continue_final else text)


class _Shield:
    """Keeps control tokens that a client spelled out of the template's sight.

    Each becomes one private-use character that no text here contains. `end` is one more of them.
    """

    def __init__(self, special: SpecialTokens, values: Sequence[object]) -> None:
        text = "\n".join(_strings(values))
        spelled = special.written_in(text)
        taken = set(text)
        free = (chr(code) for code in _PRIVATE_USE if chr(code) not in taken)
        self._marks = {token: next(free) for token in spelled}
        self._tokens = str.maketrans({mark: token for token, mark in self._marks.items()})
        self.end = next(free)

    def cover(self, value: object) -> object:
        """The value with every control token in its texts swapped for its mark."""
        if isinstance(value, str):
            for token, mark in self._marks.items():
                value = value.replace(token, mark)
            return value
        if isinstance(value, Mapping):
            return {self.cover(key): self.cover(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.cover(item) for item in value]
        return value

    def uncover(self, text: str) -> str:
        return text.translate(self._tokens)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings(list(value.items()))
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _check(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    continue_final: bool,
    template_kwargs: Mapping[str, object],
) -> None:
    if not messages:
        raise InvalidRequest("there must be at least one message", "messages")
    if continue_final and messages[-1].get("role") != "assistant":
        raise InvalidRequest("only a last message of the assistant can be continued", "messages")
    for name in template_kwargs:
        if name in _RESERVED or name in tokenizer.named_tokens:
            raise InvalidRequest(f"the template sets {name!r} itself", "chat_template_kwargs")


def _shown(shield: _Shield, message: Message) -> dict[str, object]:
    """A message as the template sees it: no content is an empty text, other absences are absent."""
    shown = {key: shield.cover(value) for key, value in message.items() if value is not None}
    return {"content": "", **shown}


def _render(template: JinjaTemplate, variables: Mapping[str, object]) -> str:
    try:
        return template.render(variables)
    except TemplateFault as fault:
        raise InvalidRequest(f"the chat template refused: {fault}", "messages") from fault


def _before(end: str, text: str) -> str:
    """The rendered text up to the end of the last message."""
    before, found, _ = text.rpartition(end)
    if not found:
        raise InvalidRequest("this chat template cannot continue a message", "messages")
    return before


def _encode(tokenizer: Tokenizer, shield: _Shield, text: str) -> list[int]:
    parts = [
        part if isinstance(part, int) else shield.uncover(part)
        for part in tokenizer.special_tokens.split(text)
    ]
    try:
        return tokenizer.with_bos(tokenizer.encode_parts(parts))
    except InvalidRequest as error:
        raise InvalidRequest(str(error), "messages") from error
