"""Nodes of a Cluster that cannot be served, or not as the URL says: each is named, and passes."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Cluster, Node, until_known
from tests.support.containers import AnyServer
from tests.support.masters import KEYS
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client, Word
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import slot
from ttlproxy.errors import REFUSED

pytestmark = [pytest.mark.any_server, pytest.mark.long]

ONE, TWO, THREE = KEYS
# Of all masters, the second is in trouble.
AT = 1
NOT_SERVED = b"-CLUSTERDOWN Hash slot not served\r\n"


@pytest.fixture(scope="module")
def nodes(binary: Binary) -> Iterator[list[Node]]:
    """Three masters, and a replica of the first."""
    with Cluster(binary, nodes=4, masters=3) as cluster:
        cluster.replicate(masters=3)
        _require_all(cluster.nodes, "no")
        yield cluster.nodes


def _drop(nodes: list[Node], number: int) -> None:
    """The slot has no master. A node that hears its master's last claim afterwards believes that
    again. So the master comes first, and each is asked until it has certainly read what was there:
    a busy node answers a request before it reads a claim that came earlier."""
    for node in (nodes[AT], *nodes):
        node.ask("CLUSTER", "DELSLOTS", number)

    def has_no_master() -> bool:
        told = [node.ask("CLUSTER", "DELSLOTS", number) for node in (*nodes, *nodes)]
        return all("already unassigned" in str(each) for each in told)

    wait_until(has_no_master, "no node believes that it has a master")


def _until_open(proxy: Proxy, *keys: bytes) -> None:
    """Before it serves a master, clients that wait for longer than hold_max are refused."""

    def is_served(key: bytes) -> bool:
        with Connection(proxy.port) as app:
            return app.ask("SET", key, 1) == b"+OK\r\n"

    wait_until(lambda: all(map(is_served, keys)), "these keys are served")


def _until_served(app: Connection, key: bytes) -> None:
    wait_until(lambda: app.ask("SET", key, 1) == b"+OK\r\n", "it is served")


def _until_logged(proxy: Proxy, words: str) -> None:
    wait_until(lambda: words in proxy.stderr, f"the log says {words!r}")


@contextmanager
def _without_master(nodes: list[Node], number: int, *, others_serve: bool) -> Iterator[None]:
    """A slot has no master. At the end it has its own again, as far as all nodes know."""
    try:
        _require_all(nodes, "no" if others_serve else "yes")
        _drop(nodes, number)
        yield
    finally:
        nodes[AT].ask("CLUSTER", "ADDSLOTS", number)
        until_known(number, nodes[AT], nodes)
        _require_all(nodes, "no")


def _require_all(nodes: list[Node], value: str) -> None:
    for node in nodes:
        assert node.ask("CONFIG", "SET", "cluster-require-full-coverage", value) == b"OK"


def _others_are_served(proxy: Proxy) -> None:
    """While requests of the second master get an error, on the same connection."""
    _until_open(proxy, TWO, THREE)
    with Connection(proxy.port) as app:
        app.send(b"".join(command("SET", key, 1) for key in (TWO, ONE, ONE, THREE)))
        assert app.read_many(4) == [b"+OK\r\n", NOT_SERVED, NOT_SERVED, b"+OK\r\n"]
        assert app.ask("DEL", TWO, ONE) == NOT_SERVED
        assert app.ask("DBSIZE") == NOT_SERVED
        assert app.ask("GET", THREE) == b"$1\r\n1\r\n"


def test_a_slot_without_a_master(nodes: list[Node], start_proxy: StartProxy) -> None:
    number = slot(ONE)
    with _without_master(nodes, number, others_serve=True):
        proxy = start_proxy(nodes[0].url, "--hold-max", "0.3")
        _until_open(proxy, TWO)
        with Connection(proxy.port) as app:
            app.send(command("SET", TWO, 1) + command("SET", ONE, 1) * 2)
            assert app.read_many(3) == [b"+OK\r\n", NOT_SERVED, NOT_SERVED]
            _until_logged(proxy, f"1 slot of the Cluster has no master ({number})")
            assert nodes[AT].ask("CLUSTER", "ADDSLOTS", number) == b"OK"
            _until_served(app, ONE)
            _until_logged(proxy, "each slot of the Cluster has a master again")


@pytest.mark.slow  # nodes tell each other once a second
def test_a_cluster_that_serves_no_key_yet(nodes: list[Node], start_proxy: StartProxy) -> None:
    """Clients may connect, and wait."""
    number = slot(ONE)
    with _without_master(nodes, number, others_serve=False):
        proxy = start_proxy(nodes[0].url, "--hold-max", "30")
        with Connection(proxy.port) as app:
            app.send(command("SET", ONE, 1))
            _until_logged(proxy, "it serves no keys yet: its Cluster is down")
            assert nodes[AT].ask("CLUSTER", "ADDSLOTS", number) == b"OK"
            assert app.read() == b"+OK\r\n"


def test_whoever_has_waited_for_a_cluster_in_vain_is_told_once(
    nodes: list[Node], start_proxy: StartProxy
) -> None:
    with _without_master(nodes, slot(ONE), others_serve=False), ExitStack() as stack:
        proxy = start_proxy(nodes[0].url, "--hold-max", "0.3")
        apps = [stack.enter_context(Connection(proxy.port)) for _ in range(20)]
        for app in apps:
            app.send(command("SET", ONE, 1) + command("MGET", TWO, THREE))
        assert [app.read_to_end() for app in apps] == [REFUSED] * 20


def test_one_node_that_refuses_the_password(nodes: list[Node], start_proxy: StartProxy) -> None:
    nodes[AT].ask("CONFIG", "SET", "requirepass", "other")
    try:
        proxy = start_proxy(nodes[0].url, "--hold-max", "0.3")
        _others_are_served(proxy)
        named = f"Redis at {nodes[AT].url} is unavailable: Redis requires a password"
        _until_logged(proxy, named)
        assert proxy.stderr.count(named) == 1
    finally:
        with Client(nodes[AT].port) as direct:
            direct.ask_many([("AUTH", "other"), ("CONFIG", "SET", "requirepass", "")])
    with Connection(proxy.port) as app:
        _until_served(app, ONE)


def test_one_node_that_takes_a_right_away(nodes: list[Node], start_proxy: StartProxy) -> None:
    proxy = start_proxy(nodes[0].url)
    with Connection(proxy.port) as app:
        _until_served(app, ONE)
        nodes[AT].ask("ACL", "SETUSER", "default", "-time")
        try:
            _until_logged(proxy, f"Redis at {nodes[AT].url} refuses to answer the heartbeat: ")
            assert app.ask("SET", TWO, 1) == b"+OK\r\n"
        finally:
            nodes[AT].ask("ACL", "SETUSER", "default", "+time")
        _until_served(app, ONE)


@contextmanager
def _announced(nodes: list[Node], **config: Word) -> Iterator[None]:
    """The second node announces itself otherwise; the others have heard it."""
    before = nodes[AT].ask("CLUSTER", "NODES").splitlines()
    (line,) = [each for each in before if b"myself" in each]
    for name, value in config.items():
        assert nodes[AT].ask("CONFIG", "SET", name.replace("_", "-"), value) == b"OK"

    own = nodes[AT].id

    def told() -> set[bytes]:
        others = [node for node in nodes if node is not nodes[AT]]
        lines = [line for node in others for line in node.ask("CLUSTER", "NODES").splitlines()]
        return {line.split(b" ")[1].partition(b"@")[0] for line in lines if line.startswith(own)}

    was = line.split(b" ")[1].partition(b"@")[0]
    try:
        wait_until(lambda: was not in told(), "the others have heard it")
        yield
    finally:
        for name, value in config.items():
            reset = 0 if isinstance(value, int) else ""
            nodes[AT].ask("CONFIG", "SET", name.replace("_", "-"), reset)
        wait_until(lambda: told() == {was}, "the others have heard it")


@pytest.mark.slow  # nodes tell each other once a second
def test_an_address_that_cannot_be_reached(nodes: list[Node], start_proxy: StartProxy) -> None:
    with _announced(nodes, cluster_announce_port=free_port()):
        proxy = start_proxy(nodes[0].url, "--hold-max", "0.3", "--connect-timeout", "0.5")
        _others_are_served(proxy)
        _until_logged(proxy, "give this address: see cluster-announce-ip")
    with Connection(proxy.port) as app:
        _until_served(app, ONE)


class _Old(socketserver.BaseRequestHandler):
    """A server of version 6.0, as far as it is asked here."""

    def handle(self) -> None:
        info = b"redis_version:6.0.16\r\nrole:master\r\nrun_id:x\r\ncluster_enabled:1\r\n"
        while data := self.request.recv(65536):
            for words in data.split(b"*")[1:]:
                is_info = b"INFO" in words
                self.request.sendall(
                    b"$%d\r\n%b\r\n" % (len(info), info) if is_info else b"+OK\r\n"
                )


@pytest.mark.slow  # nodes tell each other once a second
def test_a_node_that_is_too_old(nodes: list[Node], start_proxy: StartProxy) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Old) as old:
        old.daemon_threads = True
        thread = threading.Thread(target=old.serve_forever)
        thread.start()
        try:
            with _announced(nodes, cluster_announce_port=old.server_address[1]):
                proxy = start_proxy(nodes[0].url, "--hold-max", "0.3")
                _others_are_served(proxy)
                where = f"Redis at redis://127.0.0.1:{old.server_address[1]}"
                said = f"a master of the Cluster is not served: {where}: Redis 6.0.16 is too old"
                _until_logged(proxy, said)
                assert proxy.stderr.count(said) == 1
            with Connection(proxy.port) as app:
                _until_served(app, ONE)
        finally:
            old.shutdown()
            thread.join()


def test_a_replica_in_the_url_leads_to_the_masters(
    nodes: list[Node], start_proxy: StartProxy
) -> None:
    with Connection(start_proxy(nodes[3].url).port) as app:
        for key in KEYS:
            _until_served(app, key)


def test_a_unix_socket_in_the_url_leads_to_all_masters(
    nodes: list[Node], start_proxy: StartProxy
) -> None:
    with Connection(start_proxy(f"unix://{nodes[0].socket_path}").port) as app:
        for key in KEYS:
            _until_served(app, key)


def test_a_url_that_mixes_kinds(
    nodes: list[Node], server: AnyServer, start_proxy: StartProxy
) -> None:
    mixed, refusal = f"{server.url},127.0.0.1:{nodes[0].port}", b"-ERR ttlproxy has no connection"
    for _ in range(10):  # on a busy machine the node may say too late what it is
        proxy = start_proxy(mixed, "--hold-max", "0.3")
        with Connection(proxy.port) as app:
            if app.ask("GET", ONE).startswith(refusal):
                break
        proxy.stop()
    with Connection(proxy.port) as app:
        assert app.ask("SET", ONE, 1).startswith(refusal)
    place = f"127.0.0.1:{server.port} is a single server"
    assert f"{place}; 127.0.0.1:{nodes[0].port} is a node of a Redis Cluster" in proxy.stderr
    with Client(server.port) as direct:
        assert direct.ask("EXISTS", ONE) == 0


@pytest.mark.parametrize("is_renamed", [False, True], ids=["already", "now"])
def test_keys_on_their_way_to_a_node_that_goes_by_its_name(
    nodes: list[Node], start_proxy: StartProxy, is_renamed: bool
) -> None:
    """`is_renamed`: the proxy has met it under its address."""
    source, target, number = nodes[AT], nodes[2], slot(ONE)
    if source.ask("CONFIG", "GET", "cluster-announce-hostname") == []:
        pytest.skip("nodes have no names before 7.0")
    proxy = start_proxy(nodes[0].url, "--hold-max", "30") if is_renamed else None
    for node in nodes:
        node.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
    try:
        target.ask("CONFIG", "SET", "cluster-announce-hostname", "localhost")

        def is_known(node: Node) -> bool:
            lines = node.ask("CLUSTER", "NODES").splitlines()
            return any(b":%d@" % target.port in line and b",localhost" in line for line in lines)

        # Else the proxy goes by what each of them says.
        wait_until(lambda: all(map(is_known, nodes)), "all nodes know its name")
        proxy = proxy or start_proxy(nodes[0].url, "--hold-max", "30")
        with Connection(proxy.port) as app:
            _until_served(app, ONE)  # else its schedule is read when the slot has arrived
        source.ask("DEL", ONE)
        assert target.ask("CLUSTER", "SETSLOT", number, "IMPORTING", source.id) == b"OK"
        assert source.ask("CLUSTER", "SETSLOT", number, "MIGRATING", target.id) == b"OK"
        wait_until(lambda: str(source.ask("GET", ONE)).endswith(f" localhost:{target.port}"), "ASK")
        with Connection(proxy.port) as app:
            assert app.ask("SET", ONE, 2) == b"+OK\r\n"
        assert target.client.ask_many([("ASKING",), ("GETDEL", ONE)]) == [b"OK", b"2"]
    finally:
        for node in (source, target):
            node.ask("CLUSTER", "SETSLOT", number, "STABLE")
        for node in nodes:
            node.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")
        target.ask("CONFIG", "SET", "cluster-announce-hostname", "")
