"""Another server replaces the proxy's Redis, and no connection is lost by that alone.

A name or a virtual address moves like that: `NetworkPath` keeps relaying existing connections.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import BOUNDED
from tests.support.event_loops import both_loops
from tests.support.network_path import NetworkPath
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import LEASE
from tests.support.relay import Relay
from tests.support.server_queries import calls, connections, info, unnamed, until_blocked
from tests.support.servers import Proxy, Server

pytestmark = pytest.mark.long

TOLD = "clients are closed"


class Pair(NamedTuple):
    """A master and its replica, and a proxy that reaches one of them through the switch."""

    master: Server
    replica: Server
    switch: NetworkPath
    proxy: Proxy


def _replicate(replica: Server, master: Server) -> None:
    with Connection(replica.port) as direct:
        assert direct.ask("REPLICAOF", "127.0.0.1", master.port) == b"+OK\r\n"
    wait_until(lambda: info(replica.port, "replication").get("master_link_status") == "up", "it")


def _promote(server: Server) -> None:
    with Connection(server.port) as direct:
        assert direct.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"


@pytest.fixture
def pair(start_server: StartServer, start_proxy: StartProxy) -> Iterator[Pair]:
    master, replica = start_server(), start_server()
    _replicate(replica, master)
    with NetworkPath(master.port) as switch:
        yield Pair(master, replica, switch, start_proxy(f"redis://127.0.0.1:{switch.port}"))


def _wait_for_replica(pair: Pair) -> None:
    """Returns when the replica has all that the master has carried out by now, for any client."""
    sent = int(info(pair.master.port, "replication")["master_repl_offset"])

    def has_all() -> bool:
        return int(info(pair.replica.port, "replication")["slave_repl_offset"]) >= sent

    wait_until(has_all, "the replica to have what was written")


def _fail_over(pair: Pair) -> None:
    """Swaps master and replica; new connections go to the new master."""
    _wait_for_replica(pair)
    _promote(pair.replica)
    _replicate(pair.master, pair.replica)
    pair.switch.target = pair.replica.port


def _run_id(client: Connection) -> str:
    """Empty if the client is refused: then Redis was away for as long as clients are held."""
    found = re.search(r"run_id:(\w+)", client.ask("INFO", "server").decode())
    return found[1] if found else ""


@contextmanager
def _held(pair: Pair, *requests: tuple[object, ...]) -> Iterator[Connection]:
    with Connection(pair.proxy.port) as client:
        for words in requests:
            assert not client.ask(*map(str, words)).startswith(b"-")
        yield client


def _connected_to(pair: Pair, server: Server, proxies: int = 1) -> Connection:
    """A client that reconnects as often as necessary; so many proxies are at the server then."""
    found: list[Connection] = []

    def reaches() -> bool:
        client = Connection(pair.proxy.port)
        try:
            names = [each["name"] for each in connections(server.port)]
            here = _run_id(client) == info(server.port, "server")["run_id"]
            are_here = names.count("ttlproxy:pushes") >= proxies
            if here and are_here and client.ask("PING") == b"+PONG\r\n":
                found.append(client)
                return True
        except (OSError, EOFError):
            pass
        client.close()
        return False

    wait_until(reaches, "clients at the new master")
    return found[0]


def test_clients_of_a_master_that_is_one_no_more_are_closed(pair: Pair) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(_held(pair, ("PING",))) for _ in range(5)]
        listener = stack.enter_context(_held(pair, ("SUBSCRIBE", "c")))
        blocked = stack.enter_context(Connection(pair.proxy.port))
        blocked.send(command("BLPOP", "nothing", 0))
        until_blocked(pair.master.port, 1)
        clients[0].send(command("MULTI") + command("SET", "k", "v"))
        assert clients[0].read_many(2) == [b"+OK\r\n", b"+QUEUED\r\n"]
        _fail_over(pair)
        for client in clients:
            assert client.read_to_end() == b""
        assert b"UNBLOCKED" in blocked.read_to_end()  # Redis says so when it becomes a replica
        assert listener.read_to_end() == b""
    assert TOLD in pair.proxy.stderr
    _connected_to(pair, pair.replica).close()


def test_what_follows_from_deadlines_goes_on_at_the_new_master(pair: Pair) -> None:
    with _held(
        pair,
        ("HSETEX", "h", "PX", 1500, "FIELDS", 2, "kept", 1, "gone", 1),
        ("DEFER", "PX", 1500, "LPUSH", "l", "fired"),
    ):
        _fail_over(pair)
        with _connected_to(pair, pair.replica) as client:
            assert client.ask("HSET", "h", "kept", 2).startswith(b":")
            wait_until(lambda: client.ask("LLEN", "l") == b":1\r\n", "the deferred command")
            wait_until(lambda: client.ask("HEXISTS", "h", "gone") == b":0\r\n", "the field gone")
            assert client.ask("HGET", "h", "kept") == b"$1\r\n2\r\n"
            assert client.ask("HTTLFIELD", "h", "kept") == b":-1\r\n"
    names = {each["name"] for each in connections(pair.replica.port)}
    assert names >= {"ttlproxy:link", "ttlproxy:pushes"}


def test_rules_of_onwrite_hold_at_the_new_master_for_each_proxy(
    pair: Pair, start_proxy: StartProxy
) -> None:
    """One proxy still has a rule that was removed in between, and lacks one that was set."""
    other = pair._replace(proxy=start_proxy(f"redis://127.0.0.1:{pair.switch.port}"))
    with Connection(pair.proxy.port) as app:
        assert app.ask("ONWRITE", "kept", "EX", 100) == b"+OK\r\n"
        assert app.ask("ONWRITE", "removed", "EX", 100) == b"+OK\r\n"
    other.proxy.child.send_signal(signal.SIGSTOP)
    _fail_over(pair)
    with _connected_to(pair, pair.replica) as app:
        assert app.ask("ONWRITE", "removed", "DEL") == b"+OK\r\n"
        assert app.ask("ONWRITE", "added", "EX", 200) == b"+OK\r\n"
        other.proxy.child.send_signal(signal.SIGCONT)
        with _connected_to(other, pair.replica, proxies=2) as second:
            for client, element in ((app, "a"), (second, "b")):
                for key, ttl_s in (("kept", 100), ("removed", -1), ("added", 200)):
                    assert client.ask("SADD", key, element) == b":1\r\n"
                    assert _left(client, key, element) == ttl_s


def _left(client: Connection, key: str, element: str) -> int:
    """In whole hundreds of s."""
    left_s = int(client.ask("STTLMEMBER", key, element)[1:])
    return left_s if left_s < 0 else round(left_s, -2)


@pytest.mark.slow
def test_each_worker_sees_a_failover_itself(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    master, replica = start_server(), start_server()
    _replicate(replica, master)
    with NetworkPath(master.port) as switch:
        proxy = start_proxy(f"redis://127.0.0.1:{switch.port}", "--workers", "2")
        pair = Pair(master, replica, switch, proxy)
        with ExitStack() as stack:
            clients = [stack.enter_context(_held(pair, ("PING",))) for _ in range(4)]
            _fail_over(pair)
            for client in clients:
                assert client.read_to_end() == b""
        with _connected_to(pair, replica) as client:
            assert client.ask("HSETEX", "h", *BOUNDED, "EX", 9, "FIELDS", 1, "a", 1) == b":1\r\n"


def test_an_address_that_moves_while_the_old_master_lives(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    old, new = start_server(), start_server()
    with NetworkPath(old.port) as switch:
        proxy = start_proxy(f"redis://127.0.0.1:{switch.port}")
        pair = Pair(old, new, switch, proxy)
        with _held(pair, ("HSETEX", "h", *BOUNDED, "EX", 100, "FIELDS", 1, "a", 1)) as client:
            switch.target = new.port
            assert client.ask("PING") == b"+PONG\r\n"  # no new connection: no failover is seen
            with _connected_to(pair, new) as moved:
                assert moved.ask("HSETEX", "h", *BOUNDED, "PX", 1, "FIELDS", 1, "a", 1) == b":1\r\n"
                wait_until(lambda: moved.ask("EXISTS", "h") == b":0\r\n", "the field gone")
            assert client.read_to_end() == b""
        with Connection(old.port) as direct:
            assert direct.ask("EXISTS", "h") == b":1\r\n"
            wait_until(lambda: b"ttlproxy" not in direct.ask("CLIENT", "LIST"), "nothing of ours")


def test_sessions_end_though_the_old_server_does_not_close_their_connections(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    old, new = start_server(), start_server()
    with NetworkPath(old.port) as switch, Connection(old.port) as direct:
        assert direct.ask("SET", LEASE, "somebody else", "PX", 600_000) == b"+OK\r\n"
        proxy = start_proxy(f"redis://127.0.0.1:{switch.port}", "--connect-timeout", "0.2")
        with (
            Connection(proxy.port) as client,
            Connection(proxy.port) as held,
            Connection(proxy.port) as writes,
            Connection(proxy.port) as ends,
        ):
            assert client.ask("HSETEX", "h", *BOUNDED, "PX", 1, "FIELDS", 1, "f", "v") == b":1\r\n"
            for each in (held, writes, ends):
                assert each.ask("PING") == b"+PONG\r\n"
            assert direct.ask("BLPOP", "nothing", "0.01") == b"*-1\r\n"  # by now it is due
            switch.target = new.port
            os.kill(old.pid, signal.SIGSTOP)

            def notices() -> bool:
                Connection(proxy.port).close()  # the proxy's new connections reach the new one
                return TOLD in proxy.stderr

            try:
                client.send(command("PING"))  # it will answer that when it goes on
                held.send(command("HLEN", "h"))  # what is due would have to go before it
                writes.send(command("COPY", "h", "copy"))
                wait_until(notices, "the proxy to notice")
                ends.half_close()
                _connected_to(Pair(old, new, switch, proxy), new).close()
                assert client.read_to_end() == b""
                assert held.read_to_end() == b""
                assert writes.read_to_end() == b""
                assert ends.read_to_end() == b""
            finally:
                os.kill(old.pid, signal.SIGCONT)
            wait_until(lambda: unnamed(old.port) == 2, "only this test is connected")
            assert direct.ask("EXISTS", "copy") == b":0\r\n"
    assert TOLD in proxy.stderr
    assert not proxy.faults


def _get(client: Connection, server: Server, gets: int) -> None:
    """Returns when Redis has sent all replies to so many GETs, of which the client reads none."""
    until = calls(server.port, "get") + gets
    client.send(command("GET", "k") * gets)

    def is_sent() -> bool:
        readers = [each for each in connections(server.port) if each["cmd"] == "get"]
        waits = any({each["obl"], each["oll"], each["omem"]} != {"0"} for each in readers)
        return calls(server.port, "get") == until and not waits

    wait_until(is_sent, "all replies on their way")


@both_loops
def test_what_redis_has_sent_comes_before_the_end_however_slowly(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, master = start_server(), start_server()
    value = b"x" * (1 << 20)
    goes_on, over = threading.Event(), threading.Event()

    def pace(data: bytes) -> None:
        if value.startswith(data):
            goes_on.wait()
            over.wait(0.15)  # a slow line: there is no event to wait for

    with Relay(server.port, 1 << 16, on_reply=pace) as relay:
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        with Connection(proxy.port) as client:
            assert client.ask("SET", "k", value) == b"+OK\r\n"
            _get(client, server, 1)
            with Connection(server.port) as direct:
                direct.ask("REPLICAOF", "127.0.0.1", master.port)
            wait_until(lambda: TOLD in proxy.stderr, "the proxy to notice")
            goes_on.set()
            assert client.read_to_end() == b"$%d\r\n%b\r\n" % (len(value), value)
        over.set()
        proxy.stop()
