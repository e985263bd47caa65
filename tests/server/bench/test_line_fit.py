import pytest

from server.bench.line_fit import fit_line


def test_points_on_a_line_give_the_line_and_no_residual() -> None:
    line = fit_line([1, 2, 4, 64], [5, 7, 11, 131])
    assert (line.base, line.slope) == pytest.approx((3, 2))
    assert line.residual == pytest.approx(0, abs=1e-9)


def test_the_residual_is_the_largest_relative_distance() -> None:
    line = fit_line([1, 2, 3], [10, 14, 10])
    distances = [abs(line.base + line.slope * x - y) / y for x, y in ((1, 10), (2, 14), (3, 10))]
    assert line.residual == pytest.approx(max(distances))
    assert line.residual > 0.1


def test_small_times_weigh_as_much_as_large_ones() -> None:
    """A tenth too much at the end bends the line no further than a tenth."""
    line = fit_line([1, 10, 100, 1000], [1, 10, 100, 1100])
    assert line.residual < 0.1
