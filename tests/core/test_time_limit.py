"""A time limit for which a stall of our own event loop does not count."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests.core.conftest import Run
from ttlproxy.addresses import Upstream
from ttlproxy.link.connecting.connections import client
from ttlproxy.link.connecting.reachability import accepts
from ttlproxy.net.tasks import time_limit

LIMIT_S = 0.2


def _stall() -> None:
    time.sleep(3 * LIMIT_S)


def test_a_stall_ends_nothing_that_was_done_meanwhile(run: Run) -> None:
    """The kernel accepts at once, and the loop hears of it long after the limit."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            connecting = asyncio.create_task(
                accepts(Upstream("127.0.0.1", listening.getsockname()[1]), LIMIT_S)
            )
            asyncio.get_running_loop().call_soon(_stall)
            assert await connecting

    run(main)


def test_a_stall_ends_no_connection_of_the_link(run: Run) -> None:
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.readline():
                writer.write(b"+OK\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            redis = client(Upstream("127.0.0.1", port), "a test", LIMIT_S, patient=True)
            asyncio.get_running_loop().call_soon(_stall)
            await redis.initialize()
            await redis.aclose()

    run(main)


def test_work_that_takes_too_long_is_ended_and_the_error_says_so(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError, match=r"it took longer than 0\.01 s"):
            async with time_limit(0.01):
                await asyncio.Event().wait()

    run(main)


def test_a_time_out_of_the_body_itself_is_left_as_it_is(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError, match="its own"):
            async with time_limit(60):
                raise TimeoutError("its own")

    run(main)
