"""Chunks of plain requests to several masters: no request has an object of its own as long as all
is plain, and the client cannot tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.routed_world import FarEnd, Master, RoutedWorld
from ttlproxy.proxy.routed import chunk, routing
from ttlproxy.wire import Requests, encode

MASTERS = 3
AWAY = b"-TRYAGAIN Multiple keys\r\n"
# A key of each master.
ONE, TWO, THREE = KEYS = (b"key:0", b"key:1", b"key:3")


def _get(*keys: bytes) -> bytes:
    return b"".join(encode((b"GET", key)) for key in keys)


def _bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


_TEXTS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"x" * 99, b"y" * 100, b"z" * 3000, b"\r\n*", b"\r\n-a", b"$1\r\n"]),
)
# What passes, what does not, and of what only the first can be told apart by its first byte.
_REPLIES = st.one_of(
    *[_TEXTS.map(_bulk)] * 4,
    st.sampled_from([b"+OK\r\n", b":7\r\n", b"$-1\r\n", b"_\r\n", b"*2\r\n:1\r\n$1\r\na\r\n"]),
    st.sampled_from([b"-ERR no\r\n", b"-MOVED\r\n", b"%1\r\n+a\r\n:1\r\n", b"$5\r\n-MOVE\r\n"]),
)
_CHUNKS = st.lists(st.lists(_REPLIES, min_size=1, max_size=20), min_size=1, max_size=4)


@given(
    _CHUNKS,
    st.sets(st.integers(0, 60), max_size=2),
    st.integers(0, 9999),
    st.sampled_from([b"k", b"{a}", b"\r\n*2\r\n$3\r\n"]),
    st.booleans(),
)
def test_each_reply_is_in_its_place_in_whatever_order_masters_answer(
    chunks: list[list[bytes]], back: set[int], seed: int, begin: bytes, are_counted: bool
) -> None:
    """Replies are split anywhere, and some requests come back."""
    random = Random(seed)
    replies = {
        b"%b%d" % (begin, number): reply
        for number, reply in enumerate(reply for chunk in chunks for reply in chunk)
    }
    keys = iter(replies)
    sent = [_get(*(next(keys) for _ in chunk)) for chunk in chunks]
    bounces = {key: 1 for number, key in enumerate(replies) if number in back}

    async def main() -> bytes:
        world = await RoutedWorld.opened(MASTERS, are_counted=are_counted)

        def reply(words: list[bytes]) -> bytes:
            """Some requests are answered only when they have come back."""
            is_bounced = bounces.get(words[1], 0) > 0
            bounces[words[1]] = 0
            return AWAY if is_bounced else replies[words[1]]

        masters = [Master(reply) for _ in range(MASTERS)]
        heard = b""
        while sent or len(world.client.order):
            if sent and random.random() < 0.4:
                world.client.data_received(sent.pop(0))
            for master, link in zip(masters, world.links, strict=True):
                master.take(world.backends[link].taken())
            number = random.randrange(MASTERS)
            if random.random() < 0.6 and (data := masters[number].sends(random)):
                world.answer(number, data)
            heard += world.heard()
            await asyncio.sleep(0.001 if world.client.redirects.lines else 0)
        heard += world.heard()
        assert not any(lane.waits or lane.kept for lane in world.client.lanes)
        world.close()
        return heard

    assert asyncio.run(main()) == b"".join(replies.values())


@pytest.fixture
def without_pending_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request has an object of its own."""

    def refused(*_: object) -> None:
        raise AssertionError("a pending request")

    for module in (chunk, routing):
        monkeypatch.setattr(module, "PendingRequest", refused)


@pytest.fixture
async def world() -> AsyncIterator[RoutedWorld]:
    world = await RoutedWorld.opened(MASTERS)
    yield world
    world.close()


async def _heard(world: RoutedWorld, master: int, data: bytes) -> bytes:
    """What the client has after this turn of the event loop, in which a master sends `data`."""
    world.answer(master, data)
    heard = world.heard()
    await asyncio.sleep(0)
    return heard


@pytest.mark.usefixtures("without_pending_requests")
@pytest.mark.parametrize("value", [b"v" * 9, b"v" * 500])
async def test_plain_chunks_need_no_pending_requests(world: RoutedWorld, value: bytes) -> None:
    """Several under way at once, and replies to more than one in one piece."""
    reply = _bulk(value)
    assert world.say(_get(ONE, TWO, ONE)) == [_get(ONE, ONE), _get(TWO), b""]
    assert world.say(_get(TWO, THREE)) == [b"", _get(TWO), _get(THREE)]
    assert world.say(_get(TWO)) == [b"", _get(TWO), b""]
    assert await _heard(world, 1, reply * 2) == b""
    assert await _heard(world, 0, reply * 2) == reply * 3 + reply
    assert await _heard(world, 2, reply) == reply
    assert await _heard(world, 1, reply) == reply
    assert len(world.client.order) == 0


@pytest.mark.usefixtures("without_pending_requests")
async def test_chunks_to_one_master_need_no_pending_requests(world: RoutedWorld) -> None:
    """Replies to the first go on as they come, wherever they are cut."""
    for keys in ((ONE, ONE), (ONE, ONE), (TWO,)):
        world.say(_get(*keys))
    assert await _heard(world, 1, b"+e\r\n") == b""
    assert await _heard(world, 0, b"+a\r\n+") == b"+a\r\n+"
    assert await _heard(world, 0, b"b\r\n+c\r\n+d\r\n") == b"b\r\n+c\r\n+d\r\n+e\r\n"
    assert len(world.client.order) == 0


async def test_a_slow_master_holds_up_no_replies_before_its_own(world: RoutedWorld) -> None:
    world.say(_get(ONE, ONE, TWO, ONE, THREE))
    assert await _heard(world, 0, b"+a\r\n") == b"+a\r\n"
    assert await _heard(world, 0, b"+b\r\n+d\r\n") == b"+b\r\n"
    assert await _heard(world, 1, b"+c\r\n") == b"+c\r\n+d\r\n"
    assert await _heard(world, 2, b"+e\r\n") == b"+e\r\n"
    world.say(_get(ONE, TWO, ONE))
    assert await _heard(world, 0, b"+f\r\n") == b"+f\r\n"
    assert await _heard(world, 0, b"+h\r\n") == b""
    assert await _heard(world, 1, b"+g\r\n") == b"+g\r\n+h\r\n"


async def test_replies_of_one_turn_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while few clients write, so that writes are made at once."""
    writes: list[bytes] = []
    monkeypatch.setattr(FarEnd, "write", lambda end, data: writes.append(data))

    world = await RoutedWorld.opened(MASTERS)
    monkeypatch.setattr(world.batch, "_at_once", 99)
    world.client.data_received(_get(ONE, TWO, THREE))
    writes.clear()
    for number, reply in enumerate([b"+a\r\n", b"+b\r\n", b"+c\r\n"]):
        world.answer(number, reply)
    world.close()
    assert writes == [b"+a\r\n+b\r\n+c\r\n"]


async def test_a_master_is_read_no_further_if_too_much_waits_for_the_replies_of_another(
    world: RoutedWorld,
) -> None:
    reply = _bulk(b"x" * 3000)
    world.say(_get(ONE, *[TWO] * 100))
    backend = world.backends[world.links[1]]
    assert await _heard(world, 1, reply * 50) == b""
    assert world.client.buffered == len(reply) * 50
    assert not backend.is_paused
    assert await _heard(world, 1, reply * 40) == b""
    assert backend.is_paused
    assert await _heard(world, 0, b"+a\r\n") == b"+a\r\n" + reply * 90
    assert not backend.is_paused
    assert await _heard(world, 1, reply * 10) == reply * 10
    assert world.client.buffered == 0


async def test_a_client_for_whom_much_waits_is_read_again_when_it_has_that(
    world: RoutedWorld,
) -> None:
    reply = _bulk(b"x" * 200_000)
    world.say(_get(ONE, TWO, THREE, TWO, THREE))
    assert await _heard(world, 1, reply) == b""
    assert await _heard(world, 2, reply) == b""
    for is_full in (True, False):
        world.client.lanes.to(world.links[0]).full(is_full)
        assert world.to_client.is_paused
    assert await _heard(world, 1, b"+d\r\n") == b""
    assert await _heard(world, 2, b"+e\r\n") == b""
    assert await _heard(world, 0, b"+a\r\n") == b"+a\r\n" + reply * 2 + b"+d\r\n+e\r\n"
    assert not world.to_client.is_paused


async def test_a_lost_master_ends_the_client_after_the_replies_before_its_own(
    world: RoutedWorld,
) -> None:
    world.say(_get(ONE, TWO, ONE))
    world.answer(0, b"+a\r\n")
    world.client.lanes.to(world.links[1]).end()
    assert world.to_client.is_closed
    assert world.to_client.taken() == b"+a\r\n"


@pytest.mark.parametrize("more", [b"+c\r\n+d\r\n", b"-ERR\r\n+d\r\n", b"+c\r\n+d\r\n+"])
async def test_a_reply_too_many_ends_the_client(world: RoutedWorld, more: bytes) -> None:
    world.say(_get(ONE, TWO, ONE))
    world.say(_get(ONE))
    assert await _heard(world, 0, b"+a\r\n") == b"+a\r\n"
    await _heard(world, 0, b"+b\r\n" + more)
    assert world.to_client.is_closed
    assert world.backends[world.links[0]].is_closed


async def test_a_request_that_is_not_plain_for_one_master_goes_there_in_the_general_way(
    world: RoutedWorld,
) -> None:
    world.links[1].context.registry.announced(0, TWO, 1 << 50)
    write = encode((b"HSET", TWO, b"f", b"v"))
    one, two, three = world.say(_get(ONE, TWO) + write + _get(THREE))
    assert (one, three) == (_get(ONE), _get(THREE))
    get, call = Requests().feed(two)
    assert get[0] == b"GET"
    assert call[0].startswith(b"EVAL")
    assert await _heard(world, 2, b"+d\r\n") == b""
    assert await _heard(world, 1, b"+b\r\n:1\r\n") == b""
    assert await _heard(world, 0, b"+a\r\n") == b"+a\r\n+b\r\n:1\r\n+d\r\n"


async def test_pushes_pass_between_the_replies_to_a_chunk(world: RoutedWorld) -> None:
    push = b">2\r\n+a\r\n:1\r\n"
    world.say(_get(ONE, TWO, ONE))
    assert await _heard(world, 1, b"+b\r\n") == b""
    assert await _heard(world, 0, b"+a\r\n" + push) == b"+a\r\n+b\r\n" + push
    assert await _heard(world, 0, b"+c\r\n") == b"+c\r\n"


async def test_a_client_that_sends_no_more_ends_with_its_last_reply(world: RoutedWorld) -> None:
    world.say(_get(ONE, TWO))
    assert world.client.eof_received()
    world.answer(1, b"+b\r\n")
    assert not world.to_client.is_closed
    world.answer(0, b"+a\r\n")
    assert world.to_client.is_closed
    assert world.to_client.taken() == b"+a\r\n+b\r\n"
