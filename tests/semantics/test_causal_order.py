"""If a client learns of a write, it finds the write done, on any connection and through any proxy.

News and data reach clients only in an order that Redis without a proxy can show.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy

# Both versions of the server are told of keys in the same way.
pytestmark = pytest.mark.any_server

ROUNDS = 50
# Whether each of two proxies asks Redis at each request what is due.
ASKING = {"hearing": (False, False), "asking": (True, True), "one of each": (True, False)}
Words = tuple[str | int, ...]


def _subscribed(listener: Connection) -> Callable[[], bytes]:
    listener.ask("SUBSCRIBE", "news")
    return listener.read


def _popping(listener: Connection) -> Callable[[], bytes]:
    return lambda: listener.ask("BLPOP", "news", 30)


def _streaming(listener: Connection) -> Callable[[], bytes]:
    last = [b"0"]

    def read() -> bytes:
        reply = listener.ask("XREAD", "BLOCK", 30_000, "STREAMS", "news", last[0])
        last[0] = next(word for word in reply.split(b"\r\n") if b"-" in word)
        return reply

    return read


# How the news is sent, and how it is received.
WAYS: dict[str, tuple[Words, Callable[[Connection], Callable[[], bytes]]]] = {
    "PUBLISH": (("PUBLISH", "news", "x"), _subscribed),
    "RPUSH": (("RPUSH", "news", "x"), _popping),
    "XADD": (("XADD", "news", "*", "x", "x"), _streaming),
}
# How the sender puts the write and the news into chunks. To a proxy the three ways to send news are
# all plain requests, so each is tried in one of these.
TOGETHER: dict[str, tuple[str, Callable[[Words, Words], list[list[Words]]]]] = {
    "one by one": ("PUBLISH", lambda write, tell: [[write], [tell]]),
    "in one piece": ("RPUSH", lambda write, tell: [[write, tell]]),
    "in MULTI": ("XADD", lambda write, tell: [[("MULTI",), write, tell, ("EXEC",)]]),
}


@pytest.fixture(scope="module", params=ASKING.values(), ids=list(ASKING))
def proxies(shared_server: AnyServer, request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """The ports of two proxies in front of one Redis; each has a client that never pauses."""
    with ExitStack() as owned:
        with Connection(shared_server.port) as direct:
            direct.ask("FLUSHALL")
        ports = []
        for asks in request.param:
            proxy = Proxy(shared_server.url, forked=True, asks=asks)
            owned.callback(proxy.remove)
            ports.append(proxy.start().port)
        stop = threading.Event()
        for port in ports:
            thread = threading.Thread(target=_busy, args=(port, stop))
            thread.start()
            owned.callback(thread.join)
        owned.callback(stop.set)
        yield ports


def _busy(port: int, stop: threading.Event) -> None:
    with Connection(port) as client:
        for number in itertools.count():
            if stop.is_set():
                return
            client.send(
                command("SADDEX", f"busy:{number % 7}", "PX", 2, "MEMBERS", 1, "m")
                + command("SCARD", f"busy:{number % 5}")
                + command("SADD", f"busy:{number % 3}", number % 100)
            )
            client.read_many(3)


@pytest.mark.parametrize("together", TOGETHER)
def test_who_is_told_of_a_write_finds_it_done_and_its_deadline_known(
    proxies: list[int], together: str
) -> None:
    way, pieces_of = TOGETHER[together]
    tell, hear = WAYS[way]
    chance = Random(together)
    with ExitStack() as stack:
        teller = stack.enter_context(Connection(proxies[0]))
        readers = [stack.enter_context(Connection(port)) for port in (*proxies, *proxies)]
        heard = hear(stack.enter_context(Connection(chance.choice(proxies))))
        for number in range(ROUNDS):
            key = f"h:{number if number % 2 else number % 4}"  # a new one, or one of two
            chance.choice(readers).ask("DEL", key)
            for each in readers[:2]:
                assert each.ask("HLEN", key) == b":0\r\n"  # so both know that it has no deadlines
            write = ("HSETEX", key, "EX", 100, "FIELDS", 1, "f", number)
            pieces = pieces_of(write, tell)
            replies = 0
            for piece in pieces:
                teller.send(b"".join(command(*words) for words in piece))
                if piece is not pieces[-1]:
                    teller.read_many(len(piece))
                replies = len(piece)
            heard()
            reader = chance.choice(readers)
            assert reader.ask("HGET", key, "f").endswith(b"\r\n%d\r\n" % number)
            assert reader.ask("HSET", key, "f", "plain") == b":0\r\n"
            assert chance.choice(readers).ask("HTTLFIELD", key, "f") == b":-1\r\n", number
            teller.read_many(replies)


def test_who_is_told_by_one_who_was_told_finds_both_done(proxies: list[int]) -> None:
    """A tells B. B writes, and C hears of it through B's replies. C finds both writes."""
    tell, hear = WAYS["PUBLISH"]
    chance = Random("told")
    with ExitStack() as stack:
        first, second, third = (
            stack.enter_context(Connection(chance.choice(proxies))) for _ in range(3)
        )
        heard = hear(stack.enter_context(Connection(proxies[1])))
        for number in range(ROUNDS):
            dated, plain = f"a:{number}", f"b:{number}"
            for each in (second, third):
                assert each.ask("EXISTS", dated) == b":0\r\n"
            first.send(command("SADDEX", dated, 100, "m") + command(*tell))
            heard()
            second.send(command("SREM", dated, "m") + command("SADD", plain, "m"))
            assert second.read_many(2) == [b":1\r\n", b":1\r\n"]
            third.send(command("EXISTS", dated) + command("SISMEMBER", plain, "m"))
            assert third.read_many(2) == [b":0\r\n", b":1\r\n"]
            first.read_many(2)
