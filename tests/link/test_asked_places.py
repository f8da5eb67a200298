"""What sessions ask at the same moment goes in one round, and who is in a hurry waits for none."""

from __future__ import annotations

import asyncio

import pytest

from tests.link.conftest import S, until
from ttlproxy.core.registry import Place
from ttlproxy.errors import UpstreamError
from ttlproxy.link.knowledge import asked_places as module
from ttlproxy.link.knowledge.asked_places import AskedPlaces
from ttlproxy.net.tasks import cancel

T: Place = (0, b"t")


class Server:
    """Takes rounds, and answers each only when it may."""

    def __init__(self) -> None:
        self.rounds: list[set[Place]] = []
        self.may_answer = asyncio.Event()
        self.trouble: UpstreamError | None = None

    async def __call__(self, places: set[Place]) -> None:
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
    first = asked.soon([S])
    await until(lambda: server.rounds == [{S}])
    others = [asked.soon([S]), asked.add([T])]
    server.may_answer.set()
    await asyncio.gather(first, *others)
    assert server.rounds == [{S}, {S, T}]
    await cancel(running)


async def test_who_is_in_a_hurry_does_not_wait_for_a_server_that_is_silent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.001)
    asked = AskedPlaces(server)
    running = asyncio.create_task(asked.run())
    hasty, patient = asked.soon([S]), asked.add([S])
    await until(lambda: bool(server.rounds))
    waiting = asked.soon([T])  # for its round
    await asyncio.wait({hasty, waiting})
    assert hasty.cancelled()
    assert waiting.cancelled()
    assert not patient.done()
    server.may_answer.set()
    await patient
    await asked.soon([S])  # the next one is served
    await cancel(running)


async def test_a_lost_link_ends_all(server: Server) -> None:
    asked = AskedPlaces(server)
    running = asyncio.create_task(asked.run())
    under_way = asked.soon([S])
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
        await asked.soon([S])
    server.trouble = None
    await asked.soon([S])
    await cancel(running)
