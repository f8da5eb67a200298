"""A key that expires by itself: its deadlines last as long as it does, and go with it."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms
from tests.support.server_queries import until_called_by_digest
from tests.support.servers import Proxy
from ttlproxy.core.keys import KEY_EXPIRY, Keys

FAR_MS = 4_000_000_000_000
INDEX = Keys().index(b"k")

# For each type: adds an element, gives it a deadline, asks for its deadline.
COMMANDS = {
    "hash": ("HSET k {} 1", "HPEXPIREATFIELD k {} {}", "HPEXPIRETIMEFIELD k {}"),
    "set": ("SADD k {}", "SPEXPIREATMEMBER k {} {}", "SPEXPIRETIMEMEMBER k {}"),
    "zset": ("ZADD k 1 {}", "ZPEXPIREATMEMBER k {} {}", "ZPEXPIRETIMEMEMBER k {}"),
    "list": ("RPUSH k {}", "LPEXPIREATELEMENT k {} {}", "LPEXPIRETIMEELEMENT k {}"),
}
# No server's own HSETEX has MAXLEN, so these deadlines are ttlproxy's also where there is one.
WRITES = {
    "hash": "HSETEX k MAXLEN 99 PXAT {at} FIELDS 1 {element} 1",
    "set": "SADDEX k PXAT {at} MEMBERS 1 {element}",
    "zset": "ZADDEX k PXAT {at} MEMBERS 1 1 {element}",
    "list": "RPUSHEX k PXAT {at} ELEMENTS 1 {element}",
}
# Ways in which an element loses its deadline.
REMOVALS = {
    "hash": ("HDEL k {}", "HSET k {} 2", "HPERSISTFIELD k {}", "HGETDEL k FIELDS 1 {}"),
    "set": ("SREM k {}", "SPOP k", "SPERSISTMEMBER k {}", "SMOVE k j {}"),
    "zset": ("ZREM k {}", "ZPOPMIN k", "ZPERSISTMEMBER k {}", "ZADD k 2 {}"),
    "list": ("LREM k 0 {}", "LPOP k", "LPERSISTELEMENT k {}", "LMOVE k j LEFT LEFT"),
}
every_type = pytest.mark.parametrize("type_", COMMANDS)


def _words(line: str, *values: object, **named: object) -> list[str]:
    return line.format(*values, **named).split()


def _expired(direct: Client, type_: str) -> None:
    """A key that Redis expired a minute ago, with a deadline of `a` to come; then somebody without
    a proxy has created it again."""
    direct.ask("ZADD", INDEX, -(direct.now_ms() - 60_000), KEY_EXPIRY, FAR_MS, "a")
    direct.ask("ZADD", Keys().schedule, FAR_MS, "k")
    direct.ask(*_words(COMMANDS[type_][0], "a"))


@every_type
@pytest.mark.usefixtures("no_reaper")
def test_a_key_that_was_deleted_past_the_proxies_leaves_no_deadlines_to_a_new_one(
    client: Client, direct: Client, type_: str
) -> None:
    client.ask(*_words(WRITES[type_], at=FAR_MS, element="a"))
    direct.ask("DEL", "k")
    client.ask(*_words(WRITES[type_], at=FAR_MS + 9, element="b"))
    assert direct.ask("ZRANGE", INDEX, 0, -1) == [b"b"]


@every_type
@pytest.mark.parametrize("first", ["expiry", "deadline"])
def test_no_index_expires_so_redis_evicts_none_by_volatile_policies(
    client: Client, direct: Client, type_: str, first: str
) -> None:
    add, expire, _ = COMMANDS[type_]
    steps = [_words(expire, "a", FAR_MS), ["PEXPIREAT", "k", str(FAR_MS + 9)]]
    client.ask_many([_words(add, "a"), *(steps if first == "deadline" else steps[::-1])])
    assert direct.ask("PTTL", INDEX) == -1
    assert noted_ms(direct, b"k") == pytest.approx(FAR_MS + 9, abs=2)


@pytest.mark.long
def test_keys_that_survive_an_eviction_have_their_deadlines(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--maxmemory-policy", "volatile-ttl")
    proxy = start_proxy(server.url)
    keys = [f"k{number}" for number in range(300)]
    with Client(proxy.port) as client, Client(server.port) as direct:
        for key in keys:
            client.ask_many(
                [
                    ["HSETEX", key, *["MAXLEN", "9", "EX", "10000", "FIELDS", "1", "f"], "x" * 300],
                    ["EXPIRE", key, "20000"],
                ]
            )
        with Connection(proxy.port) as caller:  # scripts that come later would take the memory
            until_called_by_digest(server.port, caller)
        used = int(direct.ask("INFO", "memory").split(b"used_memory:")[1].split(b"\r\n")[0])
        direct.ask("CONFIG", "SET", "maxmemory", used - 150 * 300)
        for number in range(100):
            direct.ask("SET", f"other{number}", "x" * 300)
        direct.ask("CONFIG", "SET", "maxmemory", 0)
        survived = [key for key in keys if direct.ask("EXISTS", key)]
        assert 0 < len(survived) < 300
        assert all(client.ask("HTTLFIELD", key, "f") > 0 for key in survived)


@every_type
def test_a_new_deadline_in_a_key_that_is_new_again_is_alone(
    client: Client, direct: Client, no_reaper: None, type_: str
) -> None:
    _expired(direct, type_)
    when = COMMANDS[type_][2]
    client.ask(*_words(WRITES[type_], at=FAR_MS + 1, element="b"))
    assert client.ask(*_words(when, "b")) == FAR_MS + 1
    assert client.ask(*_words(when, "a")) == -1
    assert direct.ask("ZRANGE", INDEX, 0, -1) == [b"b"]


@every_type
@pytest.mark.parametrize(
    "then", ["PERSIST k", "EXPIRE k 1000", "{expire}", "RENAME k j", "COPY k j", "MOVE k 1"]
)
def test_nothing_makes_deadlines_of_an_expired_key_count_again(
    client: Client, direct: Client, proxy: Proxy, no_reaper: None, type_: str, then: str
) -> None:
    _expired(direct, type_)
    _, expire, when = COMMANDS[type_]
    client.ask(*then.format(expire=expire.format("b", FAR_MS)).split())
    for db, key in ((0, "k"), (0, "j"), (1, "k")):
        with Client(proxy.port, db) as there:
            # Whoever relies on a deadline there has the index looked at first.
            there.ask(*_words(expire.replace(" k ", f" {key} "), "none", FAR_MS))
            assert there.ask(*_words(when.replace(" k ", f" {key} "), "a")) in (-1, -2)


@every_type
def test_a_reap_removes_nothing_by_the_deadlines_of_an_expired_key(
    client: Client, direct: Client, type_: str
) -> None:
    add, _, _ = COMMANDS[type_]
    direct.ask(*_words(add, "a"))
    now_ms = direct.now_ms()
    direct.ask("ZADD", INDEX, -(now_ms - 60_000), KEY_EXPIRY, now_ms - 50_000, "a")
    direct.ask("ZADD", Keys().schedule, now_ms - 60_000, "k")
    client.ask("DBSIZE")  # all that is due is reaped before
    wait_until(lambda: direct.ask("EXISTS", INDEX) == 0, "the index gone")
    assert direct.ask("EXISTS", "k") == 1


@every_type
def test_an_index_is_gone_soon_after_its_key_expires(
    client: Client, direct: Client, type_: str
) -> None:
    client.ask_many([_words(WRITES[type_], at=FAR_MS, element="a"), ["PEXPIRE", "k", "150"]])
    wait_until(lambda: direct.ask("EXISTS", INDEX, "k") == 0, "key and index gone")
    wait_until(lambda: direct.ask("ZSCORE", Keys().schedule, "k") is None, "the schedule clean")


@pytest.mark.long
@pytest.mark.parametrize("renewed", ["EXPIRE k 1000", "PERSIST k"])
def test_deadlines_outlive_the_expiry_that_somebody_without_a_proxy_has_put_off(
    client: Client, direct: Client, renewed: str
) -> None:
    """The key is looked at shortly before it would have expired; its type does not matter."""
    type_ = "set"
    client.ask_many([_words(WRITES[type_], at=FAR_MS, element="a"), ["PEXPIRE", "k", "2500"]])
    once_ms = noted_ms(direct, b"k")
    assert once_ms
    assert direct.ask(*renewed.split()) == 1
    wait_until(lambda: direct.now_ms() > once_ms + 20, "the time at which it would have expired")
    wait_until(lambda: (noted_ms(direct, b"k") or FAR_MS) > once_ms + 20, "its new expiry noted")
    assert client.ask(*_words(COMMANDS[type_][2], "a")) == FAR_MS


@every_type
def test_a_key_goes_on_through_two_proxies_after_it_has_expired(
    three: list[Connection], type_: str
) -> None:
    """Each knows the key as one with deadlines, and nobody reaps."""
    one, other, direct = three
    add, _, when = COMMANDS[type_]
    one.ask(*_words(WRITES[type_], at=FAR_MS, element="a"))
    one.ask("PEXPIRE", "k", "30")
    wait_until(lambda: direct.ask("EXISTS", "k") == b":0\r\n", "the key expired")
    other.ask(*_words(add, "a"))
    assert [each.ask(*_words(when, "a")) for each in (one, other)] == [b":-1\r\n"] * 2
    one.ask(*_words(WRITES[type_], at=FAR_MS + 5, element="b"))
    ends = [each.ask(*_words(when, "b")) for each in (one, other)]
    assert ends == [b":%d\r\n" % (FAR_MS + 5)] * 2
    assert direct.ask("ZRANGE", INDEX, 0, -1) == b"*1\r\n$1\r\nb\r\n"


@every_type
def test_nothing_stays_of_an_index_that_loses_its_last_deadline(
    client: Client, direct: Client, type_: str
) -> None:
    """The instant at which the key expires is no deadline of an element."""
    add, expire, _ = COMMANDS[type_]
    for remove in REMOVALS[type_]:
        client.ask_many(
            [
                ["DEL", "k", "j"],
                *(_words(add, element) for element in "ab"),
                ["EXPIRE", "k", "1000"],
                _words(expire, "a", FAR_MS),
                _words(expire, "b", FAR_MS),
                *(remove.format(element).split() for element in "ab"),
            ]
        )
        assert direct.ask("EXISTS", INDEX) == 0, remove
        assert direct.ask("ZSCORE", Keys().schedule, "k") is None, remove
