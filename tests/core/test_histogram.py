"""A histogram's counts, and the quantiles that it estimates from them."""

from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.counters import Histogram

BOUNDS = (1, 2, 5, 10)


def test_a_value_counts_at_the_first_bound_that_it_does_not_exceed() -> None:
    found = Histogram(BOUNDS)
    for value in (0, 1, 1.5, 10, 11):
        found.observe(value)
    found.observe(5, times=3)
    assert found.counts == [2, 1, 3, 1, 1]
    assert (found.total, found.most) == (38.5, 11)


def test_nothing_observed_is_nothing_late() -> None:
    assert Histogram(BOUNDS).at(99) == 0


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(1, 100))
def test_a_percentile_holds_its_part_of_the_values(values: list[int], percent: int) -> None:
    found = Histogram(BOUNDS)
    for value in values:
        found.observe(value)
    bound = found.at(percent)
    assert sum(value <= bound for value in values) >= len(values) * percent / 100
    assert bound <= max(values)
