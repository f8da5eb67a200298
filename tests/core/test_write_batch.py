"""When writes are sent. Knows sockets and the event loop, no Redis."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.core.conftest import Run
from tests.support.proxy_ends import connected
from ttlproxy.core.counters import Tally
from ttlproxy.proxy.write_batch import WriteBatch


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[asyncio.WriteTransport, socket.socket]]:
    """A transport and the socket at its other end."""
    near, far = socket.socketpair()
    with far:
        far.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, sock=near
        )
        yield transport, far
        transport.close()


def _arrived(far: socket.socket) -> bytes:
    try:
        return far.recv(1 << 20)
    except BlockingIOError:
        return b""


def test_a_callback_at_the_end_of_a_turn_may_write(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (transport, far):
            turn = WriteBatch()
            write = turn.writer(transport, Tally())
            turn.at_end(lambda: write(b"two"))
            write(b"one ")
            assert _arrived(far) == b""
            await asyncio.sleep(0)
            assert _arrived(far) == b"one two"
            turn.at_end(lambda: write(b"three"))
            await asyncio.sleep(0)
            assert _arrived(far) == b"three"
            await asyncio.sleep(0)
            assert _arrived(far) == b""

    run(main)


def test_data_that_is_flushed_before_the_end_goes_out_once(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (transport, far):
            turn = WriteBatch()
            write = turn.writer(transport, Tally())
            write(b"one")
            turn.flush()
            assert _arrived(far) == b"one"
            await asyncio.sleep(0)
            assert _arrived(far) == b""

    run(main)


def test_a_large_write_does_not_wait_and_passes_nothing_by(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (transport, far):
            write = WriteBatch().writer(transport, Tally())
            large = b"x" * 20_000
            write(b"one")
            write(large)
            assert _arrived(far) == b"one" + large

    run(main)


def test_a_lone_client_does_not_wait(run: Run) -> None:
    """After some turns with one write each, the next are sent at once; then it checks again."""

    async def main() -> None:
        async with _connected() as (transport, far):
            write = WriteBatch().writer(transport, Tally())
            at_once = []
            for _ in range(1000):
                write(b"x")
                at_once.append(_arrived(far) == b"x")
                await asyncio.sleep(0)
                _arrived(far)
            assert not at_once[0]
            assert at_once.count(True) > 900
            assert not all(at_once[-400:])

    run(main)


def test_a_write_that_fails_costs_no_other_and_passes_none_by(run: Run) -> None:
    """Not even in the turn after which writes are sent at once."""

    async def main() -> None:
        async with _connected() as (ended, _), _connected() as (transport, far):
            turn = WriteBatch()
            for_nobody, write = turn.writer(ended, Tally()), turn.writer(transport, Tally())
            ended.write_eof()
            for _ in range(16):
                for_nobody(b"lost")
                write(b"kept ")
                turn.flush()
            write(b"and more")
            await asyncio.sleep(0)
            assert _arrived(far) == b"kept " * 16 + b"and more"

    run(main)


def test_data_of_one_turn_becomes_one_write_in_the_place_of_the_first(run: Run) -> None:
    async def main() -> None:
        async with _connected() as (transport, far):
            turn, tally, made = WriteBatch(), Tally(), []
            other = turn.writer(transport, Tally())

            class Counting:
                def write(self, data: bytes) -> None:
                    made.append(data)
                    transport.write(data)

            write = turn.gathering_writer(Counting(), tally)  # type: ignore[arg-type]
            for _ in range(2):
                write(b"one ")
                other(b"three")
                write(b"two ")
                turn.flush()
                assert _arrived(far) == b"one two three"
            write(b"x" * 20_000)
            assert len(made.pop()) == 20_000
            assert made == [b"one two "] * 2
            assert tally.bytes == 20_016

    run(main)


def test_a_connection_that_has_just_ended_takes_no_more_and_is_no_fault(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """As when Redis resets it while a write waits for the end of the turn."""

    async def main() -> None:
        async with _connected() as (ended, _), _connected() as (transport, far):
            turn = WriteBatch()
            ended.abort()
            turn.writer(ended, Tally())(b"lost")
            turn.writer(transport, Tally())(b"other")
            await asyncio.sleep(0)
            assert _arrived(far) == b"other"

    run(main)
    assert not caplog.records


def test_a_lost_connection_takes_no_request_and_tells_so(run: Run) -> None:
    """As when an item comes for a client whose connection Redis has just closed."""

    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            for _ in range(20):  # with so little to write the next is written at once
                backend.send(b"PING\r\n", 0)
                await asyncio.sleep(0)
            redis.close()
            await client.ended.wait()
            await asyncio.sleep(0)  # until then uvloop takes writes
            told = list[bytes | None]()

            def tell(line: bytes | None) -> bool:
                told.append(line)
                return True

            backend.ask(b"PING\r\n", tell)
            assert told == [None]

    run(main)
