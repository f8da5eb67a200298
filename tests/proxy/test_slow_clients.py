"""The check for slow clients: which of them are ended, and when. Then clients of a proxy, whose
Redis is played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.proxy.conftest import let_pass
from tests.proxy.test_client import GET, OURS, QUIT, Proxy, proxied
from tests.support.proxy_ends import Streams
from tests.support.raw_client import command
from ttlproxy.config import Settings
from ttlproxy.net.log_summaries import Summaries
from ttlproxy.proxy import client_log
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


async def test_a_client_that_has_read_meanwhile_counts_with_the_rest() -> None:
    slow_clients = SlowClients(_settings(max_buffer_bytes=8 * MIB), [])
    quick, other = Watched(6 * MIB), Watched(4 * MIB)
    slow_clients.keeps(quick)
    quick.unread = MIB
    slow_clients.keeps(other)
    assert (quick.ended, other.ended) == ("", "")
    other.unread = 7 * MIB + 1
    slow_clients.keeps(other)
    assert (quick.ended, other.ended) == ("", "buffers")


async def test_no_more_are_ended_than_have_to_be() -> None:
    slow_clients = SlowClients(_settings(max_buffer_bytes=8 * MIB), [])
    clients = [Watched(size * MIB) for size in (1, 4, 2, 3)]
    for client in clients:
        slow_clients.keeps(client)
    assert [client.ended for client in clients] == ["", "buffers", "", ""]
    slow_clients.forget(clients[0])
    clients[2].unread = 5 * MIB  # with 3 MiB of the last: just the limit
    slow_clients.keeps(clients[2])
    assert [client.ended for client in clients] == ["", "buffers", "", ""]


async def test_bytes_are_summed_up_by_where_they_are_to_go() -> None:
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


async def test_without_limits_nobody_is_ended() -> None:
    client = Watched(1 << 30)
    client.activity = Activity(0.0)
    settings = _settings(max_buffer_bytes=0, stall_timeout=0, timeout=0)
    slow_clients = SlowClients(settings, [client])
    assert slow_clients.activity() is None
    async with _looking(slow_clients):
        slow_clients.keeps(client)
        await let_pass(3600)
    assert client.ended == ""


async def test_a_client_that_takes_a_byte_now_and_then_is_not_stalled() -> None:
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


async def test_a_look_at_what_all_have_gives_nobody_more_time() -> None:
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


async def test_bytes_that_redis_does_not_take_are_no_fault_of_the_client() -> None:
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


async def test_an_idle_client_is_ended_after_the_timeout_and_not_before() -> None:
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


async def test_unread_replies_of_one_more_client_cost_no_look_at_all_others() -> None:
    """Else the end of some thousand clients at once would block the proxy for a minute."""
    clients = [Watched(1) for _ in range(500)]
    slow_clients = SlowClients(_settings(), clients)
    for client in clients:
        slow_clients.keeps(client)
    for client in clients:
        slow_clients.forget(client)
    assert max(client.looks for client in clients) < 5


# Clients of a proxy.

IDLE_S = 10
CONFIRMED = b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
BLPOP = command("BLPOP", "nothing", 0)
# What a client says, and Redis's replies, before it waits for something.
WAITING = {
    "a subscriber": (command("SUBSCRIBE", "news"), CONFIRMED),
    "one by pattern": (command("PSUBSCRIBE", "news"), CONFIRMED.replace(b"9\r\ns", b"10\r\nps")),
    "in RESP3": (command("HELLO", 3) + command("SUBSCRIBE", "news"), b"%0\r\n>" + CONFIRMED[1:]),
    "a monitor": (command("MONITOR"), b"+OK\r\n"),
    "a replica": (command("PSYNC", "?", "-1"), b"+FULLRESYNC x 0\r\n"),
    "who is blocked": (BLPOP, b""),
    "blocked behind a reply": (GET + BLPOP, b"$-1\r\n"),
    "owed a reply": (GET, b""),
}


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The first of each kind is logged, whatever other tests have had."""
    monkeypatch.setattr(client_log, "_summaries", Summaries(client_log.log))
    caplog.set_level("INFO", client_log.__name__)


async def _says(client: Streams, redis: Streams, said: bytes, replies: bytes) -> None:
    client[1].write(said)
    await redis[0].readexactly(len(said))
    redis[1].write(replies)
    await client[0].readexactly(len(replies))


@pytest.mark.parametrize(("said", "replies"), WAITING.values(), ids=WAITING.keys())
async def test_a_client_that_waits_for_something_is_not_idle(
    tmp_path: Path, said: bytes, replies: bytes
) -> None:
    async with proxied(tmp_path, timeout=IDLE_S) as proxy:
        client, redis = await proxy.client()
        await _says(client, redis, said, replies)
        await let_pass(10 * IDLE_S)
        assert proxy.gone == {}


@pytest.mark.parametrize(
    "said", [b"", OURS[:-3], command("ECHO", "v" * 200_000)[:-3]], ids=["none", "half", "large"]
)
async def test_a_client_that_has_its_replies_and_says_no_more_is_idle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    async with proxied(tmp_path, timeout=IDLE_S) as proxy:
        client, _ = await proxy.client()
        client[1].write(said)
        await let_pass(IDLE_S - 1)
        assert proxy.gone == {}
        await proxy.source.until_ended()
        assert proxy.gone == {"idle": 1}
    assert "closed: idle for 10 s" in caplog.text


async def test_a_client_that_sends_now_and_then_is_not_idle(tmp_path: Path) -> None:
    async with proxied(tmp_path, timeout=IDLE_S) as proxy:
        client, redis = await proxy.client()
        for byte in OURS:
            client[1].write(bytes([byte]))
            await let_pass(IDLE_S / 2)
        await redis[0].readuntil(b"+100000")  # its deadline
        assert proxy.gone == {}


async def test_a_client_whose_request_redis_does_not_take_is_not_idle(tmp_path: Path) -> None:
    async with proxied(tmp_path, timeout=IDLE_S) as proxy:
        client, redis = await proxy.client()
        redis[1].transport.pause_reading()  # type: ignore[attr-defined]
        client[1].write(command("SET", "k", bytes(8 * MIB)))
        await let_pass(10 * IDLE_S)
        assert proxy.gone == {}


async def _lazy(proxy: Proxy, size: int) -> Streams:
    """Redis's end of the connection of a client that does not read a reply of this size."""
    client, redis = await proxy.client()
    client[1].transport.pause_reading()  # type: ignore[attr-defined]
    client[1].write(GET + QUIT)
    await redis[0].readexactly(len(GET + QUIT))
    redis[1].write(b"$%d\r\n%b\r\n" % (size, bytes(size)))
    return redis


@pytest.mark.parametrize(("ends", "why"), [(False, "stalled"), (True, "client")])
async def test_a_client_that_takes_nothing_for_too_long_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: bool, why: str
) -> None:
    """Also where Redis has closed: it was asked for that. Such a client is not idle."""
    async with proxied(tmp_path, stall_timeout=30, timeout=IDLE_S) as proxy:
        redis = await _lazy(proxy, 400_000 if ends else 4 * MIB)
        if ends:
            await let_pass(1)
            redis[1].write(b"+OK\r\n")
            redis[1].write_eof()
        await let_pass(20)
        assert proxy.gone == {}
        await proxy.source.until_ended()
        assert proxy.gone == {why: 1}
    assert "it has not read its replies for 30 s" in caplog.text


async def test_many_that_do_not_read_are_bounded_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path, max_buffer_bytes=MIB) as proxy:
        for _ in range(12):
            await _lazy(proxy, MIB)
        await proxy.source.until_ended()
        assert proxy.gone.keys() == {"buffers"}
        assert proxy.counters.clients > 1
    assert "closed: over max_buffer_bytes: " in caplog.text
