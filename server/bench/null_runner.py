"""A runner without a model or a device, for benches of the scheduler alone."""

from engine.engine_stats import CopiedBytes, StorageStats
from engine.growth import grown_capacity
from engine.step_batch import Drawn, RowResult, StepBatch, StepResult


class NullRunner:
    """Computes nothing: every token is 0, so a text ends where its request says.

    The pages grow as those of a runner on a GPU. `num_pages` is the budget.
    """

    def __init__(self, bytes_per_page: int, num_pages: int) -> None:
        self._bytes_per_page = bytes_per_page
        self._num_pages = num_pages
        self._capacity = 0
        self._num_growths = 0
        self._num_grown_pages = 0

    def run(self, batch: StepBatch) -> StepResult:
        grown = grown_capacity(self._capacity, batch.num_pages, self._num_pages)
        if grown != self._capacity:
            self._num_growths += 1
            self._num_grown_pages += self._capacity
            self._capacity = grown
        rows = (RowResult(tuple(Drawn(0) for _ in row.draws)) for row in batch.rows)
        return StepResult(tuple(rows))

    def storage_stats(self) -> StorageStats:
        copied = CopiedBytes(growth=self._num_grown_pages * self._bytes_per_page)
        return StorageStats(self._capacity, self._bytes_per_page, self._num_growths, copied)
