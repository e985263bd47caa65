"""Snapshots from made-up moments: names, rows, rates, percentiles."""

from dataclasses import replace

import pytest

from engine.engine_stats import EngineStatus
from engine.engine_view import EngineView, SequenceView
from server.api.dashboard.rates import RateMeter, TokenCounts
from server.api.dashboard.snapshot import MAX_ROWS, Label, Moment, make_snapshot
from server.api.recent_values import RecentValues
from server.api.schemas.snapshot import FirstToken, Rates
from tests.support.fake_engine import EMPTY_STATS

SEQUENCE = SequenceView(
    request_id="engine-id",
    indexes=(0, 1),
    is_running=True,
    page_ids=(0,),
    context_len=12,
    num_prompt_tokens=10,
    num_computed_tokens=12,
    num_cached_tokens=4,
    num_generated_tokens=3,
    max_tokens=8,
    num_preemptions=1,
)
MOMENT = Moment(
    model="m",
    status=EngineStatus.READY,
    stats=EMPTY_STATS,
    view=EngineView(16, 100, 1, {0: 1}, (), (SEQUENCE,)),
    rates=Rates(generated_tokens=None, prompt_tokens=None),
    first_tokens=(),
    labels={"engine-id": Label("req-a", 2.345)},
)


def test_a_sequence_is_told_under_the_clients_name_with_its_progress() -> None:
    snapshot = make_snapshot(MOMENT)
    (row,) = snapshot.sequences
    assert row.name == snapshot.pool.owners[0] == "req-a/0+1"
    assert (row.state, row.age_seconds, row.preemptions) == ("running", 2.3, 1)
    assert (row.prompt_computed, row.prompt_tokens, row.cached_tokens) == (10, 10, 4)
    assert (row.generated_tokens, row.max_tokens) == (3, 8)


def test_a_sequence_whose_client_left_holds_pages_but_has_no_row() -> None:
    snapshot = make_snapshot(replace(MOMENT, labels={}))
    assert snapshot.pool.owners == ("engine-id/0+1",)
    assert snapshot.sequences == ()


def test_a_waiting_sequence_is_told_as_such() -> None:
    waiting = replace(SEQUENCE, is_running=False, num_computed_tokens=0)
    view = replace(MOMENT.view, sequences=(waiting,))
    (row,) = make_snapshot(replace(MOMENT, view=view)).sequences
    assert (row.state, row.prompt_computed) == ("waiting", 0)


def test_of_many_sequences_the_oldest_are_told() -> None:
    many = tuple(replace(SEQUENCE, indexes=(i,)) for i in range(MAX_ROWS + 1))
    rows = make_snapshot(replace(MOMENT, view=replace(MOMENT.view, sequences=many))).sequences
    assert [row.name for row in rows] == [f"req-a/{i}" for i in range(MAX_ROWS)]


def test_the_hit_rate_is_that_of_the_tokens_looked_up() -> None:
    assert make_snapshot(MOMENT).prefix_hit_rate == 0.5
    fresh = replace(EMPTY_STATS, prefix_query_tokens=0, prefix_hit_tokens=0)
    assert make_snapshot(replace(MOMENT, stats=fresh)).prefix_hit_rate is None


@pytest.mark.parametrize(
    ("seconds", "median", "p95"),
    [
        ((3.0,), 3.0, 3.0),
        ((2.0, 1.0), 1.0, 2.0),
        ((5.0, 1.0, 3.0), 3.0, 5.0),
        (tuple(float(n) for n in range(100, 0, -1)), 50.0, 95.0),
    ],
)
def test_the_first_token_is_told_by_median_and_95th_percentile(
    seconds: tuple[float, ...], median: float, p95: float
) -> None:
    told = make_snapshot(replace(MOMENT, first_tokens=seconds)).first_token
    assert told == FirstToken(median=median, p95=p95, requests=len(seconds))


def test_without_a_first_token_there_is_no_figure() -> None:
    assert make_snapshot(MOMENT).first_token is None


def test_rates_are_those_between_the_last_few_moments() -> None:
    meter = RateMeter()
    unknown = Rates(generated_tokens=None, prompt_tokens=None)
    assert meter.add(TokenCounts(10.0, 100, 0)) == unknown
    assert meter.add(TokenCounts(10.5, 150, 8)) == Rates(generated_tokens=100, prompt_tokens=16)
    for tick in range(1, 6):
        rates = meter.add(TokenCounts(10.5 + tick / 2, 150, 8))
    assert rates == Rates(generated_tokens=0, prompt_tokens=0)


def test_rates_say_nothing_of_long_ago() -> None:
    meter = RateMeter()
    meter.add(TokenCounts(10.0, 100, 0))
    assert meter.add(TokenCounts(99.0, 900, 0)).generated_tokens is None


def test_recent_values_are_few_and_not_old() -> None:
    recent = RecentValues(window=10.0, max_values=3)
    for second in range(5):
        recent.add(float(second), second / 10)
    assert recent.at(5.0) == (0.2, 0.3, 0.4)
    assert recent.at(13.5) == (0.4,)
    assert recent.at(20.0) == ()
