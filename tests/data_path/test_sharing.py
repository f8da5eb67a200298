"""Clients that share connections to Redis (--share-upstream): who shares, who leaves, and that each
gets its own replies. All else is tested by the other tests with TTLPROXY_TEST_SHARE=2."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import becomes, metric, pages
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.sentinels import follow
from tests.support.server_queries import having
from tests.support.servers import Proxy, release

MIB = 1 << 20
ECHO = b"$4\r\nmine\r\n"


@pytest.fixture
def sharing(sharing_proxy: Proxy, server: AnyServer) -> Iterator[list[Connection]]:
    """Four clients that share one connection."""
    with ExitStack() as ends:
        clients = [ends.enter_context(Connection(sharing_proxy.port)) for _ in range(4)]
        for client in clients:
            assert client.ask("ECHO", "mine") == ECHO
        yield clients


def _having(server: AnyServer, last: str) -> set[str]:
    """The ids of the connections whose last command was this."""
    return {each["id"] for each in having(server.port, last)}


def _shared(server: AnyServer, *clients: Connection) -> str:
    """The id of the connection that these clients share."""
    for client in clients:
        client.send(command("ECHO", "mine"))
    for client in clients:
        assert client.read() == ECHO
    (found,) = _having(server, "echo")
    return found


def test_clients_without_state_share_a_connection(
    sharing: list[Connection], server: AnyServer
) -> None:
    assert _shared(server, *sharing)


@pytest.mark.parametrize(
    ("request_", "last"),
    [
        # Which requests make state is in tests/core/test_shareable.py: here one for each reason.
        (command("MULTI"), "multi"),
        (command("BLPOP", "l", 1), "blpop"),
        (command("SUBSCRIBE", "c"), "subscribe"),
        (command("CLIENT", "SETNAME", "me") * 17, "client"),
        (command("CLIENT", "SETNAME", "me") + command("CLIENT", "ID"), "client"),
        (command("CONFIG", "SET", "maxmemory", 0), "config"),
        (command("NOSUCHCOMMAND"), "null"),
        (b"GETRANGE k 0 1\r\n", "getrange"),  # a command that the proxy never sends itself
        (b"*0\r\n" + command("GETRANGE", "k", 0, 1), "getrange"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_client_that_makes_state_gets_a_connection_of_its_own(
    sharing: list[Connection], direct: Client, request_: bytes, last: str, server: AnyServer
) -> None:
    direct.ask("LPUSH", "l", "a")
    shared = _shared(server, *sharing)
    before = _having(server, last)
    leaver, *others = sharing
    leaver.send(command("STRLEN", "k") + request_)
    assert leaver.read_many(2)[0] == b":0\r\n"
    assert len(_having(server, last) - before - {shared}) == 1
    assert _shared(server, *others) == shared


@pytest.mark.parametrize(
    "words",
    [
        ("COMMAND", "COUNT"),
        ("command", "info", "get"),
        ("CONFIG", "GET", "maxmemory"),
        ("SCRIPT", "LOAD", "return 1"),
        ("SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
        ("CLUSTER", "SLOTS"),
        ("ROLE",),
    ],
    ids=" ".join,
)
def test_requests_that_libraries_send_first_make_no_state(
    sharing: list[Connection], server: AnyServer, words: tuple[str, ...]
) -> None:
    shared = _shared(server, *sharing)
    with Connection(server.port) as plain:
        sharing[0].send(command(*words) + command("GETRANGE", "k", 0, 1))
        replies = sharing[0].read_many(2)
        if words != ("COMMAND", "COUNT"):  # ours are counted, too
            assert replies == [plain.ask(*words), b"$0\r\n\r\n"]
    assert _having(server, "getrange") == {shared}


INTRODUCTIONS = [
    ("CLIENT", "SETNAME", "me"),
    ("client", "setinfo", "lib-name", "mine"),
    ("CLIENT", "SETINFO", "LIB-VER", "1.2"),
    ("CLIENT", "SETNAME", "not allowed"),
    ("CLIENT", "SETINFO", "LIB-COLOUR", "red"),
]


def _introduced(row: bytes) -> list[bytes]:
    return re.findall(rb" (?:name|lib-name|lib-ver|db)=\S*", row)


def test_a_client_that_sets_its_name_goes_on_sharing_and_has_it_on_its_own_connection(
    sharing: list[Connection], server: AnyServer
) -> None:
    shared, (client, *_) = _shared(server, *sharing), sharing
    with Connection(server.port) as plain:
        for introduction in INTRODUCTIONS:
            assert client.ask(*introduction) == plain.ask(*introduction)
        assert _shared(server, *sharing) == shared
        client.send(b"".join(command(*words) for words in INTRODUCTIONS) + command("GET", "k"))
        assert client.read_many(len(INTRODUCTIONS) + 1)[-1] == b"$-1\r\n"
        assert _shared(server, *sharing) == shared
        for words in (("CLIENT", "GETNAME"), ("SELECT", 1)):
            assert client.ask(*words) == plain.ask(*words)
        mine, its = (_introduced(each.ask("CLIENT", "INFO")) for each in (client, plain))
        assert mine == its
        assert client.ask("CLIENT", "GETNAME") == b"$2\r\nme\r\n"
    assert _shared(server, *sharing[1:]) == shared


def test_each_client_gets_its_own_replies(sharing: list[Connection]) -> None:
    """Pipelines of all sizes, cut anywhere."""
    chance = random.Random(17)
    told = [
        [b"%d:%d:" % (who, at) + b"x" * chance.choice((0, 5, 700, 9000)) for at in range(60)]
        for who in range(len(sharing))
    ]
    streams = [b"".join(command("ECHO", value) for value in values) for values in told]
    while any(streams):
        who = chance.randrange(len(streams))
        size = chance.choice((1, 10, 200, 20_000, 100_000))
        sharing[who].send(streams[who][:size])
        streams[who] = streams[who][size:]
    for client, values in zip(sharing, told, strict=True):
        assert client.read_many(len(values)) == [b"$%d\r\n%b\r\n" % (len(v), v) for v in values]


@pytest.mark.parametrize(
    "frame", [b"*2\r\n$3\r\nGET\r\n:5\r\n", b"*2\r\n$3\r\nGET\r\n+foo\r\n", b"*nonsense\r\n"]
)
def test_a_frame_that_redis_refuses_ends_only_its_sender(
    sharing: list[Connection], frame: bytes, server: AnyServer
) -> None:
    shared = _shared(server, *sharing)
    sharing[0].send(command("GET", "k") + frame)
    assert sharing[0].read_to_end().startswith(b"$-1\r\n-ERR Protocol error")
    assert _shared(server, *sharing[1:]) == shared


def test_large_values_pass_in_both_directions(sharing: list[Connection], server: AnyServer) -> None:
    value = bytes(range(256)) * (MIB // 256)
    shared = _shared(server, *sharing)
    writer, reader, *others = sharing
    assert writer.ask("SET", "k", value) == b"+OK\r\n"  # over a connection of its own
    reader.send(command("GET", "k") * 3 + command("ECHO", "mine"))
    for other in others:
        other.send(command("ECHO", "mine"))
    assert reader.read_many(4) == [b"$%d\r\n%b\r\n" % (MIB, value)] * 3 + [ECHO]
    assert [other.read() for other in others] == [ECHO] * 2
    assert _shared(server, *others) == shared


def test_a_slow_reader_does_not_hold_up_others(
    sharing: list[Connection], direct: Client, server: AnyServer
) -> None:
    value = b"v" * MIB
    direct.ask("SET", "k", value)
    shared = _shared(server, *sharing)
    slow, *others = sharing
    # Else the kernel may take all of the replies: its buffer grows as they come.
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    slow.send(command("GET", "k") * 20)
    assert _shared(server, *others) == shared  # all of its replies have passed
    slow.send(command("LLEN", "none"))
    assert slow.read_many(20) == [b"$%d\r\n%b\r\n" % (MIB, value)] * 20
    assert slow.read() == b":0\r\n"
    assert _having(server, "llen") - {shared}  # from now on, Redis waits for it


def test_replies_to_a_client_that_has_gone_are_nobody_elses(
    sharing: list[Connection], direct: Client, server: AnyServer
) -> None:
    direct.ask("SET", "k", b"v" * MIB)
    shared = _shared(server, *sharing)
    sharing[0].send(command("GET", "k") * 10 + command("ECHO", "yours")[:9])
    sharing[0].close()
    assert _shared(server, *sharing[1:]) == shared


def test_a_lost_connection_ends_only_those_who_are_owed_replies(
    sharing: list[Connection], direct: Client, server: AnyServer
) -> None:
    shared = _shared(server, *sharing)
    direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        sharing[0].send(command("APPEND", "k", "v"))
        wait_until(lambda: shared in _having(server, "append"), "Redis has the request")
        direct.ask("CLIENT", "KILL", "ID", shared)
        assert sharing[0].read_to_end() == b""
    finally:
        direct.ask("CLIENT", "UNPAUSE")
    assert _shared(server, *sharing[1:]) != shared


def test_all_owed_replies_come_before_the_proxy_ends(
    start_proxy: StartProxy, server: AnyServer, direct: Client
) -> None:
    proxy = start_proxy(server.url, "--share-upstream", "2")
    with Connection(proxy.port) as asking, Connection(proxy.port) as idle:
        assert idle.ask("ECHO", "mine") == ECHO
        direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            asking.send(command("SETRANGE", "k", 0, "v"))
            wait_until(lambda: bool(_having(server, "setrange")), "Redis has the request")
            proxy.child.send_signal(signal.SIGTERM)
            assert idle.read_to_end() == b""
        finally:
            direct.ask("CLIENT", "UNPAUSE")
        assert asking.read_to_end() == b":1\r\n"


def test_wait_waits_for_what_was_written_before_over_the_shared_connection(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    redis, replica = start_server(), start_server()
    if release(redis.name) > (7, 0):
        pytest.skip("here WAIT does not wait for what went over another connection")
    follow(replica, redis)
    proxy = start_proxy(redis.url, "--share-upstream", "1")
    with Connection(proxy.port) as client:
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            assert client.ask("SET", "k", "v") == b"+OK\r\n"
            assert client.ask("WAIT", 1, 50) == b":0\r\n"
        finally:
            os.kill(replica.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (command("SELECT", 1), "handshake"),
        (command("WATCH", "k"), "command"),
        (command("SELECT", 1) * 17, "command"),
        (b"GETRANGE k 0 1\r\n", "form"),
        (command("SET", "k", "v" * 70_000), "form"),
    ],
    ids=["SELECT", "WATCH", "SELECT again and again", "inline", "large"],
)
def test_a_client_that_stops_sharing_is_counted_by_its_reason(
    sharing_proxy: Proxy, sharing: list[Connection], request_: bytes, reason: str
) -> None:
    admin, client = pages(sharing_proxy), sharing[0]
    series = "ttlproxy_sharing_left_total"
    before = metric(admin, series, reason=reason)
    becomes(admin, 4, "ttlproxy_sharing_clients")
    assert metric(admin, "ttlproxy_shared_connections") >= 1
    client.send(request_)
    client.read_many(request_.count(b"SELECT") or 1)
    assert metric(admin, "ttlproxy_sharing_clients") == 3
    assert client.ask("ECHO", "mine") == ECHO
    assert metric(admin, series, reason=reason) == before + 1
    assert metric(admin, "ttlproxy_sharing_clients") == 3 + (reason == "handshake")


def test_round_trips_are_measured(sharing_proxy: Proxy, sharing: list[Connection]) -> None:
    admin, trips = pages(sharing_proxy), "ttlproxy_round_trip_seconds_count"
    before = metric(admin, trips)

    def measured() -> bool:
        for client in sharing * 5:
            assert client.ask("ECHO", "mine") == ECHO
        return metric(admin, trips) >= before + 2

    wait_until(measured, "two round trips")
    for client in sharing:
        assert client.ask("SELECT", 0) == b"+OK\r\n", "they leave, each with its replies"


def test_redis_is_killed_and_comes_back(start_server: StartServer, start_proxy: StartProxy) -> None:
    redis = start_server()
    proxy = start_proxy(redis.url, "--share-upstream", "2")
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        assert one.ask("SET", "k", "v") == other.ask("SET", "k", "v") == b"+OK\r\n"
        redis.kill()
        redis.restart()
        for client in (one, other):
            assert client.read_to_end() == b""
    with Connection(proxy.port) as again:
        assert again.ask("GET", "k") == b"$-1\r\n"
