"""Replies are cut as `ReplyEnds` finds their ends, or not at all."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.replies import REPLIES
from ttlproxy.wire.reply_ends import ReplyEnds
from ttlproxy.wire.short_replies import cut_short
from ttlproxy.wire.whole_replies import may_be_special

SHORT = [b"$0\r\n\r\n", b"$4\r\n\r\n$1\r\n", b"$99\r\n%b\r\n" % (b"v" * 99), b"+\r\n"]
NUMBERS = [b":0\r\n", b":-12\r\n", b"$-1\r\n", b"_\r\n"]


def test_short_ones_are_cut() -> None:
    assert cut_short(b"".join(SHORT + NUMBERS)) == SHORT + NUMBERS


@pytest.mark.parametrize(
    "data", [b"$100\r\n%b\r\n" % (b"v" * 100), b"*0\r\n", b"$1\r\nab\n", b"$01\r\na\r\n", b"hello"]
)
def test_others_are_not(data: bytes) -> None:
    for before in (b"", b"+OK\r\n"):
        assert cut_short(before + data) is None
        assert cut_short(data + before) is None


@given(
    st.lists(st.sampled_from(SHORT + NUMBERS) | REPLIES, min_size=1, max_size=6),
    st.integers(0, 99),
)
def test_what_is_cut_is_whole_replies(replies: list[bytes], cut: int) -> None:
    data = b"".join(replies)
    data = data[: max(len(data) - cut // 2, 1)] if cut % 2 else data
    found = None if may_be_special(data) else cut_short(data)
    if found is not None:
        ends = ReplyEnds().take(data)
        assert found == [data[begin:end] for begin, end in pairwise((0, *ends))]
        assert b"".join(found) == data
