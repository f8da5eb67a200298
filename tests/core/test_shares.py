"""A sample takes from each place in proportion to its size, and never more than was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.shares import shares


def test_all_are_taken_where_there_are_few() -> None:
    assert shares([3, 0, 4], 7) == [3, 0, 4]
    assert shares([], 7) == []


@given(st.lists(st.integers(0, 10_000), max_size=20), st.integers(0, 500))
def test_each_place_gives_its_part(sizes: list[int], most: int) -> None:
    found, total = shares(sizes, most), sum(sizes)
    assert sum(found) == min(most, total)
    for size, share in zip(sizes, found, strict=True):
        assert 0 <= share <= size
        assert abs(share - size * min(most, total) / max(total, 1)) < 1
