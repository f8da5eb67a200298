"""Several masters are asked the same, while some of them are replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from ttlproxy.errors import ON_ITS_WAY
from ttlproxy.link import Link
from ttlproxy.proxy.routed.all_masters import replies_of
from ttlproxy.proxy.routed.pending_request import PendingRequest

MOVED = b"-MOVED 7 10.0.0.1:7000\r\n"


class _Lane:
    def __init__(self, replies: Sequence[bytes]) -> None:
        self.replies = list(replies)

    def resume(self) -> None:
        pass

    def send(self, requests: Sequence[PendingRequest], raw: bytes) -> None:
        for request in requests:
            request.answer(self.replies.pop(0))


class _Client:
    """Is its own `masters` and `lanes`; a master's link is its name."""

    hold_max_s = 30.0

    def __init__(self, **replies: Sequence[bytes]) -> None:
        self.masters = self.lanes = self
        self.to = {name: _Lane(each) for name, each in replies.items()}.__getitem__
        self.looks = 0

    def look(self) -> None:
        self.looks += 1

    async def replies(self, *turns: str) -> dict[str, bytes]:
        """`turns`: the names of the masters, a letter each, at each look."""
        left = list(turns)

        async def links() -> Mapping[str, Link]:
            return {name: cast(Link, name) for name in left.pop(0)}

        return await replies_of(cast(Any, self), links, [b"DBSIZE"], b"")


@pytest.mark.parametrize("refusal", [MOVED, b"-READONLY You can't write.\r\n", b"-TRYAGAIN no\r\n"])
async def test_the_one_that_has_replaced_a_master_is_asked_and_no_other_again(
    refusal: bytes,
) -> None:
    client = _Client(a=[b":1\r\n"], b=[refusal, refusal], c=[b":3\r\n"])
    assert await client.replies("ab", "ab", "ac") == {"a": b":1\r\n", "c": b":3\r\n"}
    assert client.looks == 2


async def test_an_error_that_lasts_is_the_reply_and_names_no_node() -> None:
    client = _Client(a=[MOVED], b=[b":1\r\n"])
    client.hold_max_s = -1.0
    assert await client.replies("ab") == {"a": ON_ITS_WAY, "b": b":1\r\n"}


async def test_other_errors_are_replies() -> None:
    client = _Client(a=[b"-NOPERM no\r\n"])
    assert await client.replies("a") == {"a": b"-NOPERM no\r\n"}
