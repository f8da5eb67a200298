"""A client in front of several masters waits for a reap that a master does not do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.support.routed_world import RoutedWorld
from tests.support.session_world import NOW_MS
from ttlproxy.errors import NOT_SERVED, ClusterIsDown, ReapRefused
from ttlproxy.wire import encode

# Keys of the first and of the second of three masters.
KEY, DUE = b"key:0", b"key:1"


async def _asked(trouble: Exception) -> RoutedWorld:
    """The client has asked the first master, and for what is due at the second, which does not
    reap it."""

    async def in_vain(*what: object) -> None:
        raise trouble

    world = await RoutedWorld.opened()
    second = world.links[1]
    second.holds = SimpleNamespace(until_reaped=in_vain)
    second.context.registry.announced(0, DUE, NOW_MS - 1)
    sent = world.say(encode((b"GET", KEY)) + encode((b"HGET", DUE, b"f")) * 2)
    assert sent == [encode((b"GET", KEY)), b"", b""]
    for _ in range(10):
        await asyncio.sleep(0)
    return world


@pytest.mark.parametrize("trouble", [TimeoutError(), ClusterIsDown("The cluster is down")])
async def test_a_master_that_is_away_or_down_holds_up_its_requests_alone(
    trouble: Exception,
) -> None:
    world = await _asked(trouble)
    world.answer(0, b"$1\r\n1\r\n")
    assert world.heard() == b"$1\r\n1\r\n" + NOT_SERVED * 2
    assert not world.to_client.is_closed
    world.say(encode((b"GET", KEY)))
    world.answer(0, b"$1\r\n2\r\n")
    assert world.heard() == b"$1\r\n2\r\n"
    world.close()


async def test_a_refusal_for_another_reason_ends_the_client() -> None:
    world = await _asked(ReapRefused("NOPERM"))
    assert world.to_client.is_closed
    world.close()
