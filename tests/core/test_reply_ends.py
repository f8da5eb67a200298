"""ReplyEnds against hiredis, which reads whole replies: for any replies, cut anywhere."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.replies import PUSH, REPLIES
from ttlproxy.wire.core import whole_replies
from ttlproxy.wire.reply_ends import ReplyEnds


@given(st.lists(REPLIES | st.just(PUSH), max_size=8), st.lists(st.integers(0, 400), max_size=8))
def test_each_end_is_found_wherever_the_bytes_are_cut(
    replies: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(replies)
    ends = ReplyEnds()
    found: list[int] = []
    for begin, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        found += [begin + at for at in ends.feed(data[begin:end])]
        assert (not ends.begun) == (end in (0, *found[-1:]))
    expected = [sum(map(len, replies[: number + 1])) for number in range(len(replies))]
    assert found == expected
    assert whole_replies(data) == (0 if PUSH in replies else len(replies))
    if data:
        assert whole_replies(data[:-1]) == whole_replies(data + b"+") == 0


_VALUES = (b"", b"x" * 64, b"\r\n-a", b"$4\r\n+OK\r\n", b"y" * 99, b"z" * 100)
_SHORT = st.sampled_from(
    [
        b"+OK\r\n",
        b":-1\r\n",
        b"$-1\r\n",
        b"_\r\n",
        *map(b"$%d\r\n%b\r\n".__mod__, zip(map(len, _VALUES), _VALUES, strict=True)),
    ]
)


@given(
    st.lists(_SHORT, min_size=25, max_size=40),
    st.lists(REPLIES | st.just(PUSH), max_size=2),
    st.integers(0, 25),
    st.integers(1, 2),
)
def test_the_ends_of_many_replies_are_found(
    short: list[bytes], others: list[bytes], at: int, cut: int
) -> None:
    replies = [*short[:at], *others, *short[at:]]
    data, ends = b"".join(replies), ReplyEnds()
    expected = [*accumulate(map(len, replies))]
    assert ends.feed(data[:-cut]) == expected[:-1]
    assert ends.begun
    assert ends.feed(data[-cut:]) == [cut]
    assert ends.feed(data) == expected


@pytest.mark.parametrize("data", [b"hello\r\n", b"$x\r\n", b"*z\r\n", b"\r\n"])
def test_bytes_that_are_no_reply_are_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ReplyEnds().feed(data)
