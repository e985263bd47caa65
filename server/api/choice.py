"""One choice of an answer: tokens in, text out, exactly once and in order.

    produced   characters decoded so far
    released   characters handed out; what lies between may be the start of a stop string

A token's entry is handed out with the text that it ends in; entries that a stop string hides are
never handed out.
"""

from collections import deque
from dataclasses import dataclass

from engine.token_event import FinishReason, TokenEvent, TokenLogprob
from server.api.text_rules import Prompt, TextRules
from server.api.token_entry import TokenEntry, make_entry
from server.text.detokenizer import Detokenizer
from server.text.stop_strings import StopStrings
from server.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one event added to a choice; `finish_reason` ends it."""

    index: int
    text: str
    entries: tuple[TokenEntry, ...]
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class _PendingEntry:
    entry: TokenEntry
    end: int  # characters released by then, it is due


class Choice:
    """The text state of one sequence."""

    def __init__(self, index: int, tokenizer: Tokenizer, prompt: Prompt, rules: TextRules) -> None:
        self.index = index
        self.finish_reason: FinishReason | None = None
        self.num_tokens = 0
        self.logprob_sum = 0.0
        self.stopped_by_text = False
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._rules = rules
        self._decoder = Detokenizer(tokenizer, prompt.token_ids, skip_special=rules.skip_special)
        self._stops = StopStrings(rules.stops)
        self._produced = 0
        self._released = 0
        self._text: list[str] = []  # released, not yet taken
        self._entries: deque[_PendingEntry] = deque()
        self._started = False

    def push(self, event: TokenEvent) -> ChoiceDelta:
        """Takes the sequence's next event."""
        if not self._started:
            self._started = True
            if self._rules.echo:
                self._echo(event.prompt_logprobs)
        if event.token_id is not None:
            is_text = event.finish_reason is not FinishReason.STOP
            self._add(event.token_id, event.logprob, is_text=is_text)
        if event.finish_reason is not None and self.finish_reason is None:
            self._end(event.finish_reason)
        return self._take()

    @property
    def mean_logprob(self) -> float:
        """Of the generated tokens; 0 where there is none. Needs the engine's logprobs."""
        return self.logprob_sum / self.num_tokens if self.num_tokens else 0.0

    def _add(self, token_id: int, logprob: TokenLogprob | None, *, is_text: bool) -> None:
        self.num_tokens += 1
        self.logprob_sum += logprob.logprob if logprob is not None else 0.0
        offset = self._produced
        text = self._decoder.push(token_id) if is_text else ""
        self._produced += len(text)
        if self._rules.logprobs:
            # A token without text yet ends in the next character, whose first bytes it is.
            end = self._produced if text else self._produced + 1
            self._entries.append(_PendingEntry(make_entry(token_id, logprob, offset), end))
        self._release(text)

    def _release(self, text: str) -> None:
        """Hands out what no stop string may still claim."""
        if not self._rules.stops or self.num_tokens < self._rules.min_tokens:
            self._hand_out(text)
            return
        safe, stopped = self._stops.push(text)
        self._hand_out(safe)
        if stopped:
            self.stopped_by_text = True
            self.finish_reason = FinishReason.STOP

    def _hand_out(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._released += len(text)

    def _end(self, reason: FinishReason) -> None:
        rest = self._decoder.flush()
        self._produced += len(rest)
        self._release(rest)
        if not self.stopped_by_text:
            self._hand_out(self._stops.flush())
            self.stopped_by_text = self._stops.hit
            self.finish_reason = FinishReason.STOP if self.stopped_by_text else reason

    def _take(self) -> ChoiceDelta:
        text = "".join(self._text)
        self._text.clear()
        return ChoiceDelta(self.index, text, tuple(self._due_entries()), self.finish_reason)

    def _due_entries(self) -> list[TokenEntry]:
        due = []
        while self._entries and self._is_due(self._entries[0]):
            due.append(self._entries.popleft().entry)
        return due

    def _is_due(self, pending: _PendingEntry) -> bool:
        if self.stopped_by_text:
            return pending.entry.offset < self._released
        return self.finish_reason is not None or pending.end <= self._released

    def _echo(self, logprobs: tuple[TokenLogprob | None, ...] | None) -> None:
        """Begins the text with the prompt, as it was given."""
        pieces = self._prompt_pieces()
        for position, token_id in enumerate(self._prompt.token_ids):
            offset = self._produced
            self._produced += len(pieces[position])
            if logprobs is not None:
                entry = make_entry(token_id, logprobs[position], offset)
                self._entries.append(_PendingEntry(entry, self._produced))
        text = "".join(pieces) if self._prompt.text is None else self._prompt.text
        self._produced = len(text)
        self._hand_out(text)

    def _prompt_pieces(self) -> list[str]:
        """The text that each prompt token adds; tokens that were put before it add none.

        A character that the prompt leaves unfinished is the answer's to finish.
        """
        decoder = Detokenizer(self._tokenizer, skip_special=False)
        added = self._prompt.num_added
        pieces = [decoder.push(token_id) for token_id in self._prompt.token_ids[added:]]
        return [*[""] * added, *pieces]
