"""Counts in sentences for people."""

import pytest

from ttlproxy.core.text import counted


@pytest.mark.parametrize(("count", "said"), [(0, "0 keys"), (1, "1 key"), (2, "2 keys")])
def test_a_count_has_its_noun_in_the_right_number(count: int, said: str) -> None:
    assert counted(count, "key") == said


@pytest.mark.parametrize(("count", "said"), [(0, "0 proxies"), (1, "1 proxy"), (2, "2 proxies")])
def test_a_plural_may_be_a_word_of_its_own(count: int, said: str) -> None:
    assert counted(count, "proxy", "proxies") == said
