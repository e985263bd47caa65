"""The figures that servers are compared by. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`key` names it in JSON, `label` for people; both say the unit."""

    key: str
    label: str
    more_is_better: bool


OUTPUT_SPEED = Figure("output_tokens_per_second", "output tok/s", more_is_better=True)
PROMPT_SPEED = Figure("prompt_tokens_per_second", "prompt tok/s", more_is_better=True)
TOKEN_TIME = Figure("milliseconds_per_token", "ms between tokens", more_is_better=False)
FIRST_TOKEN = Figure("milliseconds_to_first_token", "ms to first token", more_is_better=False)
STEADY_GAP = Figure("steady_milliseconds", "ms steady gap", more_is_better=False)
WORST_GAP = Figure("worst_gap_milliseconds", "ms worst gap", more_is_better=False)
GAP_IN_STEPS = Figure("worst_gap_in_steady_gaps", "worst / steady", more_is_better=False)
COPIED = Figure("kv_copied_megabytes", "K/V MB copied", more_is_better=False)
RESIDENT = Figure("resident_megabytes", "MB resident", more_is_better=False)
