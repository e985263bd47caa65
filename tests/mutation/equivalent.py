"""Systematic mutants that no test can catch, each with the reason why."""

SHORT_SLICE = "the slice at the very end is shorter than a page, and no entry of the index is"
SOUND_POOL = "no public operation brings a pool into the state that this half of the check forbids"

EQUIVALENT = {
    "PagePool.lookup: len(token_ids) - self.page_size -> len(token_ids) + self.page_size": SHORT_SLICE,
    "PagePool.lookup: 1 -> 2": SHORT_SLICE,
    "PagePool.check: set(states) -> states": SOUND_POOL,
    "PageTable.next_cached: return [] -> pass": "nothing is indexed under a parent that is None",
}
