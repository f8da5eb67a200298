"""A client in front of several masters gives up connections that it has not used for a while."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.routed_world import RoutedWorld
from ttlproxy.core.keys import SLOTS, slot
from ttlproxy.wire import encode

MASTERS = 3
KEYS = [b"key:0", b"key:1", b"key:3"]  # one of each master
NOTHING = b"$-1\r\n"


def _closed(world: RoutedWorld) -> list[bool]:
    return [world.backends[link].is_closed for link in world.links]


def _give_up(world: RoutedWorld) -> list[bool]:
    """Closes what was last used before now, and says which masters' connections are closed."""
    world.client.lanes.close_idle(asyncio.get_running_loop().time() + 1)
    return _closed(world)


async def test_only_what_owes_nothing_is_closed_and_it_is_opened_again() -> None:
    assert [slot(key) * MASTERS // SLOTS for key in KEYS] == [0, 1, 2]
    world = await RoutedWorld.opened(MASTERS)
    world.client.lanes.close_idle(0)
    assert _closed(world) == [False, False, False]  # they were used later than that
    world.say(encode((b"GET", KEYS[1])))
    assert _give_up(world) == [False, False, True]  # the first is for requests without keys
    world.answer(1, NOTHING)
    assert world.heard() == NOTHING
    assert _give_up(world) == [False, True, True]
    world.say(encode((b"GET", KEYS[2])))
    await world.client.lanes.to(world.links[2]).opened()
    world.answer(2, NOTHING)
    assert world.heard() == NOTHING
    assert not world.to_client.is_closed
    world.close()


@pytest.mark.parametrize("words", [(b"WATCH", KEYS[1]), (b"CLIENT", b"TRACKING", b"ON")])
async def test_a_connection_with_state_for_the_client_stays(words: tuple[bytes, ...]) -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(encode(words))
    for master, link in enumerate(world.links):
        for _ in range(10):
            await asyncio.sleep(0)
        if world.backends[link].taken():
            world.answer(master, b"+OK\r\n")
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.heard() == b"+OK\r\n"
    assert not _give_up(world)[1]
    world.close()
