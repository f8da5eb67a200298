"""What sessions ask at the same moment goes in one round."""

from __future__ import annotations

import asyncio

import pytest

from tests.link.conftest import S, until
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.link.knowledge.activation import AskedPlaces
from ttlproxy.net.tasks import cancel

T: DbKey = (0, b"t")


class Server:
    """Takes rounds, and answers each only when it may."""

    def __init__(self) -> None:
        self.rounds: list[set[DbKey]] = []
        self.may_answer = asyncio.Event()
        self.trouble: UpstreamError | None = None

    async def __call__(self, places: set[DbKey]) -> None:
        self.rounds.append(places)
        await self.may_answer.wait()
        if self.trouble:
            raise self.trouble


@pytest.fixture
def server() -> Server:
    return Server()


async def test_those_that_ask_during_a_round_share_the_next(server: Server) -> None:
    asked = AskedPlaces(server)
    running = asyncio.create_task(asked.run())
    first = asked.add([S])
    await until(lambda: server.rounds == [{S}])
    others = [asked.add([S]), asked.add([T])]
    server.may_answer.set()
    await asyncio.gather(first, *others)
    assert server.rounds == [{S}, {S, T}]
    await cancel(running)


async def test_a_lost_link_ends_all(server: Server) -> None:
    asked = AskedPlaces(server)
    running = asyncio.create_task(asked.run())
    under_way = asked.add([S])
    await until(lambda: bool(server.rounds))
    later = asked.add([T])
    await cancel(running)
    for each in (under_way, later):
        with pytest.raises(UpstreamError):
            await each


async def test_a_connection_that_is_lost_ends_one_round(server: Server) -> None:
    asked = AskedPlaces(server)
    running = asyncio.create_task(asked.run())
    server.may_answer.set()
    server.trouble = UpstreamError("lost")
    with pytest.raises(UpstreamError):
        await asked.add([S])
    server.trouble = None
    await asked.add([S])
    await cancel(running)
