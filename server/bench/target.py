"""The server under load, and what each request says to it. Pure."""

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass, field

from server.bench.load import PlannedRequest

_ADDRESS = re.compile(r"https?://[^\s/?#\ud800-\udfff]+(?:/[^\s?#\ud800-\udfff]*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """`url` is what stands before /v1. `extra` is merged into each body; None takes a field out."""

    url: str
    model: str
    api_key: str | None = None
    chat: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"{self.url}/v1/{'chat/completions' if self.chat else 'completions'}"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def base_url(text: str) -> str:
    """An http or https address, without a slash or /v1 at its end."""
    url = text.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    if not _ADDRESS.fullmatch(url):
        raise ArgumentTypeError(f"{text!r} is no address such as http://127.0.0.1:8000")
    return url


def request_body(target: Target, request: PlannedRequest) -> Mapping[str, object]:
    """A greedy, streamed request whose answer has just `max_tokens` tokens where the server can."""
    body: dict[str, object] = {
        "model": target.model,
        **_prompt(target, request),
        "max_tokens": request.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        **target.extra,
    }
    removed = {name for name, value in target.extra.items() if value is None}
    return {name: value for name, value in body.items() if name not in removed}


def _prompt(target: Target, request: PlannedRequest) -> Mapping[str, object]:
    if target.chat:
        return {"messages": [{"role": "user", "content": request.prompt}]}
    return {"prompt": request.prompt}
