"""What is taken for whole replies is so many replies, as `ReplyEnds` finds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.replies import PUSH, REPLIES
from ttlproxy.wire.reply_ends import ReplyEnds
from ttlproxy.wire.whole_replies import WholeReplies, may_be_special


@given(st.lists(REPLIES | st.just(PUSH), min_size=1, max_size=6), st.integers(0, 99))
def test_what_is_taken_for_whole_replies_is(replies: list[bytes], cut: int) -> None:
    reader = WholeReplies()
    data = b"".join(replies)
    data = data[: max(len(data) - cut // 2, 1)] if cut % 2 else data
    ends = ReplyEnds().take(data)
    if not may_be_special(data):
        counts = [count for count in range(1, 9) if reader.are(data, count)]
        assert counts in ([], [len(ends)])
        assert not counts or ends[-1] == len(data)
    simple = b"$3\r\n-a-\r\n+OK\r\n:1\r\n"
    assert reader.are(simple, 3)  # whatever was read before
    assert not reader.are(simple, 2)
    assert not reader.are(simple[:-1], 3)
