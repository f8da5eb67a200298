"""A key that was emptied without a script of ours leaves its index behind, until it is swept.

Requests before the sweep must not be misled by this index.
"""

import pytest

from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import until_swept

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
    """Else its index would expire at the old key's time, and its deadlines with the index."""
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
    assert direct.ask("PTTL", index) == -1


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
