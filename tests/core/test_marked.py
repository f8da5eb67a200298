"""A marked reply among others: its mark is removed wherever the stream is cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.wire import Marked

WORD = b"w" * 32
# Replies and pushes that look like a mark, or like the error of a script that has not run.
OTHERS = (
    b"+OK\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b"-ERR x\r\n",
    b":-1\r\n",
    b"$2\r\n-1\r\n",
    b"$12\r\n\r\n-ERR x\r\n\r\n\r\n",
    b"$4\r\n\r\n-E\r\n",
    b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\n-1\r\n",
    b"*2\r\n$32\r\n" + WORD + b"\r\n$-1\r\n",
    b"*2\r\n$32\r\nno\r\n$-1\r\n",
    b"$6\r\n*2\r\n$3\r\n",
    b"-ERR unknown command '" + WORD + b"', with args beginning with: \r\n",
    b"$1100\r\n-" + b"x" * 1099 + b"\r\n",
)
REPLIES = (
    b"$1\r\na\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b"*2\r\n$-1\r\n*2\r\n",
    b"-WRONGTYPE x\r\n",
    b"$2\r\n-1\r\n",
    b"$5\r\n$-1\r\n\r\n",
)
NULLS = (b"$-1\r\n", b"_\r\n")
ERRORS = (
    b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
    b"-BUSY x\r\n",
)
UNKNOWN = b"-ERR unknown command `%b`, with args beginning with: \r\n"


@dataclass
class Server:
    """Sends replies in pieces of these sizes; `unanswered` are the fences that it received."""

    marked: Marked
    sizes: Iterator[int]
    sent: bytes = b""
    expected: bytes = b""
    received: bytes = b""
    unanswered: list[bytes] = field(default_factory=list)

    def passes(self, pieces: list[bytes]) -> None:
        """Sends replies that the client must get."""
        self.send(b"".join(pieces))
        self.expected += b"".join(pieces)

    def send(self, data: bytes) -> None:
        self.sent += data

    def flush(self) -> None:
        while self.sent:
            size = next(self.sizes)
            piece, self.sent = self.sent[:size], self.sent[size:]
            self.received += piece if self.marked.done else self.marked.take(piece)
            if self.marked.doubtful:
                self.unanswered.append(self.marked.fence())


@given(st.data())
def test_what_becomes_of_each_attempt_is_told_exactly_and_all_else_passes(
    data: st.DataObject,
) -> None:
    marked = Marked()
    others = st.lists(st.sampled_from(OTHERS), max_size=4)
    sizes = data.draw(st.lists(st.integers(1, 80), min_size=1, max_size=9))
    server = Server(marked, itertools.cycle(sizes))
    for _ in range(data.draw(st.integers(1, 4))):
        mark = marked.another()
        runs = data.draw(st.booleans())
        reply = data.draw(st.sampled_from(REPLIES if runs else ERRORS))
        server.passes(data.draw(others))
        if data.draw(st.booleans()):
            server.flush()  # a fence that is due now comes after the reply
        if runs:
            server.send(b"*2\r\n$32\r\n%b\r\n%b" % (mark, reply))
            server.expected += reply * (reply not in NULLS)
        else:
            server.passes([reply])
        server.passes(data.draw(others))
        server.flush()
        while not (marked.found or marked.refused):
            assert server.unanswered, "nothing will tell"
            server.passes(data.draw(others))
            server.send(UNKNOWN % server.unanswered.pop(0))
            server.flush()
        assert marked.found is runs
        assert marked.null is (runs and reply in NULLS)
        assert server.received == server.expected[: len(server.received)]
    server.send(b"".join(UNKNOWN % fence for fence in server.unanswered))
    server.flush()
    assert marked.done
    server.passes([b"+END\r\n"])
    server.flush()
    assert server.received == server.expected


def test_without_an_error_nothing_is_sent_to_find_the_reply() -> None:
    marked = Marked()
    mark = marked.another()
    marked.take(b"$3\r\nx-1\r\n:-1\r\n$-1\r\n*2\r\n$32\r\n%b\r\n$-1\r\n" % mark)
    assert marked.found
    assert not marked.doubtful
    assert marked.done


@pytest.mark.parametrize("before", [b"", b"+OK\r\n"])
def test_an_error_that_is_cut_at_its_beginning_raises_doubt(before: bytes) -> None:
    marked = Marked()
    marked.another()
    out = b"".join(marked.take(bytes([byte])) for byte in before + b"-NOPERM")
    assert out == before + b"-NOPERM"
    assert marked.doubtful
