"""What version 0.1 left in Redis: rules, deferred commands, kept elements and counts, as it wrote
them. Knows no proxy."""

from __future__ import annotations

from tests.support.redis_client import Client
from ttlproxy.core.keys import Keys

KEYS = Keys()


def _netstrings(*words: bytes) -> bytes:
    return b"".join(b"%d:%s" % (len(word), word) for word in words)


def leave_rule(direct: Client, pattern: str, how: bytes, dest: bytes, rest: bytes = b"") -> None:
    row = _netstrings(how, dest, rest, how.split()[0], dest)
    direct.ask("HSET", "__ttl:rules", f":{pattern}", row, "version", 1_700_000_000_000_000)


def leave_deferred(direct: Client, key: bytes, id_: str, at_ms: int, *words: str) -> None:
    later = KEYS.deferred(key)
    said = "{" + ",".join(f"'{word}'" for word in words) + "}"
    script = f"return redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack({said}))"
    direct.ask("EVAL", script, 1, later, id_)
    direct.ask("ZADD", KEYS.index(later), at_ms, id_)
    direct.ask("ZADD", "__ttl:schedule", at_ms, later)
    direct.ask("SADD", "__ttl:deferring", later)


def leave_kept(direct: Client, key: bytes, element: str, value: str, since_ms: int) -> None:
    direct.ask("SADD", "__ttl:keeping", key)
    direct.ask("RPUSH", KEYS.kept(key), element, value, since_ms)


def leave_count(direct: Client, key: bytes, element: bytes, count: int) -> None:
    """`element` of `key` was handed on so often, just now."""
    index = KEYS.index(key)
    second = direct.now_ms() // 1000
    name = b"%d:%s%s" % (len(index), index, element)
    direct.ask("ZADD", "__ttl:counts", f"{second * 2**20 + count:.0f}", name)
