"""A deadline is announced in the database that its client is in, whatever SELECTs have failed."""

import pytest

from tests.support.deadlines import BOUNDED, deadline_ms_of, until_past
from tests.support.raw_client import Connection, command


@pytest.mark.parametrize("words", [("SELECT", "99"), ("SELECT", "x"), ("SELECT", "-1")])
def test_a_select_that_failed_misleads_nobody(three: list[Connection], words: tuple[str]) -> None:
    one, other, direct = three
    assert one.ask(*words).startswith(b"-ERR")
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    until_past(direct, deadline_ms_of(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_a_select_inside_a_transaction_that_was_dropped_misleads_nobody(
    three: list[Connection],
) -> None:
    one, other, direct = three
    for words in (("MULTI",), ("SELECT", "5"), ("DISCARD",), ("HSET", "h", "a", "1", "b", "2")):
        one.ask(*words)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    until_past(direct, deadline_ms_of(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":1\r\n"


def _sees_it_go(other: Connection, direct: Connection, db: int, deadline_ms: int) -> None:
    """The other proxy knows the deadline of `a` in `h` in this database."""
    until_past(direct, deadline_ms)
    assert other.ask("SELECT", db) == b"+OK\r\n"
    assert other.ask("HLEN", "h") == b":1\r\n"


@pytest.mark.parametrize("last", [(), ("MULTI",), ("RESET",)])
def test_after_many_selects_at_once_a_deadline_is_announced_where_the_client_is(
    three: list[Connection], last: tuple[str, ...]
) -> None:
    """Some of them fail: the server has 16 databases."""
    one, other, direct = three
    words: list[tuple[str | int, ...]] = [("SELECT", db) for db in (*range(16), 99, 98, 97, "x")]
    if last == ("MULTI",):
        words += [last, ("SELECT", 3), ("DISCARD",)]
    elif last:
        words += [last, ("SELECT", 15)]
    one.send(b"".join(command(*each) for each in words))
    one.read_many(len(words))
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    direct.ask("SELECT", 15)
    _sees_it_go(other, direct, 15, deadline_ms_of(direct, "h", "a"))


def test_in_a_transaction_each_deadline_is_announced_in_the_database_selected_before_it(
    three: list[Connection],
) -> None:
    one, other, direct = three
    for words in (
        ("MULTI",),
        ("HSETEX", "h", *BOUNDED, "PX", 10, "FIELDS", 2, "a", 1, "c", 1),
        ("HSET", "h", "b", 1),
        ("SELECT", 7),
        ("HSETEX", "h", *BOUNDED, "PX", 20, "FIELDS", 1, "a", 1),
        ("HSET", "h", "b", 1),
        ("EXEC",),
    ):
        one.ask(*words)
    deadlines_ms = []
    for db in (0, 7):
        direct.ask("SELECT", db)
        deadlines_ms.append(deadline_ms_of(direct, "h", "a"))
    for db, deadline_ms in zip((0, 7), deadlines_ms, strict=True):
        _sees_it_go(other, direct, db, deadline_ms)


def test_a_select_that_redis_forbids_misleads_nobody(three: list[Connection]) -> None:
    one, other, direct = three
    direct.ask("ACL", "SETUSER", "u", "on", "nopass", "~*", "&*", "+@all", "-select")
    one.ask("SELECT", 7)
    one.ask("AUTH", "u", "")
    assert one.ask("SELECT", 3).startswith(b"-NOPERM")
    one.ask("HSET", "h", "a", 1, "b", 2)
    assert one.ask("HPEXPIREFIELD", "h", "a", 10) == b":1\r\n"
    direct.ask("SELECT", 7)
    _sees_it_go(other, direct, 7, deadline_ms_of(direct, "h", "a"))


def _keys_of_clients(direct: Connection) -> set[str]:
    """The state that proxies share may be written before a request that could store a deadline."""
    return {line for line in direct.ask("KEYS", "*").decode().splitlines() if "ttl" not in line}


def _get_lost(client: Connection) -> None:
    """After CLIENT REPLY SKIP replies are not counted, so no reply to a SELECT tells. The session
    remembers 16 databases; here all are wrong, as the client is in database 5."""
    client.send(command("CLIENT", "REPLY", "SKIP") + command("PING"))
    assert client.ask("SELECT", 5) == b"+OK\r\n"
    for db in range(100, 116):
        assert client.ask("SELECT", db).startswith(b"-ERR")


def test_databases_of_refused_selects_are_forgotten(three: list[Connection]) -> None:
    one, _, direct = three
    for db in range(100, 120):
        assert one.ask("SELECT", db).startswith(b"-ERR")
    one.ask("HSET", "h", "a", 1)
    assert one.ask("HEXPIREFIELD", "h", "a", 10) == b":1\r\n"
    assert direct.ask("HLEN", "h") == b":1\r\n"


def test_a_client_whose_database_nobody_can_tell_sets_no_deadline(three: list[Connection]) -> None:
    one, _, direct = three
    _get_lost(one)
    one.ask("HSET", "h", "a", 1)
    before = _keys_of_clients(direct)
    refusal = b"-ERR ttlproxy cannot tell the database: too many SELECTs have failed\r\n"
    for words in (
        ("HEXPIREFIELD", "h", "a", 10),
        ("HSETEX", "h", *BOUNDED, "EX", 10, "FIELDS", 1, "b", 1),
        ("ONEXPIRE", "h", "RPUSH", "l"),
        ("DEFER", "EX", 10, "RPUSH", "l", 1),
    ):
        assert one.ask(*words) == refusal, words
    assert _keys_of_clients(direct) == before
    assert one.ask("HLEN", "h") == b":1\r\n"
    assert one.ask("SELECT", 5) == b"+OK\r\n"
    assert one.ask("HEXPIREFIELD", "h", "a", 10) == b":1\r\n"


def test_a_managed_key_of_a_client_whose_database_nobody_can_tell_stays_where_it_is(
    three: list[Connection],
) -> None:
    one, _, direct = three
    direct.ask("SELECT", 5)
    one.ask("SELECT", 5)
    one.ask("HSET", "h", "a", 1)
    one.ask("HEXPIREFIELD", "h", "a", 1000)
    one.ask("SELECT", 0)
    _get_lost(one)
    before = direct.ask("DUMP", "h")
    for words in (("MOVE", "h", 7), ("COPY", "h", "c"), ("RENAME", "h", "c")):
        assert b"cannot tell the database" in one.ask(*words), words
    assert direct.ask("DUMP", "h") == before
    assert direct.ask("EXISTS", "c") == b":0\r\n"
