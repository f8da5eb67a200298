"""Client-side caching: invalidations name data keys, also where only a deadline has changed, and
nothing that is the proxy's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.server_queries import until_blocked
from tests.support.servers import Proxy

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
    "list": (("RPUSH", "k", "e"), ("LTTLELEMENT", "k", "e"), ("LEXPIREELEMENT", "k", "e", 90)),
}

# How each type is read by a native command, and how a deadline of an element is changed then.
NATIVE_READS = {
    "hash": (("HSET", "k", "e", 1), ("HGETALL", "k"), ("HEXPIREFIELD", "k", "e", 90)),
    "set": (("SADD", "k", "e"), ("SMEMBERS", "k"), ("SEXPIREMEMBER", "k", "e", 90)),
    "zset": (("ZADD", "k", 1, "e"), ("ZRANGE", "k", 0, -1), ("ZEXPIREMEMBER", "k", "e", 90)),
    "list": (("RPUSH", "k", "e"), ("LRANGE", "k", 0, -1), ("LEXPIREELEMENT", "k", "e", 90)),
    "script": (
        ("HSET", "k", "e", 1),
        ("EVAL", "return redis.call('HGET', KEYS[1], 'e')", 1, "k"),
        ("HEXPIREFIELD", "k", "e", 90),
    ),
    "several keys": (
        ("SADD", "k", "e"),
        ("SUNION", "other", "k"),
        ("SEXPIREMEMBER", "k", "e", 90),
    ),
}
NAME = re.compile(rb"invalidate\r\n\*1\r\n\$\d+\r\n(.*?)\r\n")
YES = ("CLIENT", "CACHING", "YES")
NO = ("CLIENT", "CACHING", "NO")
# Each mode that tracks reads, and what stands before a read that is tracked in it.
MODES = {"default": ((), ()), "OPTOUT": (("OPTOUT",), ()), "OPTIN": (("OPTIN",), (YES,))}
every_mode = pytest.mark.parametrize("mode", MODES)
both_protocols = pytest.mark.parametrize("resp", [2, 3], ids=["RESP2", "RESP3"])


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

    def track(self, *options: str, resp: int = 3) -> None:
        """The client begins to cache. In RESP2 another one is told for it."""
        self.heard = self.cache
        if resp == 3:
            self.cache.ask("HELLO", 3)
        else:
            self.heard = self.client()
            number = self.heard.ask("CLIENT", "ID")[1:].strip().decode()
            self.heard.ask("SUBSCRIBE", "__redis__:invalidate")
            options = (*options, "REDIRECT", number)
        assert self.cache.ask("CLIENT", "TRACKING", "ON", *options) == OK

    def told(self, *before: tuple[str, ...]) -> list[bytes]:
        """The names that the client is told until now; `before`: what stands before a read."""
        heard = b""
        for words in (*before, ("GET", "last")):
            reply = self.cache.ask(*words)
            while reply.startswith(b">"):
                heard += reply
                reply = self.cache.read()
        self.other.ask("SET", "last", 1)
        while not heard.endswith(_names(b"last")):
            heard += self.heard.read()
        return NAME.findall(heard)[:-1]


@pytest.fixture
def world(proxy: Proxy) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(proxy.port, stack)


# Each kind of read once; each mode in each protocol once.
@pytest.mark.parametrize(
    ("kind", "mode", "resp"),
    [*((kind, "default", 3) for kind in NATIVE_READS), *(("set", mode, 2) for mode in MODES)],
)
def test_a_changed_deadline_is_told_after_a_native_read(
    world: World, kind: str, mode: str, resp: int
) -> None:
    written, read, changed = NATIVE_READS[kind]
    options, before = MODES[mode]
    world.other.ask(*written)
    world.track(*options, resp=resp)
    for words in (*before, read):
        world.cache.ask(*words)
    assert world.other.ask(*changed).startswith((b":1", b"*1\r\n:1"))
    assert world.told(*before) == [b"k"]
    for words in (*before, read):
        world.cache.ask(*words)
    world.other.ask("DEL", "k")
    assert b"k" in world.told(*before)


@pytest.mark.parametrize(("flags", "asks"), [((), True), (("--share-upstream", "1"), False)])
def test_a_changed_deadline_is_told_whatever_the_proxy_knows_and_shares(
    serve: StartProxy, flags: tuple[str, ...], asks: bool
) -> None:
    with ExitStack() as stack:
        world = World(serve(*flags, asks=asks).port, stack)
        world.other.ask("SADD", "k", "e")
        assert world.cache.ask("SISMEMBER", "k", "e") == b":1\r\n"
        world.track()
        world.cache.ask("SMEMBERS", "k")
        assert world.other.ask("SEXPIREMEMBER", "k", "e", 90) == b":1\r\n"
        assert world.told() == [b"k"]


@every_mode
@both_protocols
@pytest.mark.parametrize("at_once", [True, False], ids=["pipelined", "one by one"])
def test_a_changed_deadline_is_told_after_a_read_in_a_transaction(
    world: World, mode: str, resp: int, *, at_once: bool
) -> None:
    options, before = MODES[mode]
    world.other.ask("SADD", "k", "e")
    world.track(*options, resp=resp)
    requests = [*before, ("MULTI",), ("SMEMBERS", "k"), ("EXEC",), ("PING",)]
    if at_once:
        world.cache.send(b"".join(command(*words) for words in requests))
        replies = world.cache.read_many(len(requests))
    else:
        replies = [world.cache.ask(*words) for words in requests]
    assert replies[-3] == b"+QUEUED\r\n"
    assert replies[-2].startswith(b"*1\r\n")
    assert replies[-1] == b"+PONG\r\n"
    world.other.ask("SEXPIREMEMBER", "k", "e", 90)
    assert world.told(*before) == [b"k"]


def test_after_a_request_to_cache_in_a_transaction_its_reads_are_told(world: World) -> None:
    world.other.ask("SADD", "k", "e")
    world.track("OPTIN")
    for words in (("MULTI",), YES, ("SMEMBERS", "k"), ("EXEC",)):
        world.cache.ask(*words)
    world.other.ask("SEXPIREMEMBER", "k", "e", 90)
    assert world.told(YES) == [b"k"]


@pytest.mark.parametrize(
    ("option", "requests"),
    [
        ("OPTIN", []),
        ("OPTIN", [YES, ("PING",)]),
        ("OPTOUT", [NO]),
        ("OPTOUT", [NO, ("CLIENT", "ID")]),
        ("OPTOUT", [NO, ("MULTI",)]),
    ],
)
def test_what_is_not_to_be_cached_is_not_told(
    world: World, option: str, requests: list[tuple[str, ...]]
) -> None:
    world.other.ask("SADD", "k", "e")
    world.track(option)
    ends = [("EXEC",)] if ("MULTI",) in requests else []
    for words in (*requests, ("SMEMBERS", "k"), *ends):
        world.cache.ask(*words)
    world.other.ask("SEXPIREMEMBER", "k", "e", 90)
    world.other.ask("SADD", "k", "f")
    assert world.told(*MODES[option][1]) == []


@pytest.mark.parametrize("begins", [("CLIENT", "REPLY", "SKIP"), ("UNSUBSCRIBE",), ("MONITOR",)])
def test_before_requests_without_a_reply_each_client_that_caches_gets_its_own_replies(
    world: World, begins: tuple[str, ...]
) -> None:
    world.other.ask("SADD", "k", "e")
    world.track()
    requests = [("SMEMBERS", "k"), ("EXISTS", "k"), begins, ("ECHO", "lost"), ("ECHO", "end")]
    world.cache.send(b"".join(command(*words) for words in requests))
    replies = world.cache.read_many(3)
    assert replies[:2] == [b"~1\r\n$1\r\ne\r\n", b":1\r\n"]
    while replies[-1] != b"$3\r\nend\r\n":
        replies.append(world.cache.read())
    assert (b"$4\r\nlost\r\n" in replies) == (begins[0] != "CLIENT")
    assert b":0\r\n" not in replies


@pytest.mark.parametrize("flaw", [b"*1\r\n!x\r\n", b"*2\r\n$3\r\nGET\r\n$99999999999\r\n"])
@pytest.mark.parametrize("pause", [b"", command("BLPOP", "queue", 0)], ids=["at once", "blocked"])
def test_before_a_malformed_request_each_client_that_caches_gets_its_own_replies(
    world: World, server: AnyServer, pause: bytes, flaw: bytes
) -> None:
    world.other.ask("SADD", "k", "e")
    world.track(resp=2)
    read = command("SMEMBERS", "k") * 2
    if pause:
        world.cache.send(pause + read)
        until_blocked(server.port, 1)
        world.cache.send(flaw)
        world.other.ask("RPUSH", "queue", 1)
        assert world.cache.read() == _names(b"queue", b"1")
    else:
        world.cache.send(read + flaw)
    first, second, *rest = world.cache.read_to_end().split(b"*1\r\n")[1:]
    assert first == b"$1\r\ne\r\n"
    assert second.startswith(b"$1\r\ne\r\n-ERR Protocol error")
    assert not rest


def test_a_user_without_indexes_may_track_what_it_reads(world: World) -> None:
    world.other.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~k", "~last", "+@all")
    world.other.ask("SADD", "k", "e")
    world.other.ask("ACL", "LOG", "RESET")
    assert world.cache.ask("AUTH", "narrow", "") == OK
    world.track()
    assert world.cache.ask("SMEMBERS", "k") == b"~1\r\n$1\r\ne\r\n"
    world.other.ask("SADD", "k", "f")
    assert world.told() == [b"k"]
    assert world.other.ask("ACL", "LOG") == b"*0\r\n"
    world.other.ask("ACL", "DELUSER", "narrow")


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


def test_with_show_internal_keys_names_are_as_redis_has_them(serve: StartProxy) -> None:
    proxy = serve("--show-internal-keys", "yes")
    with Connection(proxy.port) as cache, Connection(proxy.port) as other:
        other.ask("HSET", "h", "a", 1)
        cache.ask("HELLO", 3)
        cache.ask("CLIENT", "TRACKING", "ON")
        cache.ask("HTTLFIELD", "h", "a")
        other.ask("HEXPIREFIELD", "h", "a", 50)
        assert b"__ttl:" in cache.read()
