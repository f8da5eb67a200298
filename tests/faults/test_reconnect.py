"""The proxy loses its own connections, or a server is silent: clients only wait."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, becomes, metric, pages
from tests.support.deadlines import BOUNDED
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.relay import Gate, Relay
from tests.support.server_queries import connections, info, unnamed
from tests.support.servers import Server

pytestmark = pytest.mark.long

AWAY = b"-ERR ttlproxy has no connection to Redis, try again later\r\n"
NAMES = ("ttlproxy:link", "ttlproxy:pushes", "ttlproxy:reaps", "ttlproxy:reaper")
PATIENT = ("--hold-max", "60")


def _kill(direct: Connection, port: int, holds: Callable[[dict[str, str]], bool]) -> int:
    numbers = [each["id"] for each in connections(port) if holds(each)]
    return sum(direct.ask("CLIENT", "KILL", "ID", number) == b":1\r\n" for number in numbers)


@contextmanager
def _killing(server: Server) -> Iterator[Callable[[], int]]:
    """Kills the proxy's own connections again and again, one kind after the other; yields a
    function that returns how often."""
    killed, over = [0], threading.Event()

    def kill() -> None:
        with Connection(server.port) as direct:
            for name in cycle(NAMES):
                if over.wait(0.05):
                    return
                killed[0] += _kill(direct, server.port, lambda each: each["name"] == name)  # noqa: B023

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield lambda: killed[0]
    finally:
        over.set()
        thread.join()


def test_each_request_is_answered_while_the_proxys_own_connections_are_killed(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *PATIENT)
    with Connection(proxy.port) as client, _killing(server) as killed:
        number = 0
        while killed() < 16 or number < 30:
            number += 1
            client.ask("HSET", "h", "stays", number, "goes", number)
            assert client.ask("HPEXPIREFIELD", "h", "goes", 1) == b":1\r\n"
            assert client.ask("SET", "k", number) == b"+OK\r\n"
            wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")
    # On a slow machine no connection may live long enough: then Redis counts as away.
    assert not proxy.faults


@both_loops
def test_clients_that_come_when_an_application_has_killed_all_are_served(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    for _ in range(10):
        with Connection(server.port) as killer:
            killer.ask("CLIENT", "KILL", "SKIPME", "yes")
            with Connection(proxy.port) as client:
                assert client.ask("HSETEX", "h", "EX", 9, "FIELDS", 1, "a", 1) == b":1\r\n"
                assert client.ask("HGET", "h", "a") == b"$1\r\n1\r\n"
    assert "refused" not in proxy.stderr


@both_loops
def test_a_client_is_held_while_redis_is_away_and_served_when_it_is_back(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *PATIENT)
    server.kill()
    wait_until(lambda: "is unavailable" in proxy.stderr, "the link to notice")
    with Connection(proxy.port) as client, Connection(proxy.port) as silent:
        client.send(command("SET", "k", "v") + command("GET", "k") + command("RPUSH", "l", "a"))
        client.send(command("LEASE", "l", "lent", "EX", 100, "BLOCK", 0) * 2)  # of one item
        client.half_close()
        server.restart()
        assert client.read_to_end() == b"+OK\r\n$1\r\nv\r\n:1\r\n$1\r\na\r\n$-1\r\n"
        assert silent.ask("PING") == b"+PONG\r\n"


def test_a_held_client_is_refused_in_the_end_and_only_once(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--hold-max", "0.3", "--drain-max", "0.1")
    server.kill()
    with Connection(proxy.port) as client:
        client.send(command("PING"))
        assert client.read_to_end() == AWAY
        proxy.stop()
    assert proxy.stderr.count(" refused: ") == 1
    assert not proxy.faults


@both_loops
def test_a_held_client_counts_and_is_freed_when_it_leaves(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *PATIENT, *FLAGS, "--max-clients", "3")
    admin = pages(proxy)
    server.kill()
    wait_until(lambda: "is unavailable" in proxy.stderr, "the link to notice")
    held = [Connection(proxy.port) for _ in range(3)]
    becomes(admin, 3, "ttlproxy_connections")
    with Connection(proxy.port) as one_too_many:
        assert one_too_many.read_to_end() == b"-ERR max number of clients reached\r\n"
    for client in held:
        client.close()
    becomes(admin, 0, "ttlproxy_connections")
    server.restart()
    wait_until(lambda: metric(admin, "ttlproxy_link_up") == 1, "the link")
    wait_until(lambda: unnamed(server.port) == 1, "nobody is connected for them")


def test_a_drain_does_not_wait_for_held_clients(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *PATIENT, "--drain-max", "50")
    server.kill()
    wait_until(lambda: "is unavailable" in proxy.stderr, "the link to notice")
    with Connection(proxy.port) as client:
        client.send(command("PING"))
        proxy.terminate()
        assert client.read_to_end() == AWAY
    assert proxy.wait() == 0
    assert "cut off" not in proxy.stderr


@pytest.mark.slow
def test_a_flapping_server_fills_no_log(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *PATIENT)
    for _ in range(12):
        with Connection(proxy.port) as client:
            client.send(
                command("HSETEX", "h", "EX", 9, "FIELDS", 1, "a", 1) + command("BLPOP", "l", 0)
            )
            assert client.read() == b":1\r\n"
            server.kill()
            client.read_to_end()
        server.restart()
    log = proxy.stderr
    assert not proxy.faults
    assert "never retrieved" not in log
    assert "Unclosed" not in log
    assert len(re.findall("Redis at .* is unavailable", log)) <= 5, log  # once for each reason
    assert len(re.findall("keys? managed", log)) <= 2, log
    assert len(log.splitlines()) <= 15, log


def _heartbeats(server: Server, count: int) -> list[list[bytes]]:
    """What the proxy sends to Redis in so many heartbeats; each begins with ROLE."""
    beats: list[list[bytes]] = []
    with Connection(server.port) as monitor:
        monitor.ask("MONITOR")
        while len(beats) <= count:
            line = monitor.read()
            if b'"ROLE"' in line:
                beats.append([])
            for beat in beats[-1:]:
                beat.append(line)
    return beats[:count]


def test_an_idle_proxy_asks_redis_for_little(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Most heartbeats are small. Of ten, one looks at what seldom changes, and two or three at the
    keys that are managed, with seven lines for each and its element."""
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as client:
        for number in range(3):
            client.ask("HSETEX", f"h:{number}", *BOUNDED, "EX", 1000, "FIELDS", 1, "a", 1)
    _heartbeats(server, 3)  # the first heartbeats ask more
    beats = _heartbeats(server, 10)
    print(*(b"".join(beat).decode() for beat in beats), sep="\n")
    usual = sorted(beats, key=len)[len(beats) // 2]
    assert len(usual) <= 8
    assert sum(map(len, usual)) <= 660
    assert sum(map(len, beats)) <= len(beats) * 8 + 20 + 3 * 7 * 3


def test_no_channel_of_the_proxys_is_seen(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as client, Connection(proxy.port) as listener:
        assert client.ask("PUBSUB", "CHANNELS") == b"*0\r\n"
        assert client.ask("PUBSUB", "CHANNELS", "__ttl*") == b"*0\r\n"
        listener.ask("PSUBSCRIBE", "*")
        start_proxy(server.url)
        assert client.ask("PUBLISH", "__ttl:!proxies", "hello") == b":1\r\n"
        assert b"hello" in listener.read()
    assert int(info(server.port, "clients")["tracking_clients"]) == 2


def _let_pass(direct: Connection, milliseconds: int) -> None:
    """Returns when Redis's clock has moved on by so many ms."""

    def now_ms() -> int:
        seconds, micros = direct.ask("TIME").split(b"\r\n")[2::2]
        return int(seconds) * 1000 + int(micros) // 1000

    until_ms = now_ms() + milliseconds
    wait_until(lambda: now_ms() > until_ms, "the time to pass")


def test_a_right_that_is_lost_while_the_link_serves_ends_no_life_of_it(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "link", "on", ">word", "~*", "&*", "+@all")
        proxy = start_proxy(f"redis://link:word@127.0.0.1:{server.port}")
        direct.ask("ACL", "SETUSER", "link", "-script", "-info", "-acl")
        direct.ask("SCRIPT", "FLUSH")
        with Connection(proxy.port) as client:
            # A flush that bypasses the proxy is noticed at the next heartbeat.
            short = ("HSETEX", "h", *BOUNDED, "PX", 1, "FIELDS", 1, "a", 1)
            wait_until(lambda: client.ask(*short) == b":1\r\n", "scripts")
            refused = "Redis refuses to answer the heartbeat"
            wait_until(lambda: refused in proxy.stderr, "it is said")
            wait_until(lambda: client.ask("EXISTS", "h") == b":0\r\n", "the field gone")
            with Connection(proxy.port) as newcomer:
                assert newcomer.ask("HSETEX", "h", "EX", 9, "FIELDS", 1, "a", 1) == b":1\r\n"
    assert "is unavailable" not in proxy.stderr


@both_loops
def test_what_comes_while_the_link_is_away_goes_on_in_the_order_in_which_it_came(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, hello = start_server(), Gate(b"HELLO")
    with Relay(server.port, 1 << 16, hello) as relay:
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}", *PATIENT, *FLAGS)
        admin = pages(proxy)
        with Connection(proxy.port) as client, Connection(server.port) as direct, hello:
            assert client.ask("PING") == b"+PONG\r\n"
            hello.arm()
            (pushes,) = (each for each in connections(server.port) if "pushes" in each["name"])
            assert direct.ask("CLIENT", "KILL", "ID", pushes["id"]) == b":1\r\n"
            assert hello.held.wait(60)
            with Connection(proxy.port) as newcomer:
                for number in range(3):
                    for each, key in ((client, "old"), (newcomer, "new")):
                        each.send(command("RPUSH", key, number) + command("LLEN", key))
                    admin.get("/livez")  # the proxy has read the clients' requests
                assert direct.ask("EXISTS", "old", "new") == b":0\r\n"
                hello.release()
                for each, key in ((client, "old"), (newcomer, "new")):
                    assert each.read_many(6) == [b":%d\r\n" % n for n in (1, 1, 2, 2, 3, 3)]
                    words = [b"$1\r\n%d\r\n" % number for number in range(3)]
                    assert each.ask("LRANGE", key, 0, -1) == b"*3\r\n" + b"".join(words)


@pytest.mark.parametrize("losses", [1, 2])
def test_a_reap_that_is_lost_is_asked_for_anew(
    losses: int, start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Two losses in a row end the link's life, and sessions survive it; one loss does not."""
    server = start_server()
    left = [losses]
    with Connection(server.port) as direct:

        def cut(data: bytes) -> None:
            is_reap = b"__ttl:rules" in data and b"$3\r\ndue\r\n" in data
            if left[0] and is_reap:
                left[0] -= 1
                _kill(direct, server.port, lambda each: each["name"] == "ttlproxy:reaps")

        with Relay(server.port, 1 << 16, cut) as relay:
            proxy = start_proxy(f"redis://127.0.0.1:{relay.port}", *PATIENT)
            with Connection(server.port) as holder, Connection(proxy.port) as client:
                holder.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
                with Connection(start_proxy(server.url).port) as other:
                    for key in ("due", "told"):
                        other.ask("HSET", key, "a", 1, "b", 2)
                        other.ask("HPEXPIREFIELD", key, "a", 1)
                _let_pass(holder, 2)
                # The relay may let a request pass before an announcement.
                wait_until(lambda: client.ask("HLEN", "told") == b":1\r\n", "both are known")
                assert client.ask("HLEN", "due") == b":1\r\n"
            assert left == [0]
            assert ("is unavailable" in proxy.stderr) == (losses > 1)
