"""A marked reply among others: taken off its mark wherever the stream is cut."""

from __future__ import annotations

import pytest

from ttlproxy.wire import Marked

WORD = b"w" * 32
OTHERS = b"+OK\r\n*2\r\n$42\r\nno\r\n$-1\r\n"


def _fed(stream: bytes, marked: Marked, size: int) -> bytes:
    """What a client gets: once the reply is found, all else is copied unread."""
    out = b""
    for at in range(0, len(stream), size):
        piece = stream[at : at + size]
        out += piece if marked.found else marked.take(piece)
    return out


@pytest.mark.parametrize(
    ("reply", "passes", "is_null"),
    [
        (b"$1\r\na\r\n", b"$1\r\na\r\n", False),
        (b"$-1\r\n", b"", True),
        (b"_\r\n", b"", True),
        (b"*2\r\n$-1\r\n*2\r\n", b"*2\r\n$-1\r\n*2\r\n", False),
        (b"-ERR x\r\n", b"-ERR x\r\n", False),
    ],
)
def test_a_reply_is_found_wherever_the_stream_is_cut(
    reply: bytes, passes: bytes, is_null: bool
) -> None:
    for size in range(1, 60):
        marked = Marked(WORD)
        mark = marked.another()
        stream = OTHERS + b"*2\r\n$%d\r\n%b\r\n" % (len(mark), mark) + reply + b":5\r\n"
        assert _fed(stream, marked, size) == OTHERS + passes + b":5\r\n", size
        assert marked.found
        assert marked.null is is_null


def test_a_reply_that_comes_after_an_error_has_passed_for_it_is_the_clients() -> None:
    marked = Marked(WORD)
    first = marked.another()
    assert marked.take(b":1\r\n-ERR x\r\n") == b":1\r\n-ERR x\r\n"
    assert marked.refused
    second = marked.another()
    late = b"".join(b"*2\r\n$%d\r\n%b\r\n$-1\r\n" % (len(mark), mark) for mark in (first, second))
    assert marked.take(late) == b"$-1\r\n"
    assert marked.found
