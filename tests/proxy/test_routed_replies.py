"""A client in front of several masters gets its replies in order, wherever the bytes are cut.

Chunks that go to one master as they came, and replies that pass as they come, are what is fast;
here they must not differ from requests and replies that are looked at one by one.
"""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.replies import PUSH, REPLIES
from tests.support.routed_world import Master, RoutedWorld
from tests.support.session_world import NOW_MS
from ttlproxy.core.keys import SLOTS, slot
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import ON_ITS_WAY
from ttlproxy.proxy.routed.routed_client import RoutedClient
from ttlproxy.proxy.routed.routing import MOST_OWED
from ttlproxy.session.session import LaneSession
from ttlproxy.wire import encode

MASTERS = 3
_MANAGED = b"{b}managed"
_KEYS = st.sampled_from([b"{a}1", b"{a}2", b"{a}", b"{}a", b"b", b"c", b"a}b{c}", b"*", b"\r\n*1"])
_REQUESTS = st.one_of(
    _KEYS.map(lambda key: (b"GET", key)),
    st.tuples(st.just(b"SET"), _KEYS, st.sampled_from([b"x" * 99, b"\r\n$3\r\nabc", b""])),
    st.just((b"HSET", _MANAGED, b"f", b"v")),
    st.just((b"PING",)),
)
_PLAIN = st.sampled_from([b"$3\r\nabc\r\n", b"+OK\r\n", b"*2\r\n:1\r\n$-1\r\n"])
# A request, its reply, and whether a push follows that.
_ASKED = st.tuples(_REQUESTS, REPLIES, st.just(False))
_OF_ONE = st.tuples(
    st.sampled_from([(b"GET", b"{a}1"), (b"GET", b"{a}2")]),
    _PLAIN | REPLIES,
    st.sampled_from([False] * 7 + [True]),
)
_CHUNKS = st.lists(_ASKED, min_size=1, max_size=4) | st.lists(_OF_ONE, min_size=1, max_size=4)


def _master(words: tuple[bytes, ...]) -> int:
    return slot(words[1]) * MASTERS // SLOTS if len(words) > 1 else 0


def _cut(data: bytes, count: int, random: Random) -> list[bytes]:
    places = sorted(random.randint(0, len(data)) for _ in range(count))
    ends = zip([0, *places], [*places, len(data)], strict=True)
    return [data[begin:end] for begin, end in ends if begin < end]


@given(st.lists(_CHUNKS, max_size=4), st.booleans(), st.booleans(), st.integers(0, 9999))
def test_each_reply_comes_in_its_place(
    asked: list[list[tuple[tuple[bytes, ...], bytes, bool]]],
    is_cut: bool,
    are_counted: bool,
    seed: int,
) -> None:
    random = Random(seed)

    async def main() -> None:
        world = await RoutedWorld.opened(MASTERS, are_counted=are_counted)
        for link in world.links:
            link.context.registry.announced(0, _MANAGED, 1 << 50)
        each = [one for chunk in asked for one in chunk]

        def of_number(at: int) -> Master:
            own = [(reply, pushes) for words, reply, pushes in each if _master(words) == at]
            left = iter([reply + PUSH * pushes for reply, pushes in own])
            return Master(lambda words: next(left))

        masters = [of_number(at) for at in range(MASTERS)]
        chunks = [b"".join(encode(words) for words, _, _ in chunk) for chunk in asked]
        if is_cut:
            chunks = _cut(b"".join(chunks), len(chunks), random)
        heard = b""
        while chunks or any(master.unsent for master in masters):
            if chunks and random.random() < 0.5:
                for master, data in zip(masters, world.say(chunks.pop(0)), strict=True):
                    master.take(data)
            at = random.randrange(MASTERS)
            if data := masters[at].sends(random):
                world.answer(at, data)
            heard += world.heard()
        assert heard.count(PUSH) == sum(pushes for _, _, pushes in each)
        assert heard.replace(PUSH, b"") == b"".join(reply for _, reply, _ in each)
        assert len(world.client.order) == 0
        for at, master in enumerate(masters):
            sent = [words for words, _, _ in each if _master(words) == at]
            assert len(master.got) == len(sent)
            for got, words in zip(master.got, sent, strict=True):
                assert got[0].startswith(b"EVAL") if words[0] == b"HSET" else got == [*words]
        world.close()

    asyncio.run(main())


GETS = b"".join(encode((b"GET", b"{a}%d" % number)) for number in range(3))
AT = slot(b"a") * MASTERS // SLOTS


@pytest.mark.parametrize("cut", range(1, 24))
async def test_a_request_that_comes_back_from_a_chunk_is_sent_again(cut: int) -> None:
    """Only it is, and its reply has its place."""
    world = await RoutedWorld.opened(MASTERS)
    assert world.say(GETS)[AT] == GETS
    replies = b"+one\r\n-TRYAGAIN no\r\n+three\r\n"
    world.answer(AT, replies[:cut])
    world.answer(AT, replies[cut:])
    assert world.heard() == b"+one\r\n"
    backend = world.backends[world.links[AT]]
    assert await backend.gets() == encode((b"GET", b"{a}1"))
    world.answer(AT, b"+two\r\n")
    await world.client.order.quiet()
    assert world.heard() == b"+two\r\n+three\r\n"
    world.close()


@pytest.mark.parametrize(
    "replies",
    [
        [b"+1\r\n", b"+2\r\n+3\r\n"],
        [b"+1\r\n$5\r\nab", b">cd\r\n+3\r\n"],
        [b"+1\r\n$5", b"\r\n-abc-\r\n", b"+3\r\n"],
        [b"+1\r\n-ER", b"R\r\n+3\r\n"],
        [b"+1\r\n|1\r\n+a\r\n+b\r\n:2\r\n", b"+3\r\n"],
        [b"+1\r\n*2\r\n+a\r\n>1\r\n+p\r\n+b\r\n", b"+3\r\n"],
        [b"+1\r\n$3\r\nabc\r\n", PUSH + b"+3", b"\r\n"],
    ],
)
async def test_replies_to_a_chunk_arrive_however_they_are_cut(replies: list[bytes]) -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(GETS)
    heard = b""
    for data in replies:
        world.answer(AT, data)
        heard += world.heard()
    assert heard == b"".join(replies)
    assert len(world.client.order) == 0
    world.close()


async def test_a_request_may_be_sent_in_the_middle_of_a_push() -> None:
    world = await RoutedWorld.opened(MASTERS)
    get = encode((b"GET", b"{a}"))
    world.say(get)
    world.answer(AT, b"+1\r\n" + PUSH[:-3])
    assert world.say(get)[AT] == get
    world.answer(AT, PUSH[-3:] + b"+2\r\n")
    assert world.heard() == b"+1\r\n" + PUSH + b"+2\r\n"
    world.close()


async def test_a_push_of_another_master_waits_for_the_end_of_a_reply() -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(GETS)
    world.answer(AT, b"+1\r\n$5\r\nab")
    world.answer(0, PUSH)
    assert world.heard() == b"+1\r\n$5\r\nab"
    world.answer(AT, b"cde\r\n")
    assert world.heard() == b"cde\r\n" + PUSH
    world.answer(0, PUSH)
    assert world.heard() == PUSH
    world.close()


@pytest.mark.parametrize(
    "replies",
    [
        [b"+1\r\n+2\r\n+3\r\n+4\r\n"],
        [b"+1\r\n+2\r\n", b"+3\r\n+4\r\n"],
        [b"+1\r\n+2\r\n+3\r\n+"],
        [b"hello\r\n"],
        [b"+1\r\n-ERR\r\n+3\r\n+4\r\n"],
    ],
)
async def test_a_reply_to_nothing_ends_the_client(replies: list[bytes]) -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(GETS)
    for data in replies:
        assert not world.to_client.is_closed
        world.answer(AT, data)
    assert world.to_client.is_closed
    assert world.backends[world.links[AT]].is_closed
    world.close()


REDIRECTIONS = pytest.mark.parametrize(
    "error", [b"-ASK 15495 h:7000\r\n", b"-MOVED 15495 h:7000\r\n"]
)


@REDIRECTIONS
async def test_no_client_is_told_of_a_node_when_a_later_write_was_faster(error: bytes) -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(encode((b"SET", b"{a}", b"1")) + encode((b"SET", b"{a}", b"2")))
    world.answer(AT, error + b"+OK\r\n")
    while not (heard := world.heard()):  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0)
    assert heard == ON_ITS_WAY + b"+OK\r\n"
    world.close()


@REDIRECTIONS
async def test_no_client_is_told_of_a_node_when_a_redirection_lasts(
    error: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await RoutedWorld.opened(MASTERS)
    monkeypatch.setattr(RoutedClient, "hold_max_s", -1.0)
    world.masters.find = lambda host, port: None
    world.say(encode((b"GET", b"{a}")))
    world.answer(AT, error)
    while not (heard := world.heard()):  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0)
    assert heard == ON_ITS_WAY
    world.close()


async def test_nothing_is_sent_again_for_a_client_that_has_ended() -> None:
    """It may connect anew, and what it sent before must not be done behind what it sends then."""
    world = await RoutedWorld.opened(MASTERS)
    link = world.links[AT]
    world.say(encode((b"SET", b"{a}", b"1")))
    world.answer(AT, b"-TRYAGAIN Multiple keys\r\n")
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "redirects"]
    await asyncio.sleep(0)  # the request waits for its next attempt
    assert world.say(encode((b"GET", b"{0}")))[AT], "another slot of this master"
    lost = world.backends[link]
    world.client.lanes.to(link).end()
    assert world.to_client.is_closed
    await asyncio.wait(tasks, timeout=1)
    assert [task.done() for task in tasks] == [True]
    assert world.backends[link] is lost
    assert world.heard() == b""
    world.close()


@pytest.mark.parametrize("frame", [b"*1\r\n+PING\r\n", b"*2\r\n$3\r\nGET\r\n+{a}\r\n"])
async def test_a_word_that_is_no_bulk_string_ends_the_requests(frame: bytes) -> None:
    """hiredis takes it for one. Redis answers what was sent before, then an error, and closes."""
    world = await RoutedWorld.opened(MASTERS)
    assert world.say(GETS + frame)[AT] == GETS
    world.answer(AT, b"+1\r\n+2\r\n+3\r\n")
    assert world.heard() == b"+1\r\n+2\r\n+3\r\n"
    home = world.backends[world.links[0]]
    assert (await home.gets()).startswith(frame[:6])
    world.answer(0, b"-ERR Protocol error\r\n")
    await world.client_closed()
    assert world.heard() == b"-ERR Protocol error\r\n"
    world.close()


async def test_a_large_reply_passes_as_it_comes() -> None:
    world = await RoutedWorld.opened(MASTERS)
    world.say(encode((b"GET", b"{a}")))
    world.answer(AT, b"$1000000\r\n" + b"x" * 1000)
    assert world.heard() == b"$1000000\r\n" + b"x" * 1000
    world.answer(AT, b"-ERR\r\n-" + b"y" * 998_993)
    world.answer(AT, b"\r\n")
    assert world.heard() == b"-ERR\r\n-" + b"y" * 998_993 + b"\r\n"
    assert len(world.client.order) == 0
    world.close()


async def test_requests_that_wait_twice_go_before_what_came_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that may not call scripts waits for the look at the index of each of its keys."""
    monkeypatch.setattr(LaneSession, "may_script", lambda session: False)
    world = await RoutedWorld.opened(MASTERS)
    link = world.links[AT]
    keys = [b"{a}1", b"{a}2"]
    for key in keys:
        link.context.registry.announced(0, key, 1 << 50)

    async def indexed(places: list[DbKey]) -> dict[bytes, bool]:
        await asyncio.sleep(0)
        return {key: False for _, key in places}

    link.holds = SimpleNamespace(indexed=indexed)
    chunks = [b"".join(encode((b"HSET", key, b"f", b"v")) for key in keys)]
    chunks += [encode((b"SET", b"{a}3", value)) for value in (b"1", b"2")]
    for chunk in chunks:
        world.say(chunk)
    for _ in range(100):  # more turns of the event loop than the looks take
        await asyncio.sleep(0)
    assert world.backends[link].taken() == b"".join(chunks)
    world.close()


async def test_nobody_waits_for_the_reply_to_a_blocking_request_that_was_held() -> None:
    """All that the client has sent before it has been answered; its own reply may never come."""
    world = await RoutedWorld.opened(MASTERS)
    link = world.links[AT]
    link.context.registry.announced(0, b"{a}1", NOW_MS - 1)

    async def reaped(*what: object) -> None:
        link.context.registry.announced(0, b"{a}1", 1 << 50)

    link.holds = SimpleNamespace(until_reaped=reaped)
    world.say(encode((b"BLMOVE", b"{a}1", b"{a}2", b"LEFT", b"LEFT", b"0")))
    await world.backends[link].gets()
    session = world.client.lanes.to(link).session
    assert session is not None
    assert session.has_landed(session.mark())
    world.close()


async def test_a_client_is_read_again_once_a_chunk_of_many_requests_is_answered() -> None:
    """Its replies pass as they come, and nothing else would look at that."""
    world = await RoutedWorld.opened(MASTERS)
    count = MOST_OWED + 1
    world.say(encode((b"GET", b"{a}")) * count)
    lane = world.client.lanes.to(world.links[AT])
    lane.full(True)
    lane.full(False)
    assert world.to_client.is_paused
    world.answer(AT, b"$-1\r\n" * count)
    assert not world.to_client.is_paused
    world.close()
