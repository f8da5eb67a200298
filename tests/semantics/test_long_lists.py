"""Long values, and lists of thousands of elements: many values are found in one walk."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.conversation import Talk, let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.keys import Keys

VALUES = [f"value:{number}" for number in range(3000)]


def _fill(app: Connection, copies: int) -> None:
    for _ in range(copies):
        app.ask("RPUSH", "l", *VALUES)


def _left(app: Connection) -> list[str]:
    return app.ask("LRANGE", "l", 0, -1).decode().split("\r\n")[2::2]


@pytest.mark.parametrize(
    "due",
    [
        VALUES[:500] + VALUES[2990:],
        VALUES[::7],
        VALUES[1000:2000],
        VALUES[1:],
        VALUES[1:-1],
        [VALUES[0], *VALUES[500:700:2], VALUES[-1]],
    ],
    ids=["both ends", "here and there", "the middle", "all but one", "all but the ends", "a few"],
)
@pytest.mark.parametrize(("ms", "answer"), [(0, b":2\r\n"), (10, b":1\r\n")])
@pytest.mark.parametrize("copies", [1, 2])
def test_many_due_values_go_and_the_others_keep_their_order(
    app: Connection, due: list[str], copies: int, ms: int, answer: bytes
) -> None:
    _fill(app, copies)
    reply = app.ask("LPEXPIREELEMENT", "l", ms, "ELEMENTS", len(due), *due)
    assert reply == b"*%d\r\n" % len(due) + answer * len(due)
    gone = set(due)
    expected = [value for value in VALUES if value not in gone] * copies
    wait_until(lambda: _left(app) == expected, "what is left")


def test_a_long_list_goes_as_a_whole(app: Connection, direct: Client) -> None:
    _fill(app, 3)
    app.ask("LPEXPIREELEMENT", "l", 10, "ELEMENTS", len(VALUES), *VALUES)
    wait_until(lambda: direct.ask("EXISTS", "l") == 0, "the list gone")


@pytest.mark.usefixtures("no_reaper")
def test_however_many_are_due_the_next_look_sees_none(app: Connection, direct: Client) -> None:
    _fill(app, 2)
    app.ask("LPEXPIREELEMENT", "l", 20, "ELEMENTS", 2500, *VALUES[:2500])
    let_pass(direct, 20)
    assert app.ask("LLEN", "l") == b":1000\r\n"


def test_a_full_server_lets_the_elements_of_a_long_list_go(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(start_proxy(server.url).port) as app:
        _fill(app, 1)
        app.ask("LEXPIREELEMENT", "l", 100, "ELEMENTS", 1000, *VALUES[::3])
        app.ask("LPEXPIREELEMENT", "l", 200, "ELEMENTS", 1000, *VALUES[::3])
        app.ask("CONFIG", "SET", "maxmemory", 1)
        assert app.ask("SET", "text", "x").startswith(b"-OOM")
        expected = [value for number, value in enumerate(VALUES) if number % 3]
        wait_until(lambda: _left(app) == expected, "what is left")


def test_a_value_without_a_deadline_is_moved_without_a_walk_along_the_target(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(start_proxy(server.url).port) as app:
        app.ask("RPUSH", "source", "a", "b", "c")
        app.ask("LEXPIREELEMENT", "source", "c", 100)
        before = calls(server.port, "lpos")
        assert app.ask("RPOPLPUSH", "source", "target") == b"$1\r\nc\r\n"
        assert calls(server.port, "lpos") > before
        app.ask("LEXPIREELEMENT", "source", "a", 100)
        found = calls(server.port, "lpos")
        assert app.ask("LMOVE", "source", "target", "RIGHT", "LEFT") == b"$1\r\nb\r\n"
        assert calls(server.port, "lpos") == found


@pytest.mark.parametrize("push", ["RPUSH l a", "RPUSHEX l KEEPTTL ELEMENTS 1 a"])
def test_deadlines_of_a_list_that_went_behind_the_proxys_back_do_not_come_back(
    app: Connection, direct: Client, push: str
) -> None:
    app.ask("RPUSHEX", "l", 100, "a", "b")
    direct.ask("DEL", "l")
    assert app.ask(*push.split()) == b":1\r\n"
    assert app.ask("LTTLELEMENT", "l", "ELEMENTS", 2, "a", "b") == b"*2\r\n:-1\r\n:-2\r\n"


def test_entries_of_a_long_list_that_was_emptied_by_a_script_are_swept(
    app: Connection, direct: Client
) -> None:
    _fill(app, 1)
    app.ask("LEXPIREELEMENT", "l", 100, "ELEMENTS", len(VALUES), *VALUES)
    app.ask("EVAL", "return redis.call('LTRIM', KEYS[1], 100, 109)", 1, "l")
    index = Keys().index(b"l")
    wait_until(lambda: direct.ask("ZCARD", index) == 10, "the entries of what is gone")


def test_many_elements_are_told_apart_as_few_are(talk: Talk) -> None:
    names = " ".join(f"e{number}" for number in range(20))
    fives = [[f"e{number}" for number in range(at, at + 5)] for at in (0, 5, 10, 15)]
    there, dated, gone = (" ".join(fives[at]) for at in (1, 2, 3))
    talk(f"""
        RPUSH l {there} {dated} {gone} {gone}   -> 20
        LEXPIREELEMENT l 100 ELEMENTS 10 {dated} {gone} -> {[1] * 10}
        LEXPIREELEMENT l 0 XX ELEMENTS 15 {gone} {gone} {there} -> {[2] * 5 + [-2] * 5 + [0] * 5}
        LTTLELEMENT l ELEMENTS 20 {names}       -> {[-2] * 5 + [-1] * 5 + [100] * 5 + [-2] * 5}
        LPUSH l {names}                         -> 30
        LTTLELEMENT l ELEMENTS 20 {names}       -> {[-1] * 10 + [100] * 5 + [-1] * 5}
        LPERSISTELEMENT l ELEMENTS 20 {names}   -> {[-1] * 10 + [1] * 5 + [-1] * 5}
    """)


def test_many_are_evicted_from_a_long_list(app: Connection) -> None:
    _fill(app, 2)
    push = "RPUSHEX l MAXLEN 1000 EVICT EX 100 ELEMENTS 2 a b"
    assert app.ask(*push.split()) in (b":1000\r\n", b":999\r\n")
    wait_until(lambda: len(_left(app)) in (999, 1000), "what was evicted gone")
    assert _left(app)[-2:] == ["a", "b"]


def test_numbers_and_long_values_are_values_like_others(talk: Talk) -> None:
    long = "x" * 9000
    talk(f"""
        RPUSH l 1 01 -1 1.0 {long} {long}y      -> 6
        LEXPIREELEMENT l 100 ELEMENTS 2 1 {long} -> [1, 1]
        LTTLELEMENT l ELEMENTS 6 1 01 -1 1.0 {long} {long}y -> [100, -1, -1, -1, 100, -1]
        LEXPIREELEMENT l 0 ELEMENTS 2 1 {long}  -> [2, 2]
        LRANGE l 0 2                            -> ["01", "-1", "1.0"]
    """)
