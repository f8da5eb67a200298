"""LEASE ... BLOCK: a worker waits for its turn and for an item, and blocks nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.conversation import hold
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.relay import Relay
from tests.support.server_queries import calls, connections, info, until_blocked
from tests.support.servers import Proxy

FOR_EVER = ("LEASE", "src", "dst", "EX", "100", "BLOCK", "0")
FOR_A_WHILE = (*FOR_EVER[:-1], "3000")  # until both are blocked, also on a busy machine
A = b"$1\r\na\r\n"


@pytest.mark.parametrize("hello", [2, 3])
def test_a_worker_gets_the_item_that_comes(
    app: Connection, other: Connection, server: AnyServer, hello: int
) -> None:
    app.ask("HELLO", hello)
    app.send(command(*FOR_EVER))
    until_blocked(server.port, 1)
    assert other.ask("RPUSH", "src", "a") == b":1\r\n"
    assert app.read() == A
    assert has_ttl(other.ask("STTLMEMBER", "dst", "a"), 100)
    assert other.ask("EXISTS", "src") == b":0\r\n"
    app.send(command(*FOR_EVER, "COUNT", 2))
    until_blocked(server.port, 1)
    other.ask("RPUSH", "src", "c", "b")
    assert app.read() == b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n"


def test_each_of_many_workers_gets_another_item(
    proxy: Proxy, client: Client, server: AnyServer
) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(Connection(proxy.port)) for _ in range(20)]
        for worker in workers:
            worker.send(command(*FOR_EVER))
        until_blocked(server.port, 1)
        client.ask("RPUSH", "src", *range(30))
        assert len({worker.read() for worker in workers}) == 20
    assert client.ask("LLEN", "src") == 10
    assert client.ask("SCARD", "dst") == 20


def test_a_worker_of_another_set_is_not_held_up(
    app: Connection, other: Connection, client: Client, server: AnyServer
) -> None:
    client.ask("SADD", "dst", "a")
    app.send(command(*FOR_EVER))
    until_blocked(server.port, 1)
    other.send(command("LEASE", "src", "dst2", "EX", 100, "BLOCK", 0))
    client.ask("RPUSH", "src", "a")
    assert other.read() == A
    client.ask("RPUSH", "src", "b")
    assert app.read() == b"$1\r\nb\r\n"


def test_an_item_that_is_lent_already_is_waited_for_without_haste(
    app: Connection, client: Client, direct: Client, server: AnyServer
) -> None:
    client.ask("SADD", "dst", "a")
    client.ask("RPUSH", "src", "a")
    before, begun_ms = calls(server.port, "llen"), direct.now_ms()
    app.send(command(*FOR_EVER))
    wait_until(lambda: direct.now_ms() > begun_ms + 500, "half a second")
    asked = calls(server.port, "llen") - before
    assert 0 < asked < (direct.now_ms() - begun_ms) / 4, "else it asks some thousand times"
    client.ask("SREM", "dst", "a")
    assert app.read() == A


# --- requests before and behind it


BEFORE = b"".join(
    (
        command("GET", "s"),
        command("LPUSH", "s", "x"),
        command("HMGET", "none", "a"),
        command("GET", "none"),
        command("SET", "s", "\r\n-ERR x\r\n"),
        command("GET", "s"),
    )
)


def test_replies_to_what_stands_before_and_behind_are_in_their_places(
    app: Connection, other: Connection, client: Client, server: AnyServer
) -> None:
    client.ask("SET", "s", "text")
    app.send(BEFORE + command(*FOR_EVER) + command("GET", "s") + command(*FOR_EVER) + b"PI")
    until_blocked(server.port, 1)
    app.send(b"NG\r\n" + command("ECHO", "end"))
    other.ask("RPUSH", "src", "b", "a")
    replies = app.read_many(11)
    assert replies[0] == b"$4\r\ntext\r\n"
    assert replies[1].startswith(b"-WRONGTYPE")
    bulk = b"$10\r\n\r\n-ERR x\r\n\r\n"
    assert replies[2:6] == [b"*1\r\n$-1\r\n", b"$-1\r\n", b"+OK\r\n", bulk]
    assert replies[6:] == [A, bulk, b"$1\r\nb\r\n", b"+PONG\r\n", b"$3\r\nend\r\n"]


# Redis is busy until the first attempt has arrived, and answers that without a wait.
BUSY = command(
    "EVAL",
    """local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
    local until_us = us() + 30000
    repeat until us() > until_us""",
    0,
)
NEWS = b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\n-1\r\n"


@pytest.mark.parametrize(
    ("before", "reply"),
    [
        (
            ("LPUSH", "s", "x"),
            b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        (("ECHO", "-1"), b"$2\r\n-1\r\n"),
        (("ECHO", "\r\n-ERR x\r\n"), b"$10\r\n\r\n-ERR x\r\n\r\n"),
    ],
    ids=["an error", "a number", "a line"],
)
def test_what_looks_like_an_error_just_before_it_ends_no_wait(
    app: Connection,
    other: Connection,
    client: Client,
    server: AnyServer,
    before: tuple[str, ...],
    reply: bytes,
) -> None:
    client.ask("SET", "s", "text")
    app.send(BUSY + command(*before) + command(*FOR_EVER) + command("ECHO", "end"))
    assert app.read_many(2) == [b"$-1\r\n", reply]
    until_blocked(server.port, 1)
    other.ask("RPUSH", "src", "a")
    assert app.read_many(2) == [A, b"$3\r\nend\r\n"]


def test_a_message_that_looks_like_an_error_ends_no_wait(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.ask("HELLO", 3)
    app.ask("SUBSCRIBE", "news")
    for number in range(9):
        app.send(command(*FOR_EVER) + command("ECHO", "end"))
        until_blocked(server.port, 1)
        other.send(command("PUBLISH", "news", "-1") * 5)
        other.send(command("RPUSH", "src", number) + command("PUBLISH", "news", "-1") * 5)
        replies = app.read_many(12)
        assert [reply for reply in replies if reply != NEWS] == [
            b"$1\r\n%d\r\n" % number,
            b"$3\r\nend\r\n",
        ]


def test_who_may_not_run_scripts_is_told_so_whatever_else_comes(
    app: Connection, other: Connection, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "barred", "on", ">word", "~*", "&*", "+@all", "-evalsha", "-eval")
    try:
        app.ask("HELLO", 3, "AUTH", "barred", "word")
        app.ask("SUBSCRIBE", "news")
        for _ in range(9):
            publish = command("PUBLISH", "news", "-1")
            app.send(publish + command(*FOR_EVER) + command("ECHO", "end"))
            other.send(publish * 5)
            replies = [reply for reply in app.read_many(9) if reply != NEWS]
            assert [reply[:7] for reply in replies] == [
                b":1\r\n",
                b"-NOPERM",
                b"$3\r\nend",
            ]
    finally:
        direct.ask("ACL", "DELUSER", "barred")


def test_pushes_pass_while_a_worker_waits(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.ask("HELLO", 3)
    app.ask("SUBSCRIBE", "news")
    app.send(command(*FOR_EVER))
    until_blocked(server.port, 1)
    other.ask("PUBLISH", "news", "1")
    assert app.read() == b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n1\r\n"
    other.send(command("PUBLISH", "news", "2") + command("RPUSH", "src", "a"))
    assert {app.read(), app.read()} == {A, b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n2\r\n"}


def test_a_worker_waits_in_its_own_database(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.send(command("SELECT", 1) + command(*FOR_EVER))
    assert app.read() == b"+OK\r\n"
    until_blocked(server.port, 1)
    other.ask("RPUSH", "src", "wrong")
    other.ask("SELECT", 1)
    other.ask("RPUSH", "src", "a")
    assert app.read() == A


def test_who_wants_no_replies_does_not_wait(app: Connection, client: Client) -> None:
    app.send(command("CLIENT", "REPLY", "OFF") + command(*FOR_EVER))
    app.send(command("CLIENT", "REPLY", "ON") + command("PING"))
    assert app.read_many(2) == [b"+OK\r\n", b"+PONG\r\n"]
    assert client.ask("EXISTS", "dst") == 0


# --- ends and losses


@pytest.mark.parametrize("leave", [Connection.close, Connection.half_close])
def test_who_goes_away_takes_nothing(
    proxy: Proxy, client: Client, server: AnyServer, leave: Callable[[Connection], None]
) -> None:
    with Connection(proxy.port) as app:
        client.ask("PING")
        app.ask("PING")
        number = app.ask("CLIENT", "ID").decode().strip(":\r\n")
        app.send(command(*FOR_EVER))
        until_blocked(server.port, 1)
        leave(app)

        def are_gone() -> bool:
            left = connections(server.port)
            return not any(each["id"] == number or "waiter" in each["name"] for each in left)

        wait_until(are_gone, "neither it nor its waiter is there")
    client.ask("RPUSH", "src", "a")
    assert client.ask("LRANGE", "src", 0, -1) == [b"a"]


def test_for_who_goes_away_no_more_is_asked_though_redis_has_not_heard_of_it(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, asked = start_server(), list[bytes]()
    with Relay(server.port, 1 << 16, asked.append) as relay:
        # So that the other's request need not ask Redis what is due before it waits for an item.
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}", asks=False)

        def attempts() -> int:
            return sum(b"EVAL" in data and b"src" in data for data in asked)

        with Connection(proxy.port) as app, Connection(proxy.port) as other:
            app.send(command(*FOR_A_WHILE))
            until_blocked(server.port, 1)
            before = attempts()
            os.kill(server.pid, signal.SIGSTOP)
            app.half_close()
            other.send(command(*FOR_A_WHILE))
            wait_until(lambda: attempts() > before, "the other's time to be over")
            os.kill(server.pid, signal.SIGCONT)
            assert app.read_to_end() == b""
            assert other.read() == b"$-1\r\n"
        proxy.stop()
        assert not proxy.faults


def test_for_whom_redis_has_closed_no_more_is_asked(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        number = app.ask("CLIENT", "ID").decode().strip(":\r\n")
        app.send(command(*FOR_A_WHILE))
        until_blocked(server.port, 1)
        assert direct.ask("CLIENT", "KILL", "ID", number) == b":1\r\n"
        assert app.read_to_end() == b""
        with Connection(proxy.port) as other:
            assert other.ask(*FOR_A_WHILE) == b"$-1\r\n"  # the first one's time is over too
        proxy.stop()
        assert not proxy.faults


def test_others_wait_on_when_one_goes_away(
    proxy: Proxy, app: Connection, client: Client, server: AnyServer
) -> None:
    with Connection(proxy.port) as gone:
        gone.send(command(*FOR_EVER))
        until_blocked(server.port, 1)
        app.send(command(*FOR_EVER))
    client.ask("RPUSH", "src", "a")
    assert app.read() == A


def test_a_source_that_becomes_another_type_is_told(
    app: Connection, client: Client, server: AnyServer, direct: Client
) -> None:
    app.send(command(*FOR_EVER))
    until_blocked(server.port, 1)
    client.ask("SET", "src", "text")
    _end_waiter(direct, "KILL")
    assert app.read().startswith(b"-WRONGTYPE")
    assert app.ask("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("how", ["KILL", "UNBLOCK", "UNBLOCK ERROR"])
def test_a_worker_waits_on_when_its_waiter_is_ended(
    app: Connection, client: Client, server: AnyServer, direct: Client, how: str
) -> None:
    app.send(command(*FOR_EVER))
    until_blocked(server.port, 1)
    _end_waiter(direct, how)
    until_blocked(server.port, 1)
    client.ask("RPUSH", "src", "a")
    assert app.read() == A


def _end_waiter(direct: Client, how: str) -> None:
    listed = direct.ask("CLIENT", "LIST").decode()
    (line,) = [line for line in listed.splitlines() if "name=ttlproxy:waiter " in line]
    number = line.split("id=")[1].split()[0]
    word, *error = how.split()
    request = ("KILL", "ID", number) if word == "KILL" else (word, number, *error)
    assert direct.ask("CLIENT", *request) == 1


def test_a_stop_answers_those_who_wait(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as app:
        app.send(command(*FOR_EVER) + command(*FOR_EVER) + command("PING"))
        until_blocked(server.port, 1)
        proxy.terminate()
        assert app.read_to_end() == b"$-1\r\n$-1\r\n+PONG\r\n"
    assert proxy.wait() == 0
    assert int(info(server.port, "clients")["blocked_clients"]) == 0


def test_a_worker_waits_on_when_the_link_is_lost(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        app.send(command(*FOR_EVER))
        until_blocked(server.port, 1)
        listed = direct.ask("CLIENT", "LIST").decode()
        for line in listed.splitlines():
            if "name=ttlproxy:" in line:
                direct.ask("CLIENT", "KILL", "ID", line.split("id=")[1].split()[0])
        until_blocked(server.port, 1)
        direct.ask("RPUSH", "src", "a")
        assert app.read() == A


def test_a_kill_of_the_proxy_leaves_each_item_in_one_place(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with ExitStack() as stack:
        workers = [stack.enter_context(Connection(proxy.port)) for _ in range(10)]
        direct = stack.enter_context(Connection(server.port))
        for worker in workers:
            worker.send(command(*FOR_EVER) * 100)
        until_blocked(server.port, 1)
        for number in range(0, 500, 10):
            direct.ask("LPUSH", "src", *range(number, number + 10))
            if number == 250:
                proxy.kill()
        hold(direct, Client(server.port), "SCARD dst -> *")
        lent = direct.ask("SMEMBERS", "dst").split(b"\r\n")[2::2]
        left = direct.ask("LRANGE", "src", 0, -1).split(b"\r\n")[2::2]
    assert sorted(map(int, lent + left)) == list(range(500))
