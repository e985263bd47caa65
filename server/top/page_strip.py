"""The pages of a pool as a strip of cells, each of equally many pages."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from server.api.schemas.snapshot import PageRun, PoolPicture


class Cell(StrEnum):
    FREE = "free"
    USED = "used"
    SHARED = "shared"
    CACHED = "cached"


def pages_per_cell(pool: PoolPicture, capacity: int) -> int:
    """So many that the strip has at most `capacity` cells."""
    return max(1, -(-pool.num_pages // capacity))


def strip_of(pool: PoolPicture, capacity: int) -> list[Cell]:
    """Each cell shows what most of its pages are, the free ones left out where there are others."""
    per_cell = pages_per_cell(pool, capacity)
    cells: list[Counter[Cell]] = []  # pages of each state
    room = 0
    for run, count in _counted(pool):
        left = count
        while left:
            if not room:
                cells.append(Counter())
                room = per_cell
            taken = min(left, room)
            cells[-1].update({state: _part(run, state, taken, count) for state in Cell})
            left -= taken
            room -= taken
    return [_shown(cell) for cell in cells]


def count_states(pool: PoolPicture) -> dict[Cell, int]:
    return {state: sum(_of(run, state) for run in pool.runs) for state in Cell}


def _counted(pool: PoolPicture) -> Iterator[tuple[PageRun, int]]:
    for run in pool.runs:
        yield run, run.free + run.used + run.shared + run.cached


def _of(run: PageRun, state: Cell) -> int:
    match state:
        case Cell.FREE:
            return run.free
        case Cell.USED:
            return run.used
        case Cell.SHARED:
            return run.shared
        case Cell.CACHED:
            return run.cached


def _part(run: PageRun, state: Cell, taken: int, count: int) -> int:
    """Of `taken` pages of a run; where it is mixed, rounded up so that none goes unseen."""
    return -(-_of(run, state) * taken // count)


def _shown(cell: Counter[Cell]) -> Cell:
    del cell[Cell.FREE]
    (most, count), *_ = cell.most_common(1) or [(Cell.FREE, 0)]
    return most if count else Cell.FREE
