"""Token ids to text, one token at a time, at constant cost per token."""

import codecs
from collections.abc import Sequence

from server.text.tokenizer import Tokenizer

_CONTEXT = 16  # tokens; more than any character or run of control tokens needs


class Detokenizer:
    """The text of one growing sequence.

    Joined, the pieces are `Tokenizer.decode` of all ids, in the context of the prompt's last ones
    (`prompt_tail`, which may be the whole prompt): a leading space stays, and a character that
    the prompt began is finished. A character is held back until its last byte is there. Bytes
    that cannot become a character show as U+FFFD at once and hold up nothing.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt_tail: Sequence[int] = (), skip_special: bool = True
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._drops_space = tokenizer.strips_first_space
        for token_id in prompt_tail[-_CONTEXT:]:
            self.push(token_id)

    def push(self, token_id: int) -> str:
        """The text that this token completes; often all of its own, sometimes none."""
        data = self._tokenizer.visible_bytes(token_id, self._skip_special)
        if data and self._drops_space:
            data = data.removeprefix(b" ")
            self._drops_space = False
        return self._utf8.decode(data)

    def flush(self) -> str:
        """The end of the text: one U+FFFD if a character was cut off, else nothing."""
        return self._utf8.decode(b"", final=True)
