"""Differences between two answers, as sentences."""

from tests.parity.records import Record

TOLERANCE = 1e-3  # of a log probability
NEAR_TIE = 2e-3  # the rank of two tokens closer than this may differ


def differences(expected: Record, got: Record) -> list[str]:
    """Every way in which `got` is not `expected`; empty where they agree."""
    if got.tokens != expected.tokens[: len(got.tokens)]:
        pairs = zip(expected.tokens, got.tokens, strict=False)
        place = next(i for i, (a, b) in enumerate(pairs) if a != b)
        return [f"token {place}: expected {expected.tokens[place]}, got {got.tokens[place]}"]
    return top_differences(expected, got.top)


def top_differences(expected: Record, top: list[list[tuple[int, float]]]) -> list[str]:
    """The same for the likeliest tokens alone; the first of each step must be the token itself."""
    found = []
    for place, (wanted, got) in enumerate(zip(expected.top, top, strict=False)):
        if got[0][0] != expected.tokens[place]:
            found.append(f"step {place}: expected token {expected.tokens[place]}, got {got[0][0]}")
        found += _step_differences(place, wanted, dict(got))
    return found


def _step_differences(
    place: int, wanted: list[tuple[int, float]], got: dict[int, float]
) -> list[str]:
    found = []
    last = wanted[-1][1]
    for token_id, logprob in wanted:
        if token_id not in got:
            if logprob > last + NEAR_TIE:
                found.append(f"step {place}: token {token_id} is not among the likeliest")
        elif abs(got[token_id] - logprob) > TOLERANCE:
            found.append(f"step {place}: token {token_id}: {logprob} expected, {got[token_id]} got")
    return found
