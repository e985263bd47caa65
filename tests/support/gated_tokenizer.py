"""A tokenizer that takes as long as the test says."""

import json
import threading

from server.text.tokenizer import Tokenizer, TokenizerSource
from tests.support.raw_http import PATIENCE
from tests.support.tokenizer_families import family_json


class GatedTokenizer(Tokenizer):
    """Open at first; once closed, `encode` waits for `may_end` and tells by `began` that it does."""

    def __init__(self) -> None:
        definition = json.dumps(family_json("byte_level"))
        super().__init__(TokenizerSource("gated", definition, eos_token_ids=frozenset({2})))
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def close_gate(self) -> None:
        self.began.clear()
        self.may_end.clear()

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.began.set()
        assert self.may_end.wait(PATIENCE)
        return super().encode(text, add_special=add_special, parse_special=parse_special)
