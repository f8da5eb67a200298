"""Connections passed from one process to another. Knows sockets, no processes and no Redis."""

import asyncio
import socket

from ttlproxy.cli.main import load
from ttlproxy.process.fd_channel import FdReceiver, FdSender, channel


def _full(sender: FdSender) -> int:
    """Gives connections until no more are accepted; returns how many."""
    given = 0
    while True:
        near, far = socket.socketpair()
        far.close()
        if not sender.give(near):
            near.close()
            return given
        given += 1


def test_who_waits_for_room_waits_no_more_once_the_other_end_is_gone() -> None:
    async def main() -> None:
        near, far = channel()
        sender = FdSender(near)
        assert _full(sender)
        waiting = asyncio.create_task(sender.room())
        await asyncio.sleep(0)
        far.close()
        await asyncio.wait_for(waiting, 30)
        assert sender.closed.is_set()

    asyncio.run(main())


def test_all_who_wait_for_room_learn_of_it() -> None:
    async def main() -> None:
        near, far = channel()
        sender = FdSender(near)
        given = _full(sender)
        waiting = asyncio.gather(sender.room(), sender.room())
        await asyncio.sleep(0)
        for _ in range(given):
            _, descriptors, *_ = socket.recv_fds(far, 64, 1)
            socket.close(descriptors[0])
        await asyncio.wait_for(waiting, 30)
        far.close()
        await sender.closed.wait()

    asyncio.run(main())


def test_a_connection_that_cannot_be_taken_counts_as_ended() -> None:
    async def main() -> None:
        near, far = channel()
        receiver = FdReceiver(far, load([]))
        await receiver.start(lambda source: asyncio.Protocol())
        assert near.recv(64) == b"0"
        near.send(b"client")  # as if the process had no free descriptor
        near.setblocking(True)
        said = await asyncio.to_thread(near.recv, 64)
        assert said == b"1"
        receiver.stop()
        near.close()
        far.close()

    asyncio.run(main())
