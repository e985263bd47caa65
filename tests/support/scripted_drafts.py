"""Drafts for a Stepper that are right as far as a script says: it knows every solo text."""

import random
from collections.abc import Callable, Iterator

from engine.proposer import Draft
from engine.sequence import Sequence
from tests.support.stepper import VOCAB_SIZE, Stepper

Script = Callable[[], tuple[int, int]]  # how many tokens to draft, and how many of them right


class ScriptedDrafts:
    """A `drafter` that asks the script once for each sequence at decode."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def __call__(self, stepper: Stepper) -> list[Draft]:
        return [
            Draft(
                sequence.sequence_id,
                len(sequence.token_ids),
                tuple(self._tokens(stepper, sequence)),
            )
            for sequence in stepper.scheduler.running
            if sequence.may_be_drafted
        ]

    def _tokens(self, stepper: Stepper, sequence: Sequence) -> Iterator[int]:
        num_tokens, num_right = self._script()
        text = stepper.solo((sequence.request.request_id, sequence.indexes[0])).token_ids
        rest = text[sequence.num_generated_tokens :]
        for place in range(num_tokens):
            right = rest[place] if place < len(rest) else 0
            yield right if place < num_right else (right + 1) % VOCAB_SIZE


def always(num_tokens: int, num_right: int) -> ScriptedDrafts:
    return ScriptedDrafts(lambda: (num_tokens, num_right))


def at_random(dice: random.Random, longest: int = 6) -> ScriptedDrafts:
    def script() -> tuple[int, int]:
        num_tokens = dice.randint(0, longest)
        return num_tokens, dice.randint(0, num_tokens)

    return ScriptedDrafts(script)
