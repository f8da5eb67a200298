"""ReplyEnds against hiredis, which reads whole replies: for any replies, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.wire.reply_ends import ReplyEnds

_LINE = st.binary(max_size=8).map(lambda text: text.translate(None, b"\r\n"))
_BULK = st.binary(max_size=30)
_ONE = st.one_of(
    st.builds(lambda kind, text: kind + text + b"\r\n", st.sampled_from([b"+", b"-"]), _LINE),
    st.integers(-9, 99).map(lambda number: b":%d\r\n" % number),
    st.sampled_from([b"_\r\n", b"#t\r\n", b",1.5\r\n", b"(12345\r\n", b"$-1\r\n", b"*-1\r\n"]),
    _BULK.map(lambda text: b"$%d\r\n%b\r\n" % (len(text), text)),
    _BULK.map(lambda text: b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text)),
    _BULK.map(lambda text: b"!%d\r\n%b\r\n" % (len(text), text)),
)


def _aggregates(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    some = st.lists(inner, max_size=4)
    lists = st.builds(
        lambda kind, values: b"%b%d\r\n%b" % (kind, len(values), b"".join(values)),
        st.sampled_from([b"*", b"~"]),
        some,
    )
    # Redis before 7.2 may put a push between the elements of a reply.
    interrupted = st.tuples(inner, inner).map(lambda two: b"*2\r\n%b>1\r\n+p\r\n%b" % two)
    maps = st.lists(st.tuples(inner, inner), max_size=3).map(
        lambda pairs: b"%%%d\r\n%b" % (len(pairs), b"".join(map(b"".join, pairs)))
    )
    attributed = st.tuples(inner, inner, inner).map(lambda parts: b"|1\r\n" + b"".join(parts))
    return st.one_of(lists, interrupted, maps, attributed)


_REPLY = st.recursive(_ONE, _aggregates, max_leaves=8) | st.just(b">2\r\n+a\r\n:1\r\n")


@given(st.lists(_REPLY, max_size=8), st.lists(st.integers(0, 400), max_size=8))
def test_each_end_is_found_wherever_the_bytes_are_cut(
    replies: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(replies)
    ends = ReplyEnds()
    found: list[int] = []
    for begin, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        found += [begin + at for at in ends.take(data[begin:end])]
        assert ends.is_between == (end in (0, *found[-1:]))
    expected = [sum(map(len, replies[: number + 1])) for number in range(len(replies))]
    assert found == expected


@pytest.mark.parametrize("data", [b"hello\r\n", b"$x\r\n", b"*z\r\n", b"\r\n"])
def test_what_is_no_reply_is_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ReplyEnds().take(data)
