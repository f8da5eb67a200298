"""Client-side caching: invalidations name data keys, also where only a deadline has changed, and
nothing that is the proxy's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection

OK = b"+OK\r\n"
# What reads an element's deadline, and what changes it, after what stores the element.
READS = {
    "hash": (
        ("HSET", "k", "e", 1, "f", 2),
        ("HTTLFIELD", "k", "e"),
        ("HEXPIREFIELD", "k", "e", 90),
    ),
    "set": (("SADD", "k", "e", "f"), ("STTLMEMBER", "k", "e"), ("SEXPIREMEMBER", "k", "e", 90)),
    "zset": (("ZADD", "k", 1, "e"), ("ZTTLMEMBER", "k", "e"), ("ZEXPIREMEMBER", "k", "e", 90)),
}


def _pushed(*keys: bytes) -> bytes:
    return b">2\r\n$10\r\ninvalidate\r\n" + _names(*keys)


def _names(*keys: bytes) -> bytes:
    return b"*%d\r\n" % len(keys) + b"".join(b"$%d\r\n%b\r\n" % (len(key), key) for key in keys)


class World:
    """Clients of one proxy: one caches, another changes what it caches."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port = port
        self._stack = stack
        self.cache, self.other = self.client(), self.client()

    def client(self) -> Connection:
        return self._stack.enter_context(Connection(self.port))


@pytest.fixture
def world(server: AnyServer, start_proxy: StartProxy) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(start_proxy(server.url).port, stack)


@pytest.mark.parametrize("kind", READS)
def test_a_changed_deadline_is_told_whoever_has_read_it_by_the_name_of_its_key(
    world: World, kind: str
) -> None:
    written, read, changed = READS[kind]
    world.other.ask(*written)
    world.cache.ask("HELLO", 3)
    assert world.cache.ask("CLIENT", "TRACKING", "ON") == OK
    world.cache.ask(*read)
    assert world.other.ask(*changed).startswith((b":1", b"*1\r\n:1"))
    assert world.cache.read() == _pushed(b"k")
    world.cache.ask(*read)
    world.other.ask("DEL", "k")
    assert world.cache.read() == _pushed(b"k")


def test_who_tracks_all_keys_hears_of_none_that_are_the_proxys(world: World) -> None:
    world.cache.ask("HELLO", 3)
    assert world.cache.ask("CLIENT", "TRACKING", "ON", "BCAST") == OK
    world.other.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1)
    world.other.ask("HEXPIREFIELD", "h", "a", 50)
    world.other.ask("SADDEX", "{tag}s", 100, "m")
    world.other.ask("SET", "last", 1)
    heard, names = b"", set[bytes]()
    while _names(b"last")[4:] not in heard:
        heard = world.cache.read()
        names |= {word for word in heard.split(b"\r\n")[4::1] if word[:1] not in (b"$", b"*", b"")}
        assert b"__ttl" not in heard
        assert b"ttlproxy" not in heard
    assert names == {b"h", b"{tag}s", b"last"}


def test_redirected_invalidations_name_data_keys_too(world: World) -> None:
    listener = world.client()
    number = listener.ask("CLIENT", "ID")[1:].strip().decode()
    listener.ask("SUBSCRIBE", "__redis__:invalidate")
    assert world.cache.ask("CLIENT", "TRACKING", "ON", "REDIRECT", number) == OK
    world.other.ask("HSET", "h", "a", 1)
    world.cache.ask("HTTLFIELD", "h", "a")
    world.other.ask("HEXPIREFIELD", "h", "a", 50)
    head = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
    assert listener.read() == head + _names(b"h")
    world.other.ask("FLUSHALL")
    assert listener.read() == head + b"$-1\r\n"
    assert listener.ask("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"


def test_other_messages_are_not_touched(world: World) -> None:
    listener = world.client()
    listener.ask("SUBSCRIBE", "c", "__redis__:other")
    listener.read()
    for channel, text in (("c", "__ttl:x"), ("__redis__:other", "invalidate\r\n*1\r\n$5\r\n__ttl")):
        world.other.ask("PUBLISH", channel, text)
        sent = [b"message", channel.encode(), text.encode()]
        assert listener.read() == _names(*sent)


def test_with_show_internal_keys_names_are_as_redis_has_them(
    server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url, "--show-internal-keys", "yes")
    with Connection(proxy.port) as cache, Connection(proxy.port) as other:
        other.ask("HSET", "h", "a", 1)
        cache.ask("HELLO", 3)
        cache.ask("CLIENT", "TRACKING", "ON")
        cache.ask("HTTLFIELD", "h", "a")
        other.ask("HEXPIREFIELD", "h", "a", 50)
        assert b"__ttl:" in cache.read()
