"""Many connections that end at once: each turn of the event loop handles a few of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tests.proxy.conftest import let_pass, until
from tests.proxy.test_client import GET, PONG, Proxy, proxied
from tests.support.proxy_ends import Streams
from tests.support.raw_client import command
from tests.support.routed_world import RoutedWorld
from ttlproxy.proxy.phase import OPEN, SHOWN
from ttlproxy.proxy.staggered_closes import PER_TURN, StaggeredCloses

COUNT = 5 * PER_TURN
Pair = tuple[Streams, Streams]  # a client, and Redis's end of its connection


async def test_a_turn_handles_a_few_and_later_turns_the_others_in_their_order() -> None:
    staggered, handled = StaggeredCloses(), list[int]()
    for number in range(COUNT):
        if not staggered.put_off(lambda number=number: handled.append(number)):  # type: ignore[misc]
            handled.append(number)
    per_turn = [len(handled)]
    while len(handled) < COUNT:
        before = len(handled)
        await asyncio.sleep(0)
        per_turn.append(len(handled) - before)
    assert handled == list(range(COUNT))
    assert max(per_turn) == PER_TURN


async def test_a_failure_keeps_nobody_from_being_handled() -> None:
    staggered, handled = StaggeredCloses(), list[int]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    for number in range(COUNT):
        end = handled.append if number % 2 else handled.index  # raises ValueError
        staggered.put_off(lambda end=end, number=number: end(number))  # type: ignore[misc]
    await until(lambda: COUNT - 1 in handled)
    assert handled == list(range(PER_TURN + 1, COUNT, 2))


async def _pairs(proxy: Proxy) -> list[Pair]:
    """Neither clients nor Redis have read the last bytes: if one closes now, that is a reset."""
    pairs = [await proxy.client() for _ in range(COUNT)]
    for client, redis in pairs:
        client[1].transport.pause_reading()  # type: ignore[attr-defined]
        redis[1].write(PONG)
    await let_pass(0.1)
    for client, redis in pairs:
        redis[1].transport.pause_reading()  # type: ignore[attr-defined]
        client[1].write(GET)
    await let_pass(0.1)
    return pairs


def _not_open(proxy: Proxy) -> int:
    return COUNT - sum(client.state == SHOWN[OPEN] for client in proxy.server.clients)


def _ended(proxy: Proxy) -> int:
    return proxy.source.ended_count


@pytest.mark.parametrize(
    ("ends", "handled"),
    [
        pytest.param(lambda pair: pair[0][1].write_eof(), _not_open, id="clients end"),
        pytest.param(lambda pair: pair[0][1].transport.abort(), _ended, id="clients reset"),
        pytest.param(lambda pair: pair[1][1].write_eof(), _not_open, id="Redis ends them"),
        pytest.param(lambda pair: pair[1][1].transport.abort(), _not_open, id="Redis resets them"),
    ],
)
async def test_however_many_leave_at_once_a_turn_handles_a_few(
    tmp_path: Path, ends: Callable[[Pair], None], handled: Callable[[Proxy], int]
) -> None:
    async with proxied(tmp_path) as proxy:
        pairs = await _pairs(proxy)
        assert handled(proxy) == 0
        for pair in pairs:
            ends(pair)
        most = before = 0
        while before < COUNT:
            await asyncio.sleep(0)
            most, before = max(most, handled(proxy) - before), handled(proxy)
        assert 1 <= most <= PER_TURN


def test_replies_to_a_client_that_has_gone_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With uvloop, which refuses to write to a closed connection."""

    async def main() -> None:
        async with proxied(tmp_path) as proxy:
            pairs = await _pairs(proxy)
            for client, _ in pairs:
                client[1].transport.abort()
            while proxy.source.ended_count < COUNT:
                for _, redis in pairs:
                    if not redis[1].is_closing():
                        redis[1].write(PONG)
                await asyncio.sleep(0)
            assert proxy.gone == {"client": COUNT}
            assert not caplog.messages

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_requests_to_a_redis_that_has_gone_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With uvloop, as above."""

    async def main() -> None:
        async with proxied(tmp_path) as proxy:
            pairs = await _pairs(proxy)
            for _, redis in pairs:
                redis[1].transport.abort()
            while _not_open(proxy) < COUNT:
                for client, _ in pairs:
                    client[1].write(GET)
                await asyncio.sleep(0)
            for client, _ in pairs:
                client[1].transport.abort()
            await proxy.source.until_ended(COUNT)
            assert proxy.gone == {"redis": COUNT}
            assert not caplog.messages

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_the_connections_of_a_client_to_masters_are_closed_in_its_turn() -> None:
    """Meanwhile nothing goes to it: event loops refuse to write to a closed connection."""
    keys = [b"{a}", b"{b}", b"{c}"]
    world = await RoutedWorld.opened()
    world.say(b"".join(command("GET", key) for key in keys))
    for _ in range(PER_TURN):
        assert not world.staggered.put_off(lambda: None)
    world.client.connection_lost(None)
    masters = list(world.backends.values())
    assert not any(master.is_closed for master in masters)
    for number in range(len(masters)):
        world.answer(number, b"$-1\r\n")
    assert world.heard() == b""
    await until(lambda: all(master.is_closed for master in masters))
