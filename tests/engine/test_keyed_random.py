import itertools
import statistics

from engine.keyed_random import keyed_uniform


def test_the_same_key_gives_the_same_number() -> None:
    assert keyed_uniform(7, 1, 20) == keyed_uniform(7, 1, 20)


def test_every_part_of_the_key_matters() -> None:
    keys = list(itertools.product((0, 1, 2**63, -5), (0, 1, 2), (0, 1, 2)))
    assert len({keyed_uniform(*key) for key in keys}) == len(keys)


def test_numbers_are_spread_evenly_over_zero_to_one() -> None:
    numbers = [keyed_uniform(3, 0, position) for position in range(4000)]
    assert all(0 <= number < 1 for number in numbers)
    assert abs(statistics.mean(numbers) - 1 / 2) < 0.02
    assert abs(statistics.variance(numbers) - 1 / 12) < 0.005


def test_neighbouring_seeds_and_positions_are_not_alike() -> None:
    here = [keyed_uniform(1, 0, position) for position in range(2000)]
    next_seed = [keyed_uniform(2, 0, position) for position in range(2000)]
    assert abs(statistics.correlation(here, next_seed)) < 0.07
    assert abs(statistics.correlation(here[:-1], here[1:])) < 0.07
