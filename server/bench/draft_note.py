"""What a table says of drafts in a load of random words. Pure."""

from collections.abc import Iterable, Mapping

from server.bench.server_counters import ACCEPTED_TOKENS, DRAFTED_TOKENS, ServerCounters

WARNING = (
    "Drafts: answers to random words fall into loops, which drafts guess; real text gains less "
    "(octavo bench speculative)."
)


def draft_notes(loads: Iterable[tuple[str, Mapping[str, float]]]) -> list[str]:
    """For each load, by name, what its counters grew by; nothing where nobody drafted."""
    notes = [note for name, added in loads for note in _note(name, ServerCounters(added))]
    return [*notes, WARNING] if notes else []


def _note(name: str, added: ServerCounters) -> list[str]:
    drafted, accepted = added.total(DRAFTED_TOKENS), added.total(ACCEPTED_TOKENS)
    if not drafted or accepted is None:
        return []
    return [f"{name}: {drafted:,.0f} tokens drafted, {accepted / drafted:.0%} of them accepted"]
