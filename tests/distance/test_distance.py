"""Two proxies of one Redis, one of which is farther away: for more tries, `python -m
tests.distance`."""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.distance.__main__ import faults
from tests.distance.kinds import KINDS
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.network_path import NetworkPath
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.relay import Gate, Relay
from tests.support.requirements import absent
from tests.support.server_queries import connections, received, until_called_by_digest
from tests.support.servers import Server, moves_whole_slots
from ttlproxy.core.keys import Keys


@pytest.mark.parametrize("asks", [False, True], ids=["hearing", "asking"])
async def test_requests_after_a_reply_meet_its_effect_through_a_farther_proxy_too(
    start_server: StartServer, start_proxy: StartProxy, asks: bool
) -> None:
    server = start_server()
    with NetworkPath(server.port, delay_s=0.002) as relay:
        near, far = (
            start_proxy(url, asks=asks).port
            for url in (server.url, f"redis://127.0.0.1:{relay.port}")
        )
        for kind, steps in KINDS.items():
            assert await faults(near, far, steps, tries=20, clients=1) == [], kind


@pytest.fixture
def server(start_server: StartServer) -> AnyServer:
    return start_server()


@pytest.fixture
def direct(server: AnyServer) -> Iterator[Client]:
    with Client(server.port) as client:
        yield client


SET = command("HSETEX", "h", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "old")
INDEX = Keys().index(b"h")
ACKNOWLEDGED = ("PUBSUB", "NUMSUB", Keys().news_channel(b"f:h"))


def test_the_first_deadline_of_a_family_waits_until_all_proxies_know(
    server: AnyServer, start_proxy: StartProxy, direct: Client
) -> None:
    with (
        Gate(b"invalidate", b"!news:") as told,
        Relay(server.port, 1 << 16, on_reply=told) as relay,
        Connection(start_proxy(server.url).port) as near,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as far,
    ):
        told.arm()
        near.send(SET)
        assert told.held.wait(60)
        wait_until(lambda: direct.ask(*ACKNOWLEDGED)[1] == 1, "the near one knows")
        assert far.ask("HSET", "h", "f", "plain") == b":1\r\n"
        assert direct.ask("EXISTS", INDEX) == 0
        told.release()
        assert near.read() == b":1\r\n"
        assert direct.ask(*ACKNOWLEDGED)[1] == 2
        assert far.ask("HSET", "h", "f", "new") == b":0\r\n"
        assert near.ask("HTTLFIELD", "h", "f") == b":-1\r\n"


def test_a_write_that_was_on_its_way_before_is_done_before(
    server: AnyServer, start_proxy: StartProxy, direct: Client
) -> None:
    with (
        Gate(b"plain value") as written,
        Relay(server.port, 1 << 16, on_request=written) as relay,
        Connection(start_proxy(server.url).port) as near,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as far,
    ):
        written.arm()
        far.send(command("HSET", "h", "f", "plain value"))
        assert written.held.wait(60)
        near.send(SET)
        wait_until(lambda: direct.ask(*ACKNOWLEDGED)[1] == 1, "the near one knows")
        assert direct.ask("EXISTS", INDEX) == 0
        written.release()
        assert far.read() == b":1\r\n"
        assert near.read() == b":1\r\n"
        assert near.ask("HGET", "h", "f") == b"$3\r\nold\r\n"


def test_scripts_are_sent_as_text_until_a_flush_on_its_way_is_answered(
    server: AnyServer, start_proxy: StartProxy
) -> None:
    """Also for longer than the link needs to look at Redis many times."""
    flush = command("SCRIPT", "FLUSH")
    with (
        Gate(flush) as sent,
        Relay(server.port, 1 << 16, on_request=sent) as relay,
        Connection((proxy := start_proxy(f"redis://127.0.0.1:{relay.port}")).port) as far,
        Connection(proxy.port) as other,
    ):
        until_called_by_digest(server.port, other)
        sent.arm()
        far.send(flush)
        assert sent.held.wait(60)
        for _ in range(50):
            assert received(server.port, other, "SEXPIREMEMBER", "none", "9", "m") == [b"eval"]
        sent.release()
        assert far.read() == b"+OK\r\n"
        assert other.ask("HTTLFIELD", "h", "f") == b":-2\r\n"


def test_a_rule_counts_from_the_reply_to_exec_on(
    server: AnyServer, start_proxy: StartProxy
) -> None:
    """Also one of two in a transaction of other requests."""
    with NetworkPath(server.port, delay_s=0.05) as relay, ExitStack() as stack:
        near, far = (
            stack.enter_context(Client(start_proxy(url).port))
            for url in (server.url, f"redis://127.0.0.1:{relay.port}")
        )
        for number in range(1, 4):
            rules = [("ONWRITE", f"{name}:*", "EX", number * 100) for name in ("k", "l")]
            replies = near.ask_many([*rules, ("APPEND", "s", "x")], transaction=True)
            assert replies == [b"OK", b"OK", number]
            for name in ("k", "l"):
                assert far.ask("SADD", f"{name}:{number}", "m") == 1
                assert near.ask("STTLMEMBER", f"{name}:{number}", "m") > number * 100 - 50


@pytest.mark.parametrize("name", ["ttlproxy:pushes", "ttlproxy:families"])
def test_a_proxy_that_has_lost_its_pushes_notices_that_before_a_rule_counts(
    server: AnyServer, start_proxy: StartProxy, direct: Client, name: str
) -> None:
    """The other one has counted it before."""
    with NetworkPath(server.port, delay_s=0.05) as relay, ExitStack() as stack:
        lost = stack.enter_context(Client(start_proxy(f"redis://127.0.0.1:{relay.port}").port))
        (pushes,) = [each["id"] for each in connections(server.port) if each["name"] == name]
        near = stack.enter_context(Client(start_proxy(server.url).port))
        for number in range(3):
            assert lost.ask("SADD", f"before:{number}", "m") == 1
        assert direct.ask("CLIENT", "KILL", "ID", pushes) == 1
        assert near.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
        assert lost.ask("SADD", "k:1", "m") == 1
        assert near.ask("STTLMEMBER", "k:1", "m") in (99, 100)


def test_a_proxy_that_hangs_holds_a_first_deadline_up_for_a_while_only(
    serve: StartProxy, direct: Client
) -> None:
    near_proxy, hanging = serve(), serve()
    with Connection(near_proxy.port) as near, Connection(hanging.port) as far:
        assert far.ask("PING") == b"+PONG\r\n"
        hanging.child.send_signal(signal.SIGSTOP)
        near.send(SET)
        far.send(command("HSET", "h", "f", "new"))
        assert near.read() == b":1\r\n"
        assert "does not acknowledge which keys get deadlines" in near_proxy.stderr
        hanging.child.send_signal(signal.SIGCONT)
        assert far.read() == b":0\r\n"
        assert near.ask("HTTLFIELD", "h", "f") == b":-1\r\n"


def test_a_client_that_blocks_holds_nothing_up(serve: StartProxy, direct: Client) -> None:
    near_proxy = serve()
    with Connection(near_proxy.port) as near, Connection(serve().port) as far:
        blocked = command("BLPOP", "nothing", 0) + command("HSET", "h", "f", "new")
        far.send(command("RPUSH", "l", "a") + blocked)
        assert far.read() == b":1\r\n"
        assert near.ask("HSETEX", "h", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "old") == b":1\r\n"
        assert direct.ask("RPUSH", "nothing", "item") == 1
        assert far.read().endswith(b"item\r\n")
        assert far.read() == b":0\r\n"
        assert near.ask("HTTLFIELD", "h", "f") == b":-1\r\n"
        assert "acknowledge" not in near_proxy.stderr


def test_a_client_that_leaves_holds_nothing_up(
    server: AnyServer, start_proxy: StartProxy, direct: Client
) -> None:
    """Redis has not answered it when the family is told."""
    gate = Gate(b"plain value")
    with (
        gate,
        Relay(server.port, 1 << 16, on_request=gate) as relay,
        Connection(start_proxy(server.url).port) as near,
    ):
        far_proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        with Connection(far_proxy.port) as far:
            assert far.ask("SET", "known", "1") == b"+OK\r\n"
            gate.arm()
            far.send(command("HSET", "h", "f", "plain value"))
            assert gate.held.wait(60)
            near.send(SET)
            wait_until(lambda: direct.ask(*ACKNOWLEDGED)[1] == 1, "the near one knows")
        gate.release()
        assert near.read() == b":1\r\n"


def test_many_proxies_are_counted_where_the_server_counts_wrong(start_proxy: StartProxy) -> None:
    """Valkey 9.1.2 tells of hundreds of millions of subscribers where there are eight."""
    if (binary := moves_whole_slots()) is None:
        absent("valkey-server", "no Valkey 9 was found")
    server = Server(binary).start()
    try:
        with ExitStack() as stack, Client(server.port) as direct:
            proxies = [start_proxy(server.url) for _ in range(8)]
            near, *others = (stack.enter_context(Connection(each.port)) for each in proxies)
            assert near.ask("ZADDEX", "h", 100, 1, "m") == b":1\r\n"
            assert direct.ask("PUBLISH", ACKNOWLEDGED[2], "f:h") == len(proxies)
            for other in others:
                assert other.ask("ZADD", "h", 2, "m") == b":0\r\n"
                assert near.ask("ZTTLMEMBER", "h", "m") == b":-1\r\n"
                near.ask("ZEXPIREMEMBER", "h", "m", 100)
    finally:
        server.remove()


def test_a_transaction_from_before_is_not_carried_out_where_it_would_leave_a_deadline(
    serve: StartProxy,
) -> None:
    """Another key's may be."""
    with (
        Connection(serve().port) as near,
        Connection(serve().port) as far,
    ):
        for key, reply in (("h", b"-EXECABORT"), ("other", b"*1\r\n:1\r\n")):
            assert far.ask("MULTI") == b"+OK\r\n"
            assert far.ask("HSET", key, "f", "new") == b"+QUEUED\r\n"
            near.ask("HSETEX", "h", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "old")
            assert far.ask("EXEC").startswith(reply)
        assert far.ask("HGET", "h", "f") == b"$3\r\nold\r\n"


def test_a_client_gives_deadlines_behind_its_own_write_in_a_transaction(serve: StartProxy) -> None:
    with Connection(serve().port) as client:
        assert client.ask("MULTI") == b"+OK\r\n"
        assert client.ask("HSET", "h", "f", "1") == b"+QUEUED\r\n"
        assert client.ask("HEXPIREFIELD", "h", "f", 100) == b"+QUEUED\r\n"
        assert client.ask("EXEC") == b"*2\r\n:1\r\n:1\r\n"


@pytest.mark.parametrize("asks", [False, True])
def test_a_proxy_that_starts_knows_what_has_deadlines(serve: StartProxy, asks: bool) -> None:
    first = serve()
    with Connection(first.port) as client:
        client.ask("SELECT", 3)
        assert (
            client.ask("HSETEX", "h:1", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "old") == b":1\r\n"
        )
    first.kill()
    with Connection(serve(asks=asks).port) as client:
        client.ask("SELECT", 3)
        assert client.ask("HSET", "h:2", "f", "1") == b":1\r\n"
        assert client.ask("HSET", "h:1", "f", "new") == b":0\r\n"
        assert client.ask("HTTLFIELD", "h:1", "f") == b":-1\r\n"


def test_a_relay_keeps_the_order_of_bytes_while_its_delay_changes() -> None:
    """Else the chaos programs would find faults that no network makes."""
    sent = b"".join(b"%06d" % number for number in range(3000))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        NetworkPath(listener.getsockname()[1]) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as near,
    ):
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far, _ = listener.accept()
        with far:
            for at in range(0, len(sent), 6):
                relay.delay(0, [0.0, 0.02][at % 60 < 30])
                near.sendall(sent[at : at + 6])
            near.shutdown(socket.SHUT_WR)
            assert b"".join(iter(lambda: far.recv(65536), b"")) == sent


def test_a_path_that_ends_closes_what_it_is_accepting() -> None:
    """Else another test fails, when the collector finds that."""
    with socket.create_server(("127.0.0.1", 0)) as target, ExitStack() as clients:
        for _ in range(10):
            with NetworkPath(target.getsockname()[1]) as path:
                for _ in range(3):
                    client = clients.enter_context(socket.socket())
                    client.setblocking(False)
                    client.connect_ex(("127.0.0.1", path.port))
    gc.collect()
