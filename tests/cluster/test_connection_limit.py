"""Three masters that allow clients few connections: all are served, and nobody loses anything."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import pytest
import redis

from tests.conftest import StartProxy
from tests.support.admin_pages import FLAGS, Pages, becomes, metric, pages
from tests.support.cluster import Node
from tests.support.masters import Masters, master_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy

MOST = 4
# Of clients' own connections: shared ones come on top.
LIMITED = (*FLAGS, "--max-redis-connections", str(MOST), "--share-upstream", "0")
REFUSED = b"-ERR ttlproxy has no free connection to this master of the Cluster, try again later\r\n"


def _key_of(number: int) -> str:
    """A key of this master."""
    return next(f"k:{at}" for at in range(99) if master_of(b"k:%d" % at) == number)


FIRST, SECOND, THIRD = map(_key_of, range(3))


@pytest.fixture(scope="module")
def bounded(shared_masters: Masters) -> Iterator[Proxy]:
    proxy = Proxy(shared_masters.nodes[0].url, *LIMITED, "--hold-max", "1", forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def proxy(masters: Masters, bounded: Proxy, admin: Pages) -> Iterator[Proxy]:
    """The proxy without clients."""
    becomes(admin, 0, "ttlproxy_connections")
    for node in masters.nodes:
        becomes(admin, 0, "ttlproxy_node_connections", node=_name(node))
    yield bounded
    assert bounded.faults == []


@pytest.fixture
def admin(bounded: Proxy) -> Pages:
    return pages(bounded)


def _name(node: Node) -> str:
    return f"127.0.0.1:{node.port}"


def _waiting(admin: Pages, node: Node, count: int) -> None:
    becomes(admin, count, "ttlproxy_node_connections_waiting", node=_name(node))


def _open(stack: ExitStack, proxy: Proxy, count: int) -> list[Connection]:
    return [stack.enter_context(Connection(proxy.port)) for _ in range(count)]


def test_clients_share_what_there_is(masters: Masters, start_proxy: StartProxy) -> None:
    """Each of 16 real clients uses all masters, in pipelines, transactions and alone. On a busy
    machine one waits for more than a second."""
    proxy = start_proxy(masters.nodes[0].url, *LIMITED)
    admin = pages(proxy)

    def use(number: int) -> int:
        with redis.Redis(port=proxy.port, protocol=2 + number % 2) as client:
            for turn in range(1, 7):
                for key in (f"{FIRST}:{{{FIRST}}}{number}", f"{{{SECOND}}}{number}"):
                    assert client.incr(key) == turn
                with client.pipeline(transaction=False) as pipeline:
                    for key in (FIRST, SECOND, THIRD):
                        pipeline.hincrby(f"{{{key}}}h", str(number), 1)
                    assert pipeline.execute() == [turn] * 3
                with client.pipeline(transaction=True) as pipeline:
                    pipeline.rpush(f"{{{THIRD}}}l{number}", turn)
                    pipeline.llen(f"{{{THIRD}}}l{number}")
                    assert pipeline.execute() == [turn, turn]
                keys = [f"{{{key}}}h" for key in (FIRST, SECOND, THIRD)]
                assert client.exists(*keys) == 3
                assert client.blpop([f"{{{SECOND}}}none"], timeout=0.01) is None
                assert client.wait(0, 10) == 0
                assert client.dbsize() > 3
            return int(client.client_id())

    with ThreadPoolExecutor(16) as pool:
        assert len(list(pool.map(use, range(16)))) == 16
    for node in masters.nodes:
        assert metric(admin, "ttlproxy_node_connections", node=_name(node)) <= MOST
        waits = metric(admin, "ttlproxy_node_connection_waits_total", node=_name(node))
        assert waits > 0


def test_no_master_ever_has_more(masters: Masters, proxy: Proxy) -> None:
    own = masters.nodes[1].ask("CLIENT", "LIST").count(b"name=ttlproxy:")
    with ExitStack() as stack:
        for client in _open(stack, proxy, 12):
            assert client.ask("INCR", SECOND).startswith(b":")
        listed = masters.nodes[1].ask("CLIENT", "LIST").splitlines()
        plain = [line for line in listed if b"name= " in line and b"cmd=incr" in line]
        assert 0 < len(plain) <= MOST
        assert own >= 1


def test_what_a_client_has_set_holds_for_its_next_connection(proxy: Proxy) -> None:
    with ExitStack() as stack:
        named = stack.enter_context(Connection(proxy.port))
        assert named.ask("HELLO", 3, "SETNAME", "shop").startswith(b"%")
        for client in _open(stack, proxy, 2 * MOST):
            client.ask("SET", SECOND, 1)
            client.ask("PING")
        assert named.ask("CLIENT", "GETNAME") == b"$4\r\nshop\r\n"
        assert named.ask("HGETALL", SECOND + ":none") == b"%0\r\n"


def test_who_holds_on_to_a_connection_keeps_it_and_others_wait_in_line(
    masters: Masters, proxy: Proxy, admin: Pages
) -> None:
    second = masters.nodes[1]
    with ExitStack() as stack:
        watching, subscribed, blocked, tracking = _open(stack, proxy, MOST)
        assert watching.ask("WATCH", SECOND) == b"+OK\r\n"
        subscribed.send(command("SSUBSCRIBE", SECOND))
        if not (confirmed := subscribed.read()).startswith(b"*3"):  # Redis 6.2 has none
            assert b"unknown command" in confirmed
            assert subscribed.ask("WATCH", SECOND) == b"+OK\r\n"
        blocked.send(command("BLPOP", f"{{{SECOND}}}list", 0))
        tracking.ask("HELLO", 3)
        assert tracking.ask("CLIENT", "TRACKING", "ON") == b"+OK\r\n"
        assert tracking.ask("GET", SECOND) == b"_\r\n"
        becomes(admin, MOST, "ttlproxy_node_connections", node=_name(second))
        first, then = _open(stack, proxy, 2)
        assert first.ask("SET", SECOND, 1) == REFUSED
        assert first.ask("SET", THIRD, 1) == b"+OK\r\n", "others are not held up"
        first.send(command("APPEND", f"{{{SECOND}}}order", "a"))
        _waiting(admin, second, 1)
        then.send(command("APPEND", f"{{{SECOND}}}order", "b"))
        _waiting(admin, second, 2)
        assert watching.ask("UNWATCH") == b"+OK\r\n"
        assert (first.read(), then.read()) == (b":1\r\n", b":2\r\n")
        with redis.Redis(port=second.port) as direct:
            direct.set(SECOND, 2)
            direct.rpush(f"{{{SECOND}}}list", "v")
        assert tracking.read().startswith(b">2\r\n$10\r\ninvalidate")
        assert blocked.read().endswith(b"$1\r\nv\r\n")


def test_two_clients_that_want_what_the_other_holds_both_go_on(
    masters: Masters, proxy: Proxy
) -> None:
    with ExitStack() as stack:
        ones, others = _open(stack, proxy, MOST), _open(stack, proxy, MOST)
        for key, clients in ((SECOND, ones), (THIRD, others)):
            for client in clients:
                assert client.ask("WATCH", key) == b"+OK\r\n"
        for client in ones:
            client.send(command("GET", THIRD))
        for client in others:
            client.send(command("GET", SECOND))
        assert [client.read() for client in (*ones, *others)] == [REFUSED] * 2 * MOST
        assert ones[0].ask("UNWATCH") == b"+OK\r\n"
        assert others[0].ask("GET", SECOND) == b"$-1\r\n"


def test_a_new_client_without_a_connection_is_refused(masters: Masters, proxy: Proxy) -> None:
    home = next(
        node for node in masters.nodes if b"ttlproxy-state" in b"".join(node.ask("KEYS", "*"))
    )
    key = _key_of(masters.nodes.index(home))
    with ExitStack() as stack:
        for client in _open(stack, proxy, MOST):
            assert client.ask("WATCH", key) == b"+OK\r\n"
        (another,) = _open(stack, proxy, 1)
        assert another.read_to_end() == REFUSED


def _connected(node: Node) -> int:
    clients: bytes = node.ask("INFO", "clients")
    return int(clients.split(b"connected_clients:")[1].split(b"\r\n")[0])


def _refuses(node: Node, used: int, most: int) -> bool:
    """Whether it takes nobody beside its `used` clients, with this `maxclients`.

    A node of a Cluster counts the connections of other nodes, too.
    """
    wait_until(lambda: _connected(node) <= used, "nobody else is connected")
    assert node.ask("CONFIG", "SET", "maxclients", most) == b"OK"
    with Connection(node.port) as another:
        return another.ask("PING") != b"+PONG\r\n"


@pytest.mark.slow
def test_a_master_with_too_many_clients_is_asked_again(
    masters: Masters, proxy: Proxy, admin: Pages
) -> None:
    second = masters.nodes[1]
    with ExitStack() as stack:
        idle, new = _open(stack, proxy, 2)
        assert idle.ask("SET", SECOND, 1) == b"+OK\r\n"
        new.ask("PING")
        before = second.ask("CONFIG", "GET", "maxclients")[1]
        used = min(_connected(second) for _ in range(99))  # others come and go
        most = next(most for most in count(used + 9, -1) if _refuses(second, used, most))
        assert most >= used
        try:
            assert new.ask("APPEND", SECOND, 2) == b":2\r\n", "it got the connection of the other"
            refused = "ttlproxy_node_connections_refused_total"
            assert metric(admin, refused, node=_name(second)) >= 1
        finally:
            assert second.ask("CONFIG", "SET", "maxclients", before) == b"OK"
        assert idle.ask("GET", SECOND) == b"$2\r\n12\r\n"
    wait_until(lambda: admin.get("/readyz").text == "ready\n", "all are served")
