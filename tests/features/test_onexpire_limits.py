"""MAX and ELSE, who may set a rule, and where messages go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import info
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

# --- after so many times


@pytest.mark.usefixtures("no_reaper")
def test_a_lease_that_is_lost_too_often_ends_among_the_dead_letters(talk: Talk) -> None:
    """The count starts again when the item is pushed again."""
    once = """
        LEASE tasks busy PX 20              -> "t1"
        wait 20
        EXISTS busy                         -> 0
    """
    back = 'LRANGE tasks 0 -1 -> ["t1"]'
    dead = "LRANGE tasks 0 -1 -> []"
    talk(f"""
        ONEXPIRE busy RPUSH tasks MAX 2 ELSE dead:%K    -> OK
        RPUSH tasks t1                      -> 1
        {once} {back} {once} {back} {once} {dead}
        LRANGE dead:busy 0 -1               -> ["t1"]
        RPUSH tasks t1                      -> 1
        {once} {back} {once} {back} {once} {dead}
        LRANGE dead:busy 0 -1               -> ["t1", "t1"]
        DBSIZE                              -> 1
    """)


@pytest.mark.usefixtures("no_reaper")
def test_an_acknowledged_lease_is_counted_from_the_beginning(talk: Talk) -> None:
    lost = """
        LEASE tasks busy PX 20              -> "t1"
        wait 20
        EXISTS busy                         -> 0
        LRANGE tasks 0 -1                   -> ["t1"]
    """
    talk(f"""
        ONEXPIRE busy RPUSH tasks MAX 2 ELSE dead       -> OK
        RPUSH tasks t1                      -> 1
        {lost} {lost}
        LEASE tasks busy PX 1000            -> "t1"
        SREM busy t1                        -> 1
        RPUSH tasks t1                      -> 1
        {lost} {lost}
        EXISTS dead                         -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize("action", ["XADD out", "PUBLISH out"])
def test_each_element_of_each_key_is_counted_for_itself(talk: Talk, action: str) -> None:
    fill = """
        SADDEX s PX 20 MEMBERS 2 a b        -> 2
        HSETEX h PX 20 FIELDS 1 a 1         -> 1
        wait 20
        EXISTS s h                          -> 0
    """
    talk(f"""
        ONEXPIRE * {action} MAX 1 ELSE dead     -> OK
        {fill}
        ONEXPIRE * XADD out MAX 1 ELSE dead     -> OK
        SADDEX s PX 20 MEMBERS 1 c              -> 1
        {fill}
        XLEN dead                               -> 3
    """)


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    ("put", "take"),
    [
        ("HSETEX k PX 20 FIELDS 1 {} 1", "HDEL k a"),
        ("SADDEX k PX 20 MEMBERS 1 {}", "SREM k a"),
        ("ZADDEX k PX 20 MEMBERS 1 1 {}", "ZREM k a"),
        ("RPUSHEX k PX 20 ELEMENTS 1 {}", "LREM k 0 a"),
    ],
)
def test_what_had_gone_when_it_was_due_does_not_count(
    client: Client, direct: Client, put: str, take: str
) -> None:
    client.ask("ONEXPIRE", "k", "RPUSH", "late", "ELEMENT", "MAX", 1, "ELSE", "dead")
    client.ask_many([put.format(each).split() for each in "ab"])
    direct.ask(*take.split())  # nobody sweeps
    let_pass(direct, 20)
    assert client.ask("EXISTS", "k") == 0
    assert direct.ask("LRANGE", "late", 0, -1) == [b"b"]
    client.ask(*put.format("a").split())
    let_pass(direct, 20)
    assert client.ask("EXISTS", "k") == 0
    assert direct.ask("LRANGE", "late", 0, -1) == [b"b", b"a"]
    assert direct.ask("EXISTS", "dead") == 0


@pytest.mark.usefixtures("no_reaper")
def test_a_count_is_forgotten_a_month_after_the_last_time(client: Client, direct: Client) -> None:
    counts, day_ms = Keys().counts(b"busy"), 86_400_000

    def counted(days: int) -> int:
        return (direct.now_ms() - days * day_ms) // 1000 * 2**20 + 1

    direct.ask("ZADD", counts, counted(31), "old", counted(29), "young")
    client.ask("ONEXPIRE", "busy", "RPUSH", "tasks", "MAX", 2, "ELSE", "dead")
    client.ask("SADDEX", "busy", "PX", 20, "MEMBERS", 1, "new")
    let_pass(direct, 20)
    assert client.ask("EXISTS", "busy") == 0
    assert sorted(direct.ask("ZRANGE", counts, 0, -1)) == [b"new", b"young"]


@pytest.mark.usefixtures("no_reaper")
def test_counts_that_are_all_forgotten_are_no_longer_listed(client: Client, direct: Client) -> None:
    """The element that is due has gone, so nothing is counted anew."""
    counts = Keys().counts(b"busy")
    client.ask("ONEXPIRE", "busy", "RPUSH", "tasks", "MAX", 2, "ELSE", "dead")
    client.ask("SADDEX", "busy", "PX", 20, "MEMBERS", 1, "gone")
    direct.ask_many([("SADD", "busy", "stays"), ("SREM", "busy", "gone")])
    direct.ask_many([("ZADD", counts, 1, "old"), ("SADD", Keys().others, counts)])
    let_pass(direct, 20)
    assert client.ask("SMEMBERS", "busy") == [b"stays"]
    assert direct.ask("EXISTS", counts) == 0
    assert direct.ask("SISMEMBER", Keys().others, counts) == 0


# --- who may set one


@pytest.fixture
def limited(proxy: Proxy, server: AnyServer) -> Iterator[Connection]:
    """A client whose user may use unpaid:* and late*, but not RPUSH."""
    with Connection(server.port) as direct, Connection(proxy.port) as app:
        keys = ("~unpaid:*", "~late*", "~__ttl:*")
        rights = (*keys, "resetchannels", "&some", "+@all", "-rpush")
        assert direct.ask("ACL", "SETUSER", "some", "on", ">word", *rights) == b"+OK\r\n"
        assert app.ask("AUTH", "some", "word") == b"+OK\r\n"
        yield app
        direct.ask("ACL", "DELUSER", "some")


@pytest.mark.parametrize(
    ("rule", "may"),
    [
        ("unpaid:* LPUSH late", True),
        ("unpaid:* LPUSH late:%1", True),
        ("unpaid:* XADD unpaid:late:%K", True),
        ("unpaid:?:* KEEP", True),
        ("unpaid:* DEL", True),
        ("* LPUSH late", False),
        ("*unpaid:* LPUSH late", False),
        ("unpaid* KEEP", False),
        ("* DEL", False),
        ("unpaid:* LPUSH other", False),
        ("unpaid:* LPUSH %1", False),
        ("unpaid:* LPUSH late MAX 1 ELSE other", False),
        ("unpaid:* RPUSH late", False),
    ],
)
def test_nobody_has_done_for_him_what_he_may_not_do(
    limited: Connection, rule: str, may: bool
) -> None:
    reply = limited.ask("ONEXPIRE", *rule.split())
    assert (reply == b"+OK\r\n") is may, reply
    if not may:
        assert reply.startswith(b"-NOPERM") or b"can't run this command" in reply
        assert limited.ask("ONEXPIRE") == b"*0\r\n"


def test_a_channel_that_the_client_may_not_publish_to_is_refused(
    limited: Connection, server: AnyServer
) -> None:
    """Before 7.0 a script cannot check that."""
    assert limited.ask("ONEXPIRE", "unpaid:*", "PUBLISH", "some") == b"+OK\r\n"
    reply = limited.ask("ONEXPIRE", "unpaid:*", "PUBLISH", "other")
    old = info(server.port, "server")["redis_version"].startswith("6.")
    assert reply == (b"+OK\r\n" if old else b"-NOPERM No permissions to access a channel\r\n")


# --- how many there may be


def test_a_database_has_a_thousand_rules_at_most(app: Connection, other: Connection) -> None:
    app.send(b"".join(command("ONEXPIRE", f"k{n}:*", "KEEP") for n in range(1000)))
    assert set(app.read_many(1000)) == {b"+OK\r\n"}
    refused = app.ask("ONEXPIRE", "one more", "KEEP")
    assert refused.startswith(b"-ERR there are already 1000 rules in this database")
    assert app.ask("ONEXPIRE", "one more") == b"$-1\r\n"
    assert app.ask("ONEXPIRE", "k7:*", "RPUSH", "late") == b"+OK\r\n", "it is there already"
    app.ask("SELECT", 1)
    assert app.ask("ONEXPIRE", "one more", "KEEP") == b"+OK\r\n", "each database for itself"
    assert other.ask("ONEXPIRE", "k9:*", "DEL") == b"+OK\r\n"
    assert other.ask("ONEXPIRE", "one more", "KEEP") == b"+OK\r\n"


def test_a_pattern_has_1024_bytes_at_most(app: Connection) -> None:
    assert app.ask("ONEXPIRE", "*" * 1024, "KEEP") == b"+OK\r\n"
    for action in ("KEEP", "DEL"):
        refused = app.ask("ONEXPIRE", "[" * 1025, action)
        assert refused == b"-ERR the pattern is longer than 1024 bytes\r\n"


# --- channels


@pytest.mark.parametrize("payload", ["", "VALUE"])
def test_an_element_is_published_at_its_deadline(
    app: Connection, other: Connection, payload: str
) -> None:
    app.ask("ONEXPIRE", "online:*", "PUBLISH", "left:%1", *payload.split())
    other.ask("SUBSCRIBE", "left:room")
    app.ask("HSETEX", "online:room", "PX", 20, "FIELDS", 1, "u42", "ann")
    assert other.read() == b"*3\r\n$7\r\nmessage\r\n$9\r\nleft:room\r\n$3\r\nann\r\n"


def test_shard_channels_where_the_server_has_them(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    reply = app.ask("ONEXPIRE", "online", "SPUBLISH", "left")
    if info(server.port, "server")["redis_version"].startswith("6."):
        assert reply == b"-ERR unknown command 'SPUBLISH'\r\n"
        return
    assert reply == b"+OK\r\n"
    other.ask("SSUBSCRIBE", "left")
    app.ask("SADDEX", "online", "PX", 20, "MEMBERS", 1, "u42")
    assert other.read() == b"*3\r\n$8\r\nsmessage\r\n$4\r\nleft\r\n$3\r\nu42\r\n"


def test_what_was_handed_on_is_counted_by_action(app: Connection) -> None:
    def metric(name: str) -> int:
        lines = app.ask("INFO", "ttlproxy").decode().splitlines()
        found = [line for line in lines if line.startswith(name)]
        return int(found[0].replace("=", ":").split(":")[-1]) if found else 0

    fired, dead = metric("fired_xadd"), metric("dead_letters")
    app.ask("ONEXPIRE", "s", "XADD", "late", "MAXLEN", "1", "MAX", "1", "ELSE", "dead")
    for number in range(1, 3):
        app.ask("SADDEX", "s", "PX", 1, "MEMBERS", 2, "a", "b")
        wait_until(lambda: metric("fired_xadd") == fired + 2 * number, "both told")  # noqa: B023
    assert metric("dead_letters") == dead + 2
    assert app.ask("XLEN", "late") == b":1\r\n"
