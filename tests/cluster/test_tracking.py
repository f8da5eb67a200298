"""Client-side caching in front of a Cluster: changed deadlines are told by the names of keys."""

from __future__ import annotations

from tests.support.cluster import Node
from tests.support.raw_client import Connection
from tests.support.servers import Proxy

OK = b"+OK\r\n"
KEYS = (b"key:1", b"{tag}:3", b"key:0")
SET = b"~1\r\n$1\r\ne\r\n"


def _pushed(key: bytes) -> bytes:
    return b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(key), key)


def _track(cache: Connection, other: Connection) -> None:
    for key in KEYS:
        assert other.ask("SADD", key, "e") == b":1\r\n"
    cache.ask("HELLO", 3)
    assert cache.ask("CLIENT", "TRACKING", "ON") == OK


def test_one_master_tells_of_deadlines_of_keys_that_were_read(node: Node, shared: Proxy) -> None:
    with Connection(shared.port) as cache, Connection(shared.port) as other:
        _track(cache, other)
        for key in KEYS:
            assert cache.ask("SMEMBERS", key) == SET
            other.ask("SEXPIREMEMBER", key, "e", 90)
            assert cache.read() == _pushed(key)
        other.ask("FLUSHALL")


def test_several_masters_tell_of_deadlines_that_were_read(
    app: Connection, other: Connection
) -> None:
    _track(app, other)
    for key in KEYS:
        assert app.ask("SMEMBERS", key) == SET
        assert app.ask("STTLMEMBER", key, "e") == b":-1\r\n"
        other.ask("SEXPIREMEMBER", key, "e", 90)
        assert app.read() == _pushed(key)
