"""What the Sentinels of a URL say, and which answer counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT
from tests.support.redis_client import Client
from tests.support.scripted_sentinel import NAME, ScriptedSentinel, scripted_sentinel
from ttlproxy.addresses import Address, Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting import reachability
from ttlproxy.link.connecting import sentinels as module
from ttlproxy.link.connecting.sentinels import Answer, SentinelGroup, chosen
from ttlproxy.net.tasks import cancel

A, B = Address("127.0.0.1", 7001), Address("127.0.0.1", 7002)
LONG_S = 60.0

Start = Callable[[Address | None], Coroutine[None, None, ScriptedSentinel]]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked again by itself, and no grace ends."""
    monkeypatch.setattr(module, "_EVERY_S", LONG_S)
    monkeypatch.setattr(module, "_GRACE_S", LONG_S)


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """`await start(master)` is a Sentinel that names it."""
    async with AsyncExitStack() as stack:

        async def started(master: Address | None) -> ScriptedSentinel:
            return await stack.enter_async_context(scripted_sentinel(master))

        yield started


@asynccontextmanager
async def _asked(*addresses: Address) -> AsyncIterator[SentinelGroup]:
    url = f"redis-sentinel://{','.join(map(str, addresses))}#{NAME}"
    sentinels = SentinelGroup(Upstream.parse(url), lambda: LONG_S)
    running = asyncio.create_task(sentinels.run())
    try:
        yield sentinels
    finally:
        await cancel(running)


async def _round_trips(sentinel: ScriptedSentinel) -> None:
    """Time enough for what repeats without a pause."""
    reader, writer = await asyncio.open_connection(*sentinel.address)
    for _ in range(20):
        writer.write(b"*1\r\n$4\r\nPING\r\n")
        await reader.readline()
    writer.close()
    await writer.wait_closed()


async def _until(sentinels: SentinelGroup, holds: Callable[[], bool]) -> None:
    while not holds():
        await sentinels.changed()


@pytest.mark.parametrize(
    ("answers", "choice"),
    [
        ([], None),
        ([(1, A)], (1, A)),
        ([(0, A)], (0, A)),
        ([(1, A), (2, B), (1, A)], (2, B)),
        ([(1, A), (1, B)], None),
        ([(1, A), (1, B), (1, B)], (1, B)),
        ([(2, A), (2, B), (1, B), (1, B)], None),
    ],
)
def test_the_newest_answer_counts_then_the_most_frequent_one(
    answers: list[tuple[int, Address]], choice: tuple[int, Address] | None
) -> None:
    assert chosen([Answer(*each) for each in answers]) == choice


async def test_nothing_is_known_before_they_are_asked() -> None:
    sentinels = SentinelGroup(Upstream.parse(f"redis-sentinel://h#{NAME}"), lambda: LONG_S)
    (sentinel,) = sentinels.each
    assert (sentinel.answer, sentinel.trouble, sentinel.was_asked) == (None, "", False)
    assert sentinels.latest() is None


async def test_each_is_asked_and_the_newest_answer_is_taken(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old, new = await start(A), await start(B)
    new.epoch = 8
    new.is_silent = True
    async with _asked(old.address, new.address) as sentinels:
        answering = asyncio.create_task(sentinels.answer())
        await _until(sentinels, lambda: sentinels.latest() == (7, A))
        await _round_trips(old)
        new.speaks()
        assert await answering == (8, B)
        assert [each.answer for each in sentinels.each] == [(7, A), (8, B)]
        assert all(each.was_asked for each in sentinels.each)
        assert [each.address for each in sentinels.each] == [old.address, new.address]
        assert sentinels.latest() == (8, B)
    assert not caplog.records


async def test_they_are_asked_again_when_there_is_news_and_every_second(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentinel = await start(A)
    async with _asked(sentinel.address) as sentinels:
        await sentinels.answer()
        await sentinel.has_listener.wait()
        sentinel.master = B
        sentinel.publish("+switch-master", f"{NAME} 127.0.0.1 7001 127.0.0.1 7002")
        await sentinels.changed()
        assert sentinels.latest() == (7, B)
        asked = sentinel.asked
        await _round_trips(sentinel)
        assert sentinel.asked == asked
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    async with _asked(sentinel.address) as sentinels:
        await sentinels.answer()
        sentinel.epoch, asked = 8, sentinel.asked
        await sentinels.changed()
        assert sentinels.latest() == (8, B)
        assert sentinel.asked <= asked + 2, "not more often than that"


async def test_a_sentinel_that_does_not_know_the_master_says_so(start: Start) -> None:
    sentinel = await start(None)
    async with _asked(sentinel.address) as sentinels:
        with pytest.raises(UpstreamError) as error:
            await sentinels.answer()
    expected = f"no agreed master {NAME} of the Sentinels: {sentinel.address}: "
    assert str(error.value) == f"{expected}it knows no master named {NAME}"


async def test_sentinels_that_disagree_are_named_with_what_they_say(start: Start) -> None:
    one, other = await start(A), await start(B)
    async with _asked(one.address, other.address) as sentinels:
        with pytest.raises(UpstreamError) as error:
            await sentinels.answer()
    assert f"{one.address}: the master is {A}; {other.address}: the master is {B}" in str(error)


async def test_a_server_that_is_no_sentinel_is_told_from_one(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "_PATIENCE_S", 0.01)
    async with _asked(Address("127.0.0.1", server.port)) as sentinels:
        with pytest.raises(UpstreamError, match="it is no Sentinel"):
            await sentinels.answer()


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ("NOAUTH Authentication required.", "the Sentinel requires a password"),
        ("NOPERM this user has no permissions", "the Sentinel refuses requests of the proxy's own"),
    ],
)
async def test_one_that_refuses_the_proxys_user_says_why(
    start: Start, refusal: str, reason: str
) -> None:
    sentinel = await start(A)
    sentinel.refusal = refusal
    async with _asked(sentinel.address) as sentinels:
        with pytest.raises(UpstreamError, match=reason):
            await sentinels.answer()
        connections = sentinel.connections
        await _round_trips(sentinel)
        assert sentinel.connections == connections + 1, "it is asked again after a pause"


async def test_one_that_hangs_delays_the_others_for_a_moment_only(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, other = await start(B), await start(A)
    hanging.is_silent = True
    monkeypatch.setattr(module, "_GRACE_S", 0.01)
    async with _asked(hanging.address, other.address) as sentinels:
        assert await sentinels.answer() == (7, A)
        assert not sentinels.each[0].was_asked


async def test_if_none_answers_in_time_that_is_said(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = await start(A)
    hanging.is_silent = True
    monkeypatch.setattr(module, "_EXPLAIN_S", -LONG_S)
    monkeypatch.setattr(module, "_GRACE_S", 0.0)
    async with _asked(hanging.address) as sentinels:
        with pytest.raises(UpstreamError, match="no answer yet"):
            await sentinels.answer()


async def test_one_that_is_away_is_told_once_and_again_when_it_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    address = Address("127.0.0.1", CLOSED_PORT)
    tries = asyncio.Semaphore(0)

    async def counted(upstream: Upstream, timeout_s: float) -> Upstream:
        tries.release()
        return await reachability.resolved(upstream, timeout_s)

    monkeypatch.setattr(module, "resolved", counted)
    async with _asked(address) as sentinels:
        for _ in range(3):
            await tries.acquire()
        (sentinel,) = sentinels.each
        assert sentinel.was_asked
        with pytest.raises(UpstreamError) as error:
            await sentinels.answer()
        assert "nothing listens at" in sentinel.trouble
        assert f"{address}: {sentinel.trouble}" in str(error)
        async with scripted_sentinel(A, address.port):
            assert sentinel.trouble
            await _until(sentinels, lambda: sentinel.answer is not None)
            assert (sentinel.answer, sentinel.trouble) == ((7, A), "")
        await _until(sentinels, lambda: sentinel.answer is None)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith(f"the Sentinel at {address} is of no use: ")
    assert said[1] == f"the Sentinel at {address} answers again"
    assert said[2].startswith(f"the Sentinel at {address} is of no use: ")
    assert len(said) == 3


async def test_a_sentinel_that_uses_tls_is_looked_up_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with TLS answers nonsense with an alert, as RFC 8446 says."""
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    looked_up = asked = 0
    was_asked = asyncio.Event()

    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal looked_up, asked
        is_handshake = (await reader.read(1)) == b"\x16"
        looked_up += is_handshake
        asked += not is_handshake
        writer.write(b"\x15\x03\x03\x00\x02\x02\x0a")
        writer.close()
        if asked > 5:  # two connections each time
            was_asked.set()

    async with await asyncio.start_server(alert, "127.0.0.1", 0) as listening:
        address = Address(*listening.sockets[0].getsockname())
        async with _asked(address) as sentinels:
            with pytest.raises(UpstreamError, match=r"the server uses TLS: set --sentinel-tls yes"):
                await sentinels.answer()
            (sentinel,) = sentinels.each
            trouble = sentinel.trouble
            await was_asked.wait()
            assert (looked_up, sentinel.trouble) == (1, trouble)


class _Promotion:
    """A Sentinel that names A, and promotes `server`, once it is told to."""

    def __init__(self, sentinel: ScriptedSentinel, server: AnyServer) -> None:
        self.sentinel = sentinel
        self.candidate = Address("127.0.0.1", server.port)

    async def begins(self, sentinels: SentinelGroup, service: str = NAME) -> None:
        await sentinels.answer()
        await self.sentinel.has_listener.wait()
        self.sentinel.promotes(self.candidate, service)


@pytest.fixture
async def promotion(start: Start, server: AnyServer) -> _Promotion:
    return _Promotion(await start(A), server)


async def test_a_replica_is_named_as_soon_as_it_is_a_master(
    promotion: _Promotion, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROMOTION_PATIENCE_S", LONG_S)
    sentinel, candidate = promotion.sentinel, promotion.candidate
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    try:
        async with _asked(sentinel.address) as sentinels:
            await promotion.begins(sentinels)
            await sentinel.gets_asked(3)  # it is asked more often now
            assert sentinels.latest() == (7, A)
            direct.ask("REPLICAOF", "NO", "ONE")
            await sentinels.changed()
            assert sentinels.latest() == (8, candidate)
            sentinel.master, sentinel.epoch = candidate, 8
            await sentinel.gets_asked()
            sentinel.master, sentinel.epoch = A, 9
            sentinel.publish("+switch-master", "")
            await sentinels.changed()
            assert sentinels.latest() == (9, A), "the promotion was over"
    finally:
        direct.ask("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("why", ["another master's", "given up", "not to be found", "not there"])
async def test_a_candidate_that_is_none_is_not_named(
    promotion: _Promotion, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentinel = promotion.sentinel
    if why == "not to be found":
        promotion.candidate = Address("nowhere.invalid", 1)
    elif why == "not there":
        promotion.candidate = Address("127.0.0.1", CLOSED_PORT)
    async with _asked(sentinel.address) as sentinels:
        await promotion.begins(sentinels, "other" if why == "another master's" else NAME)
        if why == "given up":
            sentinel.flags = "master"
        await sentinel.gets_asked()
        sentinel.epoch = 9
        sentinel.publish("+switch-master", "")
        await sentinels.changed()
        assert sentinels.latest() == (9, A)
        assert not sentinels.each[0].trouble
