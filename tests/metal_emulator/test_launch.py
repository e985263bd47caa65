"""What the launch logic decides, from shapes alone."""

import struct
from dataclasses import replace

import pytest

from tests.metal_emulator.launch_logic import Launch, LaunchLogic, RefusedLaunch
from tests.metal_emulator.paged_case import AttentionCase, CacheUpdateCase

ONE_TOKEN_A_ROW = AttentionCase((1,) * 4, (9,) * 4)
SCHEDULES = {
    "decode": ONE_TOKEN_A_ROW,
    "split": AttentionCase((1,), (4096,), page_size=32),
    "prefill": AttentionCase((40,), (40,)),
    "mixed": AttentionCase((40, 1), (40, 9)),
}


def schedules(logic: LaunchLogic, case: AttentionCase) -> list[str]:
    return [launch.kernel.split("_")[2] for launch in logic.plan(case).launches]


def num_splits(launch: Launch) -> int:
    return launch.grid[2]


def test_a_cache_update_covers_the_new_numbers_and_no_more(launch_logic: LaunchLogic) -> None:
    case = CacheUpdateCase((3, 9, 4), head_dim=96, kv_heads=5, num_pages=1000)
    (launch,) = launch_logic.plan(case).launches
    assert launch.grid_counts_threads
    assert launch.grid == (96, 5, 3)


def test_no_tokens_need_no_launch(launch_logic: LaunchLogic) -> None:
    assert launch_logic.plan(CacheUpdateCase(())).launches == ()
    assert launch_logic.plan(AttentionCase((0, 0), (3, 4))).launches == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decode", ["decode"]),
        ("split", ["decode", "merge"]),
        ("prefill", ["prefill"]),
        ("mixed", ["decode", "prefill"]),
    ],
)
def test_shapes_choose_the_schedules(
    launch_logic: LaunchLogic, name: str, expected: list[str]
) -> None:
    assert schedules(launch_logic, SCHEDULES[name]) == expected


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_lengths_choose_nothing(launch_logic: LaunchLogic, name: str) -> None:
    """Where the table is as wide, other contexts and other cuts into rows launch the same."""
    case = replace(SCHEDULES[name], table_width=200)
    total = sum(case.queries)
    cut = (total - len(case.queries) + 1, *(1 for _ in case.queries[1:]))
    other = replace(case, queries=cut, contexts=tuple(reversed(case.contexts)))
    assert launch_logic.plan(other).launches == launch_logic.plan(case).launches


def test_only_few_rows_with_long_tables_are_split(launch_logic: LaunchLogic) -> None:
    def splits(rows: int, context: int, window: int = 0) -> int:
        case = AttentionCase((1,) * rows, (context,) * rows, page_size=32, window=window)
        return num_splits(launch_logic.plan(case).launches[0])

    assert splits(rows=1, context=400) == 1
    assert splits(rows=1, context=2048) == 8
    assert splits(rows=1, context=100_000) == 32
    assert splits(rows=64, context=100_000) == 2
    assert splits(rows=128, context=100_000) == 1
    assert splits(rows=1, context=100_000, window=512) == 2


def test_partial_results_have_room_for_every_piece(launch_logic: LaunchLogic) -> None:
    plan = launch_logic.plan(SCHEDULES["split"])
    q_heads, splits, values_top_and_sum = 4, num_splits(plan.launches[0]), 64 + 2
    assert plan.partial_floats == 1 * q_heads * splits * values_top_and_sum


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
def test_a_threadgroup_has_at_most_1024_threads_in_whole_simd_groups(
    launch_logic: LaunchLogic, name: str, head_dim: int
) -> None:
    for launch in launch_logic.plan(replace(SCHEDULES[name], head_dim=head_dim)).launches:
        threads = launch.group[0] * launch.group[1] * launch.group[2]
        assert 0 < threads <= 1024
        assert launch.grid_counts_threads or threads % 32 == 0


@pytest.mark.parametrize("sinks", [False, True])
def test_an_array_that_is_not_there_is_never_bound(launch_logic: LaunchLogic, sinks: bool) -> None:
    for case in SCHEDULES.values():
        for launch in launch_logic.plan(replace(case, sinks=sinks)).launches:
            assert (("sinks", False) in launch.arguments) == sinks


def test_one_array_is_written_by_each_launch_and_out_by_the_last(
    launch_logic: LaunchLogic,
) -> None:
    for case in SCHEDULES.values():
        launches = launch_logic.plan(case).launches
        assert [sum(written for _, written in launch.arguments) for launch in launches] == [
            1 for _ in launches
        ]
        assert ("out", True) in launches[-1].arguments


def test_the_softmax_works_in_base_2(launch_logic: LaunchLogic) -> None:
    (plain,) = launch_logic.plan(ONE_TOKEN_A_ROW).launches
    (capped,) = launch_logic.plan(replace(ONE_TOKEN_A_ROW, soft_cap=2.0)).launches
    log2_e = 1.4426950408889634
    assert struct.unpack("<2f", plain.params[-8:]) == pytest.approx((0.125 * log2_e, 0))
    assert struct.unpack("<2f", capped.params[-8:]) == pytest.approx((0.125 / 2, 2 * log2_e))


@pytest.mark.parametrize("head_dim", [60, 264])
def test_a_head_size_beyond_the_kernels_is_refused(
    launch_logic: LaunchLogic, head_dim: int
) -> None:
    with pytest.raises(
        RefusedLaunch, match=rf"^\[paged_attention\] expected a head size .* got {head_dim}$"
    ):
        launch_logic.plan(replace(ONE_TOKEN_A_ROW, head_dim=head_dim))
