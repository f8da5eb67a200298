"""SIGTERM: replies that are owed arrive complete, and then the process ends with 0."""

import os
import re
import signal
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import TOKEN, pages, with_token
from tests.support.event_loops import both_loops
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection, command, listens
from tests.support.server_queries import calls, until_blocked
from tests.support.servers import Proxy
from tests.support.worker_counts import alone_or_with

pytestmark = pytest.mark.any_server

MEGABYTE = 1 << 20
_CLOSE_WAIT = "08"  # include/net/tcp_states.h


def _slow_reader(port: int, count: int) -> Connection:
    """A client that has asked for `count` values of a megabyte and has read nothing."""
    client = Connection(port)
    client.send(command("GETRANGE", "big", 0, -1) * count)
    return client


@both_loops
def test_every_reply_owed_to_slow_readers_arrives_whole(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    value = b"x" * MEGABYTE
    with Connection(server.port) as direct:
        direct.ask("SET", "big", value)
    readers = [_slow_reader(proxy.port, 16) for _ in range(8)]
    wait_until(lambda: calls(server.port, "getrange") == 8 * 16, "all requests at Redis")
    proxy.terminate()
    wait_until(lambda: not listens(proxy.port), "nobody accepted any more")
    expected = (b"$%d\r\n" % MEGABYTE + value + b"\r\n") * 16
    for reader in readers:
        assert reader.read_to_end() == expected
        reader.close()
    assert proxy.wait() == 0


def _talk(port: int, counts: list[int], index: int) -> None:
    """SET and GET until the other end closes; every reply must be complete and right."""
    pair = b"+OK\r\n$1\r\nv\r\n"
    with Connection(port) as client, suppress(ConnectionError):
        received = b""
        while True:
            client.send(command("SET", "k", "v") + command("GET", "k"))
            while len(received) < len(pair):
                data = client.socket.recv(4096)
                if not data:
                    assert pair.startswith(received)
                    assert received in (b"", b"+OK\r\n"), "half a reply"
                    return
                received += data
            assert received == pair
            received = b""
            counts[index] += 1


@both_loops
def test_a_proxy_under_load_ends_with_nothing_half_said(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url)
    counts = [0] * 8
    threads = [
        threading.Thread(target=_talk, args=(proxy.port, counts, index)) for index in range(8)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(counts) > 20, "load on every connection")
    proxy.terminate()
    assert proxy.wait() == 0
    for thread in threads:
        thread.join()
    assert not proxy.faults


@both_loops
def test_clients_that_reset_their_connections_do_not_hold_it_up(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    reset = struct.pack("ii", 1, 0)
    for _ in range(200):
        client = Connection(proxy.port)
        client.send(command("PING") * 10 + command("QUIT"))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        client.close()
    proxy.terminate()
    assert proxy.wait() == 0
    assert not proxy.faults


def test_our_own_quit_is_not_answered_to_the_client(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with (
        Connection(proxy.port) as idle,
        Connection(proxy.port) as resp3,
        Connection(proxy.port) as subscriber,
        Connection(proxy.port) as silent,
    ):
        assert idle.ask("SET", "k", "v") == b"+OK\r\n"
        resp3.ask("HELLO", "3")
        subscriber.ask("SUBSCRIBE", "c")
        silent.send(command("CLIENT", "REPLY", "OFF") + command("SET", "done", "1"))
        with Connection(server.port) as direct:
            wait_until(lambda: direct.ask("EXISTS", "done") == b":1\r\n", "the silent client's SET")
        proxy.terminate()
        for client in (idle, resp3, subscriber, silent):
            assert client.read_to_end() == b""
    assert proxy.wait() == 0


def test_a_blocked_client_gets_its_answer_first(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as client, Connection(server.port) as direct:
        client.send(command("BLPOP", "l", "0"))
        until_blocked(server.port, 1)
        proxy.terminate()
        wait_until(lambda: not listens(proxy.port), "nobody accepted any more")
        direct.ask("RPUSH", "l", "x")
        assert client.read_to_end() == b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n"
    assert proxy.wait() == 0


def _half_closed(port: int) -> int:
    """Connections to a server that has not read their end yet: /proc, Linux only."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == _CLOSE_WAIT for row in rows)


@both_loops
def test_who_ended_while_blocked_disturbs_nobody_s_end(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as blocked, Connection(proxy.port) as silent:
        silent.send(command("CLIENT", "REPLY", "OFF") + command("RPUSH", "other", "x"))
        blocked.send(command("BLPOP", "l", "0"))
        until_blocked(server.port, 1)
        os.kill(server.pid, signal.SIGSTOP)
        others = _half_closed(server.port)
        blocked.half_close()
        wait_until(lambda: _half_closed(server.port) > others, "Redis could know that it has ended")
        proxy.terminate()
        wait_until(lambda: _half_closed(server.port) > others + 1, "the silent client is drained")
        os.kill(server.pid, signal.SIGCONT)
        assert proxy.wait() == 0
    assert not proxy.faults


def test_a_client_that_never_finishes_is_cut_off_at_the_limit(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--drain-max", "0.2")
    with Connection(proxy.port) as client:
        client.send(command("BLPOP", "l", "0"))
        until_blocked(server.port, 1)
        with Connection(proxy.port) as halfway, Connection(proxy.port) as cut:
            assert halfway.ask("MULTI") == b"+OK\r\n"
            cut.send(command("PING") + command("SET", "k", "v")[:-3])
            assert cut.read() == b"+PONG\r\n"
            proxy.terminate()
            assert proxy.wait() == 0
    logged = "3 clients are cut off, because drain_max is over: "
    (line,) = [line for line in proxy.stderr.splitlines() if logged in line]
    found = line.partition(logged)[2].split(", ")
    assert sorted(found) == ["1 blocked", "1 in a request", "1 in a transaction"]


def _fill(client: Connection) -> None:
    """Sends requests until nobody takes more."""
    requests, sent = memoryview(command("PING") * 10_000), 0
    patience_s = client.socket.gettimeout()
    client.socket.settimeout(0.5)
    with suppress(TimeoutError):
        while True:
            sent += client.socket.send(requests[sent % len(requests) :])
    client.socket.settimeout(patience_s)


@both_loops
def test_a_client_that_has_closed_is_not_waited_for_though_redis_did_not_keep_up(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The proxy reads nothing from it while Redis does not keep up, and then to its end."""
    server = start_server()
    proxy = start_proxy(server.url, "--drain-max", "3")
    with Connection(proxy.port) as client, Connection(server.port) as direct:
        number = client.ask("CLIENT", "ID")[1:-2]
        os.kill(server.pid, signal.SIGSTOP)
        _fill(client)
        direct.send(command("CLIENT", "KILL", "ID", number))
        os.kill(server.pid, signal.SIGCONT)
        assert direct.read() == b":1\r\n"
        client.read_to_end()
    proxy.terminate()
    assert proxy.wait() == 0
    assert "cut off" not in proxy.stderr


def test_it_is_told_who_is_left_and_for_how_long(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--drain-max", "1000")
    with Connection(proxy.port) as client, Connection(server.port) as direct:
        client.send(command("BLPOP", "l", "0"))
        until_blocked(server.port, 1)
        proxy.terminate()
        told = re.compile(r"stopping: 1 client is left \(1 blocked\); they have \d+ s more")
        wait_until(lambda: bool(told.search(proxy.stderr)), "it is told")
        assert direct.ask("RPUSH", "l", "a") == b":1\r\n"
        assert client.read_to_end() == b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"
    assert proxy.wait() == 0
    assert "cut off" not in proxy.stderr


def test_a_second_signal_ends_it_at_once(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy: Proxy = start_proxy(server.url, "--drain-max", "1000")
    with Connection(proxy.port) as client:
        client.send(command("BLPOP", "l", "0"))
        until_blocked(server.port, 1)
        proxy.terminate()
        wait_until(lambda: not listens(proxy.port), "nobody accepted any more")
        proxy.child.send_signal(signal.SIGTERM)
        assert proxy.wait() == 0
    assert "1 client is cut off, because a second signal came: 1 blocked" in proxy.stderr


def _stopping(proxy: Proxy) -> None:
    """Sends SIGTERM, and waits until it has arrived."""
    proxy.terminate()
    wait_until(lambda: "stopping" in proxy.stderr, "the signal has been seen")


@alone_or_with(2)
def test_new_clients_are_served_for_drain_min(
    start_server: StartServer, start_proxy: StartProxy, workers: int
) -> None:
    flags = ("--drain-min", "1000", "--workers", str(workers))
    proxy = start_proxy(start_server().url, *flags)
    with Connection(proxy.port) as old:
        assert old.ask("SET", "k", "v") == b"+OK\r\n"
        _stopping(proxy)
        for _ in range(2 * workers):
            with Connection(proxy.port) as new:
                assert new.ask("GET", "k") == b"$1\r\nv\r\n"
        assert old.ask("GET", "k") == b"$1\r\nv\r\n"
        told = re.compile(r"stopping: 1 client is connected, and served for \d+ s more")
        wait_until(lambda: bool(told.search(proxy.stderr)), "it is told for how long")
        proxy.terminate()
        assert proxy.wait() == 0
        assert old.read_to_end() == b""


@alone_or_with(2)
def test_after_drain_min_it_ends_by_itself(
    start_server: StartServer, start_proxy: StartProxy, workers: int
) -> None:
    flags = ("--drain-min", "0.1", "--workers", str(workers))
    proxy = start_proxy(start_server().url, *flags)
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        proxy.terminate()
        assert client.read_to_end() == b""
    assert proxy.wait() == 0
    assert "cut off" not in proxy.stderr


def test_sigterm_ends_a_proxy_that_waits_for_redis(start_proxy: StartProxy) -> None:
    proxy = start_proxy(f"redis://127.0.0.1:{free_port()}")
    proxy.terminate()
    assert proxy.wait() == 0


def test_a_proxy_that_drains_is_not_ready_and_the_first_signal_does_not_hurry_it(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    proxy = start_proxy(start_server().url, "--drain-min", "1000", *with_token(tmp_path))
    admin = pages(proxy)
    assert admin.get("/readyz").status == 200
    assert admin.end(TOKEN).status == 200
    admin.until("/readyz", 503)
    _stopping(proxy)
    with Connection(proxy.port) as new:
        assert new.ask("PING") == b"+PONG\r\n"
    assert admin.get("/readyz").status == 503
    assert admin.get("/livez").status == 200
    proxy.terminate()
    assert proxy.wait() == 0
