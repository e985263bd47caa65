"""Pages as runs: exact while that is short, stretches of equal length where it is not."""

from engine.engine_view import EngineView, SequenceView
from server.api.dashboard.pool_picture import MAX_OWNERS, MAX_RUNS, draw_pool
from server.api.schemas.snapshot import PageRun, PoolPicture

SIZE = 4  # tokens in a page


def holder(pages: tuple[int, ...], tokens: int) -> SequenceView:
    return SequenceView("r", (0,), True, pages, tokens, tokens, tokens, 0, 0, 8, 0)


def view(
    *sequences: SequenceView, num_pages: int, touched: int, cached: tuple[int, ...] = ()
) -> EngineView:
    holders: dict[int, int] = {}
    for sequence in sequences:
        for page in sequence.page_ids:
            holders[page] = holders.get(page, 0) + 1
    return EngineView(SIZE, num_pages, touched, holders, cached, sequences)


def totals(picture: PoolPicture) -> dict[str, int]:
    names = ("free", "used", "shared", "cached")
    return {name: sum(getattr(run, name) for run in picture.runs) for name in names}


def interleaved(num_pages: int) -> EngineView:
    """Two sequences take turns, so that no two neighbours look alike."""
    halves = [tuple(range(first, num_pages, 2)) for first in (0, 1)]
    return view(
        *(holder(half, len(half) * SIZE) for half in halves), num_pages=num_pages, touched=num_pages
    )


def test_a_pool_that_was_never_used_is_one_run() -> None:
    picture = draw_pool(view(num_pages=100_000, touched=0), [])
    assert picture.runs == (PageRun(free=100_000),)
    assert picture.exact


def test_pages_that_look_alike_are_one_run_and_the_tail_another() -> None:
    picture = draw_pool(view(holder((0, 1, 2), 9), num_pages=8, touched=3), ["a/0"])
    assert picture.runs == (
        PageRun(used=2, tokens=8, holders=1, owners=(0,)),
        PageRun(used=1, tokens=1, holders=1, owners=(0,)),
        PageRun(free=5),
    )
    assert (picture.page_size, picture.num_pages, picture.owners) == (SIZE, 8, ("a/0",))


def test_a_shared_page_names_its_owners_and_has_the_fill_of_the_fullest() -> None:
    picture = draw_pool(
        view(holder((0,), 2), holder((0,), 3), num_pages=1, touched=1), ["a/0", "a/1"]
    )
    assert picture.runs == (PageRun(shared=1, tokens=3, holders=2, owners=(0, 1)),)


def test_cached_pages_are_full_and_returned_ones_empty() -> None:
    picture = draw_pool(view(num_pages=3, touched=3, cached=(2, 0)), [])
    assert picture.runs == (
        PageRun(cached=1, tokens=4),
        PageRun(free=1),
        PageRun(cached=1, tokens=4),
    )


def test_a_page_that_only_an_open_copy_holds_is_used_and_nobodys() -> None:
    picture = draw_pool(EngineView(SIZE, 1, 1, {0: 1}, (), ()), [])
    assert picture.runs == (PageRun(used=1, holders=1),)


def test_of_many_owners_the_first_few_are_named() -> None:
    many = [holder((0,), 4)] * (MAX_OWNERS + 5)
    (run,) = draw_pool(view(*many, num_pages=1, touched=1), [f"a/{i}" for i in range(9)]).runs
    assert run.owners == tuple(range(MAX_OWNERS))
    assert run.holders == MAX_OWNERS + 5


def test_a_picture_stays_exact_up_to_the_most_runs() -> None:
    assert draw_pool(interleaved(10), ["a/0", "b/0"], max_runs=10).exact
    assert not draw_pool(interleaved(11), ["a/0", "b/0"], max_runs=10).exact


def test_a_picture_of_stretches_loses_no_page_and_no_token() -> None:
    pool = view(
        holder(tuple(range(0, 60, 2)), 118),
        holder(tuple(range(1, 60, 4)), 60),
        holder((1, 5), 8),
        num_pages=80,
        touched=64,
        cached=(3, 62),
    )
    exact = draw_pool(pool, ["a/0", "b/0", "c/0"])
    coarse = draw_pool(pool, ["a/0", "b/0", "c/0"], max_runs=7)
    assert exact.exact
    assert not coarse.exact
    assert len(coarse.runs) <= 7 + 1
    assert totals(coarse) == totals(exact) == {"free": 33, "used": 43, "shared": 2, "cached": 2}
    assert sum(r.tokens for r in coarse.runs) == sum(r.tokens for r in exact.runs)
    assert coarse.runs[0].owners == (0, 1, 2)


def test_a_picture_does_not_grow_with_the_pool() -> None:
    assert len(draw_pool(interleaved(50_000), ["a/0", "b/0"]).runs) <= MAX_RUNS
