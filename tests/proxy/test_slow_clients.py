"""The check for slow clients alone: who is ended, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.proxy.conftest import Run, let_pass
from ttlproxy.config import Settings
from ttlproxy.proxy.client_log import ClientLog
from ttlproxy.proxy.slow_clients import Activity, SlowClients

MIB = 1 << 20


class Watched:
    """A client with as many buffered bytes as a test says.

    ended: why it was ended; looks: how often its buffer was looked at
    """

    idles = True

    def __init__(self, unread: int = 0, to_redis: int = 0) -> None:
        self.activity: Activity | None = None
        self.client_log = ClientLog(1, asyncio.Transport(), "")
        self.unread = unread
        self.to_redis = to_redis
        self.ended = ""
        self.looks = 0

    @property
    def kept_replies(self) -> int:
        return self.unread

    @property
    def buffered(self) -> int:
        self.looks += 1
        return self.unread + self.to_redis

    def abort(self, why: str) -> None:
        self.ended = why


def _settings(**limits: int) -> Settings:
    return Settings.read(limits)


@asynccontextmanager
async def _looking(slow_clients: SlowClients) -> AsyncIterator[None]:
    looks = asyncio.create_task(slow_clients.run())
    try:
        yield
    finally:
        looks.cancel()


def test_a_client_that_has_read_meanwhile_counts_with_the_rest(run: Run) -> None:
    async def main() -> None:
        slow_clients = SlowClients(_settings(max_buffer_bytes=8 * MIB), [])
        quick, other = Watched(6 * MIB), Watched(4 * MIB)
        slow_clients.keeps(quick)
        quick.unread = MIB
        slow_clients.keeps(other)
        assert (quick.ended, other.ended) == ("", "")
        other.unread = 7 * MIB + 1
        slow_clients.keeps(other)
        assert (quick.ended, other.ended) == ("", "buffers")

    run(main)


def test_no_more_are_ended_than_have_to_be(run: Run) -> None:
    async def main() -> None:
        slow_clients = SlowClients(_settings(max_buffer_bytes=8 * MIB), [])
        clients = [Watched(size * MIB) for size in (1, 4, 2, 3)]
        for client in clients:
            slow_clients.keeps(client)
        assert [client.ended for client in clients] == ["", "buffers", "", ""]
        slow_clients.forget(clients[0])
        clients[2].unread = 5 * MIB  # with 3 MiB of the last: just the limit
        slow_clients.keeps(clients[2])
        assert [client.ended for client in clients] == ["", "buffers", "", ""]

    run(main)


def test_bytes_are_summed_up_by_where_they_are_to_go(run: Run) -> None:
    async def main() -> None:
        one, other = Watched(unread=3 * MIB, to_redis=MIB), Watched(to_redis=2 * MIB)
        slow_clients = SlowClients(_settings(), [one, other])
        async with _looking(slow_clients):
            for client in (one, other):
                slow_clients.keeps(client)
            await let_pass(2)
            assert slow_clients.buffered == {"clients": 3 * MIB, "redis": 3 * MIB}
            one.unread = one.to_redis = 0
            await let_pass(2)
            assert slow_clients.buffered == {"clients": 0, "redis": 2 * MIB}

    run(main)


def test_without_limits_nobody_is_ended(run: Run) -> None:
    async def main() -> None:
        client = Watched(1 << 30)
        client.activity = Activity(0.0)
        settings = _settings(max_buffer_bytes=0, stall_timeout=0, timeout=0)
        slow_clients = SlowClients(settings, [client])
        assert slow_clients.activity() is None
        async with _looking(slow_clients):
            slow_clients.keeps(client)
            await let_pass(3600)
        assert client.ended == ""

    run(main)


def test_a_client_that_takes_a_byte_now_and_then_is_not_stalled(run: Run) -> None:
    async def main() -> None:
        slow, stalled = Watched(MIB), Watched(MIB)
        slow_clients = SlowClients(_settings(stall_timeout=10), [slow, stalled])
        async with _looking(slow_clients):
            for client in (slow, stalled):
                slow_clients.keeps(client)
            await let_pass(9)
            assert stalled.ended == ""
            slow.unread -= 1
            await let_pass(4)
            assert (slow.ended, stalled.ended) == ("", "stalled")
            await let_pass(4)
            slow.unread -= 1
            await let_pass(9)
            assert slow.ended == ""
            await let_pass(4)
            assert slow.ended == "stalled"

    run(main)


def test_a_look_at_what_all_have_gives_nobody_more_time(run: Run) -> None:
    async def main() -> None:
        limits = _settings(stall_timeout=10, max_buffer_bytes=8 * MIB)
        stalled, large = Watched(MIB), Watched(9 * MIB)
        slow_clients = SlowClients(limits, [stalled, large])
        async with _looking(slow_clients):
            slow_clients.keeps(stalled)
            await let_pass(9)
            slow_clients.keeps(large)
            assert large.ended == "buffers"
            await let_pass(3)
            assert stalled.ended == "stalled"

    run(main)


def test_bytes_that_redis_does_not_take_are_no_fault_of_the_client(run: Run) -> None:
    async def main() -> None:
        client = Watched(to_redis=MIB)
        slow_clients = SlowClients(_settings(stall_timeout=10), [client])
        async with _looking(slow_clients):
            slow_clients.keeps(client)
            await let_pass(60)
            assert client.ended == ""
            client.unread = 1  # from now on it is the client's turn
            await let_pass(9)
            assert client.ended == ""
            await let_pass(4)
            assert client.ended == "stalled"

    run(main)


def test_an_idle_client_is_ended_after_the_timeout_and_not_before(run: Run) -> None:
    async def main() -> None:
        idle, busy, waits = Watched(), Watched(), Watched()
        waits.idles = False
        clients = [idle, busy, waits]
        slow_clients = SlowClients(_settings(timeout=100), clients)
        for client in clients:
            client.activity = slow_clients.activity()
        async with _looking(slow_clients):
            await let_pass(90)
            assert busy.activity is not None
            busy.activity.note(awaits=False)
            await let_pass(20)
            assert [client.ended for client in clients] == ["idle", "", ""]
            await let_pass(200)
            assert [client.ended for client in clients] == ["idle", "idle", ""]

    run(main)


def test_unread_replies_of_one_more_client_cost_no_look_at_all_others(run: Run) -> None:
    """Else the end of some thousand clients at once would block the proxy for a minute."""

    async def main() -> None:
        clients = [Watched(1) for _ in range(500)]
        slow_clients = SlowClients(_settings(), clients)
        for client in clients:
            slow_clients.keeps(client)
        for client in clients:
            slow_clients.forget(client)
        assert max(client.looks for client in clients) < 5

    run(main)
