"""How arrays of pages grow: a small start, then doubling, never above the budget.

Doubling keeps the sum of all copies below twice the final size; growing page by page would copy
quadratically.
"""

INITIAL_PAGES = 16


def grown_capacity(capacity: int, needed: int, budget: int) -> int:
    """The capacity, in pages, that holds `needed` (<= budget) pages; `capacity` if it does already."""
    assert needed <= budget
    if needed <= capacity:
        return capacity
    return min(budget, max(needed, 2 * capacity, INITIAL_PAGES))
