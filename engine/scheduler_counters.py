"""What a scheduler counts since it was made; `EngineStats` says what each figure means."""

from dataclasses import dataclass


@dataclass(slots=True)
class SchedulerCounters:
    preemptions: int = 0
    page_copies: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
