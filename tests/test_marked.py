"""A marked reply among others: taken off its mark wherever the stream is cut."""

from __future__ import annotations

import pytest

from ttlproxy.wire import Marked

WORD = b"w" * 32
OTHERS = b"+OK\r\n*2\r\n$42\r\nno\r\n$-1\r\n"


def _all_ways(stream: bytes, marked: Marked) -> bytes:
    return b"".join(marked.take(stream[at : at + 1]) for at in range(len(stream)))


@pytest.mark.parametrize(
    ("reply", "passes", "is_null"),
    [
        (b"$1\r\na\r\n", b"$1\r\na\r\n", False),
        (b"$-1\r\n", b"", True),
        (b"_\r\n", b"", True),
        (b"*1\r\n$-1\r\n", b"*1\r\n$-1\r\n", False),
        (b"-ERR x\r\n", b"-ERR x\r\n", False),
    ],
)
def test_a_reply_is_found_byte_by_byte_and_at_once(
    reply: bytes, passes: bytes, is_null: bool
) -> None:
    for feed in (_all_ways, lambda stream, marked: marked.take(stream)):
        marked = Marked(WORD)
        mark = marked.another()
        stream = OTHERS + b"*2\r\n$%d\r\n%b\r\n" % (len(mark), mark) + reply + b":5\r\n"
        assert feed(stream, marked) == OTHERS + passes + b":5\r\n"
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
