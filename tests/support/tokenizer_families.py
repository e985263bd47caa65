"""Small tokenizers of every supported kind, as their tokenizer.json has them.

byte_level    byte-level BPE (GPT-2, Llama 3, Qwen)
llama         SentencePiece with a space before each text (Llama 2)
gemma         SentencePiece without it (Gemma)
mistral       SentencePiece whose first word alone gets the space (newer Mistral)
"""

import json
from collections.abc import Sequence

from server.text.tokenizer import Tokenizer, TokenizerSource
from tests.support.tiny_tokenizer import byte_symbols, merges

Json = dict[str, object]

UNKNOWN, BEGIN, END, TURN = "<unk>", "<s>", "</s>", "<|turn|>"
SPECIAL = (UNKNOWN, BEGIN, END, TURN)  # ids 0 to 3
THINK = "<think>"  # an added token that is text, not control
BEGIN_ID, END_ID, TURN_ID = 1, 2, 3
FAMILIES = ("byte_level", "llama", "gemma", "mistral")

_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_MARKS = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
_WORDS = ("▁the", "▁leading", "▁don", "▁a", "é", "日本", "▁▁", "\n\n")


def family_json(name: str) -> Json:
    """The definition of one family, with the special tokens in front of its vocabulary."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        **(_byte_level() if name == "byte_level" else _sentence_piece(name)),
    }


def family(name: str, **source: object) -> Tokenizer:
    """A tokenizer of that family; `source` goes to TokenizerSource."""
    named = {"bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}
    fields: dict[str, object] = {"adds_bos": True, "named_tokens": named, **source}
    return Tokenizer(TokenizerSource(name, json.dumps(family_json(name)), **fields))  # type: ignore[arg-type]


def _byte_level() -> Json:
    joined = [left + right for left, right in merges()]
    tokens = [*SPECIAL, *byte_symbols(), *joined]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "added_tokens": _added(len(tokens)),
        "pre_tokenizer": {**level, "use_regex": True},
        "decoder": level,
        "model": {**_bpe(tokens), "merges": [list(pair) for pair in merges()]},
    }


def _sentence_piece(name: str) -> Json:
    characters = sorted({character for word in _WORDS for character in word} | set("bcpx,.'▁"))
    joined = [pair for word in _WORDS for pair in _chain(word)]
    pieces = dict.fromkeys([*characters, *(left + right for left, right in joined)])
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    model = {**_bpe(tokens), "merges": [list(pair) for pair in dict.fromkeys(joined)]}
    model |= {"byte_fallback": True, "fuse_unk": True, "unk_token": UNKNOWN}
    return {"added_tokens": _added(len(tokens)), "model": model, **_spaces(name)}


def _spaces(name: str) -> Json:
    fallback: Sequence[Json] = (_MARKS, {"type": "ByteFallback"}, {"type": "Fuse"})
    if name == "gemma":
        return {
            "normalizer": _SPACES,
            "decoder": {"type": "Sequence", "decoders": list(fallback)},
        }
    strip: Json = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoder: Json = {"type": "Sequence", "decoders": [*fallback, strip]}
    if name == "llama":
        prepend = {"type": "Prepend", "prepend": "▁"}
        normalizer = {"type": "Sequence", "normalizers": [prepend, _SPACES]}
        return {"normalizer": normalizer, "decoder": decoder}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return {"pre_tokenizer": metaspace, "decoder": decoder}


def _chain(word: str) -> list[tuple[str, str]]:
    """Left-to-right merges that make a word one token."""
    return [(word[:place], word[place]) for place in range(1, len(word))]


def _bpe(tokens: Sequence[str]) -> Json:
    return {"type": "BPE", "vocab": {token: place for place, token in enumerate(tokens)}}


def _added(vocabulary_size: int) -> list[Json]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [
        {"id": place, "content": token, "special": True, **flags}
        for place, token in enumerate(SPECIAL)
    ]
    return [*special, {"id": vocabulary_size, "content": THINK, "special": False, **flags}]
