"""The tokenizer of a Hugging Face folder: what each of its files says of it."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.errors import ModelError
from server.text.tokenizer import Tokenizer, TokenizerSource

_Kind = TypeVar("_Kind", bound=BaseModel)
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")


class _TokenText(BaseModel):
    content: str


class _NamedTemplate(BaseModel):
    name: str
    template: str


class _TokenizerConfig(BaseModel):
    """tokenizer_config.json and special_tokens_map.json."""

    model_config = ConfigDict(extra="allow")

    add_bos_token: bool | None = None
    chat_template: str | list[_NamedTemplate] | None = None
    bos_token: str | _TokenText | None = None
    eos_token: str | _TokenText | None = None
    unk_token: str | _TokenText | None = None
    sep_token: str | _TokenText | None = None
    pad_token: str | _TokenText | None = None
    cls_token: str | _TokenText | None = None

    def named_tokens(self) -> dict[str, str]:
        named = {name: getattr(self, name) for name in _NAMES}
        return {
            name: token.content if isinstance(token, _TokenText) else token
            for name, token in named.items()
            if token is not None
        }

    def template(self) -> str | None:
        """The template itself, or the one named default."""
        if self.chat_template is None or isinstance(self.chat_template, str):
            return self.chat_template
        by_name = {one.name: one.template for one in self.chat_template}
        return by_name.get("default")


class _ModelConfig(BaseModel):
    """config.json and generation_config.json."""

    bos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None


def tokenizer_from_folder(folder: Path) -> Tokenizer:
    """Raises ModelError, naming the file, where one is missing or wrong."""
    definition = _definition(folder)
    config = _read(folder / "tokenizer_config.json", _TokenizerConfig)
    named = _read(folder / "special_tokens_map.json", _TokenizerConfig).named_tokens()
    named |= config.named_tokens()
    model = _read(folder / "config.json", _ModelConfig)
    generation = _read(folder / "generation_config.json", _ModelConfig)
    return Tokenizer(
        TokenizerSource(
            name=str(folder / "tokenizer.json"),
            definition=definition,
            adds_bos=config.add_bos_token,
            bos_token_id=next(iter(_all(model.bos_token_id)), None),
            eos_token_ids=frozenset(_all(model.eos_token_id) + _all(generation.eos_token_id)),
            chat_template=_chat_template(folder, config),
            named_tokens=named,
        )
    )


def _definition(folder: Path) -> str:
    path = folder / "tokenizer.json"
    if path.is_file():
        return _text(path)
    if (folder / "tokenizer.model").is_file():
        raise ModelError(
            f"{folder}: has tokenizer.model but no tokenizer.json; "
            "save it again with transformers' fast tokenizer to get one"
        )
    raise ModelError(f"{folder}: no tokenizer.json")


def _chat_template(folder: Path, config: _TokenizerConfig) -> str | None:
    """A file of its own comes before the one inside the configuration."""
    plain = folder / "chat_template.jinja"
    if plain.is_file():
        return _text(plain)
    in_json = _read(folder / "chat_template.json", _TokenizerConfig).template()
    return in_json if in_json is not None else config.template()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not UTF-8 at byte {error.start}") from error


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    """The file as that kind; an empty one where there is no file."""
    try:
        return kind.model_validate_json(path.read_bytes() if path.is_file() else b"{}")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ModelError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from error


def _all(ids: int | list[int] | None) -> list[int]:
    if ids is None:
        return []
    return ids if isinstance(ids, list) else [ids]
