"""How one step's token budget is shared among the sequences that have tokens to compute."""

from collections.abc import Sequence


def share_budget(budget: int, needs: Sequence[int]) -> list[int]:
    """Tokens for each sequence in this step; `needs` (1 or more each) stand oldest first.

    Who needs one token gets it: decoders never wait for a prompt. Of the rest, the oldest prompt
    gets at least half, so its age in the queue is bounded; then the shortest come first, so a short
    prompt is not held up by a long one; what is left goes to the oldest again. The sum is
    min(budget, sum(needs)).

    Where decoders alone would use up the budget, one token is held back for the oldest prompt, and
    the oldest of all gets a token from any budget. So nobody waits for ever.
    """
    shares = [0] * len(needs)
    long = [i for i, need in enumerate(needs) if need > 1]
    held = min(budget, 1) if long and (budget > 1 or long[0] == 0) else 0
    left = budget - held
    for i, need in enumerate(needs):
        if need == 1 and left:
            shares[i] = 1
            left -= 1
    if not long:
        return shares
    left += held
    oldest, *others = long
    shares[oldest] = min(needs[oldest], -(-left // 2))
    left -= shares[oldest]
    for i in [*sorted(others, key=lambda i: needs[i]), oldest]:
        more = min(needs[i] - shares[i], left)
        shares[i] += more
        left -= more
    return shares
