from engine.growth import INITIAL_PAGES, grown_capacity


def test_capacity_that_suffices_stays() -> None:
    assert grown_capacity(16, 16, budget=100) == 16


def test_the_first_growth_is_small() -> None:
    assert grown_capacity(0, 1, budget=1000) == INITIAL_PAGES


def test_growth_doubles() -> None:
    assert grown_capacity(16, 17, budget=1000) == 32


def test_a_large_need_is_met_at_once() -> None:
    assert grown_capacity(16, 90, budget=1000) == 90


def test_the_last_growth_stops_at_the_budget() -> None:
    assert grown_capacity(64, 65, budget=100) == 100
    assert grown_capacity(0, 1, budget=3) == 3


def test_one_page_at_a_time_copies_less_than_twice_the_final_size() -> None:
    capacity, copied, growths = 0, 0, 0
    for needed in range(1, 4097):
        grown = grown_capacity(capacity, needed, budget=5000)
        if grown != capacity:
            growths += 1
            copied += capacity
            capacity = grown
    assert copied < 2 * 4096
    assert growths <= 10
