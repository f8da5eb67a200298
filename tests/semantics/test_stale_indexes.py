"""A key that was emptied without a script of ours leaves its index behind, until it is swept.

Requests before the sweep must not be misled by this index.
"""

import pytest

from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms, until_swept
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

FAR_MS = "100000"
RUN = "return redis.call(unpack(ARGV))"

# Adds an element, gives it a deadline, removes it.
TYPES = {
    "hash": ("HSET k {} 1", "HPEXPIREFIELD k {} " + FAR_MS, "HDEL k {}"),
    "set": ("SADD k {}", "SPEXPIREMEMBER k {} " + FAR_MS, "SREM k {}"),
    "zset": ("ZADD k 1 {}", "ZPEXPIREMEMBER k {} " + FAR_MS, "ZREM k {}"),
    "list": ("RPUSH k {}", "LPEXPIREELEMENT k {} " + FAR_MS, "LREM k 0 {}"),
}
every_type = pytest.mark.parametrize("type_", TYPES)


def _in_a_script(line: str) -> list[str]:
    return ["EVAL", RUN, "1", "k", *line.split()]


@every_type
def test_a_key_that_comes_back_has_nothing_of_the_expiry_it_had(
    client: Client, direct: Client, type_: str
) -> None:
    """Else its deadlines would be dropped when the old key would have expired."""
    add, expire, _ = TYPES[type_]
    client.ask_many(
        [
            *(line.format("a").split() for line in (add, expire)),
            ["PEXPIRE", "k", FAR_MS],
            _in_a_script("DEL k"),
            *(line.format("b").split() for line in (add, expire)),
        ]
    )
    (index,) = direct.ask("KEYS", "__ttl:*:k")
    assert direct.ask("ZSCORE", index, "b") is not None
    assert noted_ms(direct, b"k") is None


@every_type
@pytest.mark.parametrize("move", ["RENAME k j", "RENAMENX k j", "COPY k j", "MOVE k 1"])
def test_what_went_along_with_a_key_is_swept_where_it_went(
    client: Client, direct: Client, server: AnyServer, type_: str, move: str
) -> None:
    add, expire, remove = TYPES[type_]
    client.ask_many(
        [
            *(line.format(each).split() for each in "ab" for line in (add, expire)),
            _in_a_script(remove.format("a")),
            move.split(),
        ]
    )
    other = Client(server.port, db=1)
    until_swept(direct, other)
    other.close()


@every_type
@pytest.mark.parametrize("move", ["RENAME k j", "RENAMENX k j", "COPY k j", "MOVE k 1"])
def test_a_key_that_comes_to_where_another_was_finds_no_deadlines_of_that_one(
    client: Client, direct: Client, server: AnyServer, proxy: Proxy, type_: str, move: str
) -> None:
    add, expire, _ = TYPES[type_]
    db, name = (1, "k") if move.startswith("MOVE") else (0, "j")
    index = Keys().index(name.encode())
    with Client(proxy.port, db) as there, Client(server.port, db) as bypassing:
        former = [line.format(each) for each in "xy" for line in (add, expire)]
        there.ask_many([line.replace(" k ", f" {name} ").split() for line in former])
        bypassing.ask("DEL", name)  # nobody sweeps
        client.ask_many([line.format("a").split() for line in (add, expire)])
        (deadline,) = direct.ask("ZRANGE", Keys().index(b"k"), 0, -1, "WITHSCORES")[1:]
        assert client.ask(*move.split()) in (1, b"OK")
        assert bypassing.ask("ZRANGE", index, 0, -1, "WITHSCORES") == [b"a", deadline]


@every_type
def test_an_element_that_comes_back_has_no_deadline_however_it_comes(
    client: Client, direct: Client, type_: str
) -> None:
    """c has gone, and has left its deadline behind. HINCRBY is an exception: docs/limits.md."""
    add, expire, remove = TYPES[type_]
    for line in COMING_BACK[type_].strip().splitlines():
        client.ask("DEL", "k", "from")
        client.ask_many(
            [
                *(add.format(each).split() for each in "abc"),
                expire.format("b").split(),
                expire.format("c").split(),
                add.format("c").replace(" k ", " from ").split(),
            ]
        )
        direct.ask(*remove.format("c").split())  # nobody sweeps
        reply = client.ask(*line.split())
        assert not isinstance(reply, Exception), (line, reply)
        index = direct.ask("ZRANGE", Keys().index(b"k"), 0, -1)
        assert index == [b"b"], line


COMING_BACK = {
    "hash": """
        HSET k c 1
        HMSET k a 1 c 1
        HSETNX k c 1
        HINCRBYFLOAT k c 1
        HSETEX k FIELDS 1 c 1
        HSETEX k KEEPTTL FIELDS 1 c 1
    """,
    "set": """
        SADD k a c
        SADDEX k MEMBERS 1 c
        SADDEX k KEEPTTL MEMBERS 2 a c
        SMOVE from k c
    """,
    "zset": """
        ZADD k 1 a 1 c
        ZADD k INCR 1 c
        ZINCRBY k 1 c
        ZADDEX k MEMBERS 1 1 c
        ZADDEX k KEEPTTL MEMBERS 2 1 a 1 c
        GEOADD k 1 1 c
    """,
    "list": """
        RPUSH k a c
        LPUSH k c
        RPUSHX k c
        LPUSHX k c
        LINSERT k BEFORE a c
        LSET k 0 c
        RPUSHEX k ELEMENTS 1 c
        LPUSHEX k KEEPTTL ELEMENTS 2 a c
        RPOPLPUSH from k
        LMOVE from k LEFT LEFT
    """,
}
