"""The tokenizer inside a GGUF file, rebuilt as the tokenizer.json it came from.

Two kinds are in use: "gpt2" (byte-level BPE: tokens, merges, and the name of a pre-tokenizer)
and "llama" (SentencePiece: tokens with scores, from which the merges follow).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from engine.errors import ModelError
from engine.gguf_reader import GGUFValue
from server.text.gguf_metadata import read_gguf_metadata
from server.text.tokenizer import Tokenizer, TokenizerSource

_Kind = TypeVar("_Kind")
_Json = dict[str, object]

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # of tokenizer.ggml.token_type
_NO_STRIP: Mapping[str, object] = {
    "lstrip": False,
    "rstrip": False,
    "single_word": False,
    "normalized": False,
}

# How a text is cut into words before merging, by tokenizer.ggml.pre.
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_DIGITS_IN_THREES = ("llama-bpe", "llama3", "llama-v3")
_DIGITS_ALONE = ("qwen2", "deepseek-r1-qwen")
_DIGITS_THEN_GPT2 = ("smollm", "starcoder", "refact", "command-r")
_SUPPORTED = ("gpt-2", *_DIGITS_THEN_GPT2, *_DIGITS_IN_THREES, *_DIGITS_ALONE)


class _Metadata:
    """Typed reading of the file's keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values = read_gguf_metadata(path)

    def text(self, key: str) -> str | None:
        return self._read(key, str)

    def number(self, key: str) -> int | None:
        return self._read(key, int)

    def flag(self, key: str) -> bool | None:
        return self._read(key, bool)

    def texts(self, key: str) -> list[str]:
        return [str(value) for value in self._list(key)]

    def numbers(self, key: str) -> list[float]:
        return [float(value) for value in self._list(key)]

    def _list(self, key: str) -> list[bool | int | float | str]:
        if (values := self._read(key, list)) is None:
            raise ModelError(f"{self.path}: no {key}")
        return values

    def _read(self, key: str, kind: type[_Kind]) -> _Kind | None:
        value: GGUFValue | None = self._values.get(key)
        if value is not None and not isinstance(value, kind):
            raise ModelError(f"{self.path}: {key} has an unexpected type")
        return value


def tokenizer_from_gguf(path: Path) -> Tokenizer:
    """Raises ModelError, naming the file and the key, where something is missing or unknown."""
    metadata = _Metadata(path)
    kind = metadata.text("tokenizer.ggml.model")
    tokens = metadata.texts("tokenizer.ggml.tokens")
    if kind == "gpt2":
        definition, adds_bos = _byte_level(metadata, tokens)
    elif kind == "llama":
        definition, adds_bos = _sentence_piece(metadata, tokens)
    else:
        raise ModelError(f"{path}: tokenizer {kind!r}; gpt2 and llama are supported")
    definition |= {"version": "1.0", "added_tokens": _added_tokens(metadata, tokens)}
    return Tokenizer(_source(metadata, tokens, definition, adds_bos))


def _source(
    metadata: _Metadata, tokens: list[str], definition: _Json, adds_bos: bool
) -> TokenizerSource:
    ids = {
        name: metadata.number(f"tokenizer.ggml.{key}_token_id")
        for name, key in (("bos", "bos"), ("eos", "eos"), ("eot", "eot"), ("eom", "eom"))
    } | {
        "unk": metadata.number("tokenizer.ggml.unknown_token_id"),
        "pad": metadata.number("tokenizer.ggml.padding_token_id"),
    }
    flag = metadata.flag("tokenizer.ggml.add_bos_token")
    return TokenizerSource(
        name=str(metadata.path),
        definition=json.dumps(definition),
        adds_bos=adds_bos if flag is None else flag,
        bos_token_id=ids["bos"],
        eos_token_ids=frozenset(
            token_id for name in ("eos", "eot", "eom") if (token_id := ids[name]) is not None
        ),
        chat_template=metadata.text("tokenizer.chat_template"),
        named_tokens={
            f"{name}_token": tokens[token_id]
            for name, token_id in ids.items()
            if token_id is not None and 0 <= token_id < len(tokens)
        },
    )


def _added_tokens(metadata: _Metadata, tokens: list[str]) -> list[_Json]:
    kinds = metadata.numbers("tokenizer.ggml.token_type")
    return [
        {"id": token_id, "content": token, "special": kind != _USER_DEFINED, **_NO_STRIP}
        for token_id, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
    ]


def _byte_level(metadata: _Metadata, tokens: list[str]) -> tuple[_Json, bool]:
    pre = metadata.text("tokenizer.ggml.pre") or "gpt-2"
    if pre not in _SUPPORTED:
        raise ModelError(
            f"{metadata.path}: pre-tokenizer {pre!r}; supported are {', '.join(_SUPPORTED)}"
        )
    is_llama = pre in _DIGITS_IN_THREES
    merges = metadata.texts("tokenizer.ggml.merges")
    definition: _Json = {
        "model": _bpe(tokens, merges) | {"ignore_merges": is_llama},
        "normalizer": {"type": "NFC"} if pre in _DIGITS_ALONE else None,
        "pre_tokenizer": _pre_tokenizer(pre),
        "decoder": _byte_level_part(use_regex=True),
    }
    return definition, is_llama


def _pre_tokenizer(pre: str) -> _Json:
    if pre in _DIGITS_THEN_GPT2:
        digits: _Json = {"type": "Digits", "individual_digits": True}
        return _in_turn(digits, _byte_level_part(use_regex=True))
    if pre == "gpt-2":
        return _byte_level_part(use_regex=True)
    numbers = r"\p{N}{1,3}" if pre in _DIGITS_IN_THREES else r"\p{N}"
    pattern = {"Regex": _LETTERS + numbers + _REST}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return _in_turn(split, _byte_level_part(use_regex=False))


def _in_turn(*parts: _Json) -> _Json:
    return {"type": "Sequence", "pretokenizers": list(parts)}


def _byte_level_part(*, use_regex: bool) -> _Json:
    spaces = {"add_prefix_space": False, "trim_offsets": True}
    return {"type": "ByteLevel", "use_regex": use_regex, **spaces}


def _sentence_piece(metadata: _Metadata, tokens: list[str]) -> tuple[_Json, bool]:
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix") is not False
    scores = metadata.numbers("tokenizer.ggml.scores")
    unknown = metadata.number("tokenizer.ggml.unknown_token_id")
    spaces: _Json = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    marks: _Json = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    before: list[_Json] = [{"type": "Prepend", "prepend": "▁"}] if prefix else []
    after: list[_Json] = (
        [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    )
    definition: _Json = {
        "model": _bpe(tokens, _merges_by_score(tokens, scores))
        | {"byte_fallback": True, "fuse_unk": True}
        | {"unk_token": None if unknown is None else tokens[unknown]},
        "normalizer": {"type": "Sequence", "normalizers": [*before, spaces]},
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [marks, {"type": "ByteFallback"}, {"type": "Fuse"}, *after],
        },
    }
    return definition, True


def _merges_by_score(tokens: list[str], scores: list[float]) -> list[tuple[str, str]]:
    """SentencePiece joins the pair whose piece scores best: the merges in that order."""
    known = set(tokens)
    ranked = sorted(zip(tokens, scores, strict=True), key=lambda pair: -pair[1])
    return [
        (piece[:cut], piece[cut:])
        for piece, _ in ranked
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]


def _bpe(tokens: list[str], merges: list[str] | list[tuple[str, str]]) -> _Json:
    vocabulary: Mapping[str, int] = {token: token_id for token_id, token in enumerate(tokens)}
    return {"type": "BPE", "vocab": vocabulary, "merges": merges}
