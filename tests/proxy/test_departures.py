"""Many connections that end at once: each turn of the event loop handles a few of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tests.proxy.conftest import Run, let_pass, until
from tests.proxy.test_client import PONG, Proxy, proxied
from tests.support.proxy_ends import Streams
from ttlproxy.proxy.departures import PER_TURN, Departures
from ttlproxy.proxy.phase import OPEN, SHOWN

COUNT = 5 * PER_TURN
Pair = tuple[Streams, Streams]  # a client, and Redis's end of its connection


def test_a_turn_handles_a_few_and_later_turns_the_others_in_their_order(run: Run) -> None:
    async def main() -> None:
        departures, handled = Departures(), list[int]()
        for number in range(COUNT):
            if not departures.put_off(lambda number=number: handled.append(number)):  # type: ignore[misc]
                handled.append(number)
        per_turn = [len(handled)]
        while len(handled) < COUNT:
            before = len(handled)
            await asyncio.sleep(0)
            per_turn.append(len(handled) - before)
        assert handled == list(range(COUNT))
        assert max(per_turn) == PER_TURN

    run(main)


def test_a_failure_keeps_nobody_from_being_handled(run: Run) -> None:
    async def main() -> None:
        departures, handled = Departures(), list[int]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        for number in range(COUNT):
            end = handled.append if number % 2 else handled.index  # raises ValueError
            departures.put_off(lambda end=end, number=number: end(number))  # type: ignore[misc]
        await until(lambda: COUNT - 1 in handled)
        assert handled == list(range(PER_TURN + 1, COUNT, 2))

    run(main)


async def _pairs(proxy: Proxy) -> list[Pair]:
    """Clients that have not read a reply: if they close now, that is a reset."""
    pairs = [await proxy.client() for _ in range(COUNT)]
    for client, redis in pairs:
        client[1].transport.pause_reading()  # type: ignore[attr-defined]
        redis[1].write(PONG)
    await let_pass(0.1)
    return pairs


def _not_open(proxy: Proxy) -> int:
    return COUNT - sum(client.state == SHOWN[OPEN] for client in proxy.clients)


def _ended(proxy: Proxy) -> int:
    return proxy.source.ended_count


@pytest.mark.parametrize(
    ("ends", "handled"),
    [
        pytest.param(lambda pair: pair[0][1].write_eof(), _not_open, id="clients end"),
        pytest.param(lambda pair: pair[0][1].transport.abort(), _ended, id="clients reset"),
        pytest.param(lambda pair: pair[1][1].close(), _not_open, id="Redis ends them"),
    ],
)
def test_however_many_leave_at_once_a_turn_handles_a_few(
    run: Run, tmp_path: Path, ends: Callable[[Pair], None], handled: Callable[[Proxy], int]
) -> None:
    async def main() -> None:
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

    run(main)


def test_what_redis_still_sends_to_one_that_has_gone_is_dropped(
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
