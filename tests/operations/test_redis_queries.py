"""The pages' queries to a Redis that does not answer."""

from __future__ import annotations

import asyncio

import pytest

from ttlproxy.addresses import Upstream
from ttlproxy.admin import redis_queries
from ttlproxy.config import Settings
from ttlproxy.errors import Unanswered


async def test_of_queries_at_once_only_the_first_waits_for_a_redis_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the last of them, such as that of a person, has its turn after all others."""
    monkeypatch.setattr(redis_queries, "_LONGEST_S", 0.2)
    opened = list[asyncio.StreamWriter]()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = Upstream.parse(f"redis://127.0.0.1:{port}")
    inquiry = redis_queries.Inquiry(Settings(), upstream, lambda: "")
    answers = await asyncio.gather(*[inquiry.ask([]) for _ in range(5)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unanswered] * 5
    assert len(opened) == 1
    await inquiry.close()
    for writer in opened:
        writer.close()
    server.close()
    await server.wait_closed()
