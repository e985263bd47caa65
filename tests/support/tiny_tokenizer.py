"""A tiny but real byte-level BPE tokenizer: every byte, a few merges, three special tokens."""

import json
from pathlib import Path

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)  # ids 0, 1, 2
END_OF_TEXT_ID, TURN_START_ID, TURN_END_ID = 0, 1, 2

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_WORDS = (
    *(" the", " and", " of", " to", " in", " is", "ing", "er", " page", " quick", " brown", " fox"),
    *(" hello", " world", " answer", " question"),
)
_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_symbols() -> list[str]:
    """The 256 printable stand-ins of byte-level BPE, in byte order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def merges() -> list[tuple[str, str]]:
    """Left-to-right merges that make each of the words one token, without repeats."""
    symbols = byte_symbols()
    found: dict[tuple[str, str], None] = {}
    for word in _WORDS:
        parts = [symbols[byte] for byte in word.encode()]
        left = parts[0]
        for right in parts[1:]:
            found[left, right] = None
            left += right
    return list(found)


def vocabulary() -> list[str]:
    """Every token by id: the special tokens, the bytes, the merges."""
    return [*SPECIAL_TOKENS, *byte_symbols(), *(left + right for left, right in merges())]


def write_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json, as a Hugging Face folder has them."""
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer_json(), ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(), indent=1))


def _tokenizer_json() -> dict[str, object]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {"type": "Split", "pattern": {"Regex": _SPLIT}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(token_id, text) for token_id, text in enumerate(SPECIAL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, byte_level | {"use_regex": False}],
        },
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(vocabulary())},
            "merges": [list(pair) for pair in merges()],
        },
    }


def _special(token_id: int, text: str) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": text, "special": True, **flags}


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": TURN_START,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": CHAT_TEMPLATE,
    }
