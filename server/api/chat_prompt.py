"""Messages of a request, as the chat template takes them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.errors import InvalidRequest
from server.api.prompt_encoder import PromptEncoder
from server.api.schemas.chat_message import Message, TextPart
from server.api.text_rules import Prompt


class ChatFields(Protocol):
    """What several requests say of how messages become a prompt."""

    @property
    def add_generation_prompt(self) -> bool | None: ...

    @property
    def continue_final_message(self) -> bool | None: ...

    @property
    def chat_template_kwargs(self) -> Mapping[str, object] | None: ...


async def encode_chat(
    encoder: PromptEncoder, messages: Sequence[Message], fields: ChatFields
) -> Prompt:
    """Raises InvalidRequest, PromptTooLong, Overloaded."""
    continues = bool(fields.continue_final_message)
    if continues and fields.add_generation_prompt:
        raise InvalidRequest(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            "continue_final_message",
        )
    opens_turn = not continues and fields.add_generation_prompt is not False
    return await encoder.encode_chat(
        [_plain(message) for message in messages],
        add_generation_prompt=opens_turn,
        continue_final=continues,
        template_kwargs=fields.chat_template_kwargs or {},
    )


def _plain(message: Message) -> dict[str, object]:
    """Templates know no developer and no parts: they are a system message and one text."""
    role = "system" if message.role == "developer" else message.role
    plain: dict[str, object] = {"role": role, "content": _text(message.content)}
    if message.name is not None:
        plain["name"] = message.name
    return plain


def _text(content: str | Sequence[TextPart] | None) -> str | None:
    if content is None or isinstance(content, str):
        return content
    return "".join(part.text for part in content)
