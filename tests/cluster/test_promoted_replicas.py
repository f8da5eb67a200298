"""A replica that was heard is promoted: nobody waits until its deadlines are read, and all hold.

Each test has a master of its own: of nodes 0, 1 and 2, whose replicas are nodes 3, 4 and 5.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy
from tests.support.admin_pages import FLAGS, Pages, metric, pages
from tests.support.cluster import Cluster, Node, told_by_all
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.redis_client import Client, ask_anew
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import SLOTS, slot

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(binary: Binary) -> Iterator[Cluster]:
    """Three masters with a replica each. A replica that lacks the last writes may be promoted."""
    config = ("--cluster-require-full-coverage", "no")
    with Cluster(binary, nodes=6, masters=3, config=config) as cluster:
        cluster.replicate(masters=3)
        yield cluster


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    url = f"redis://127.0.0.1:{cluster.nodes[0].port},127.0.0.1:{cluster.nodes[2].port}"
    proxy = Proxy(url, *FLAGS, "--log-level", "debug", forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def admin(proxy: Proxy) -> Pages:
    return pages(proxy)


def _keys(number: int, count: int) -> list[bytes]:
    """Keys of the master with that number."""
    names = (b"k:%d" % each for each in range(count * 9))
    return [name for name in names if slot(name) * 3 // SLOTS == number][:count]


def _masters(cluster: Cluster) -> list[Node]:
    running = (node for node in cluster.nodes if node.running)
    return [node for node in running if node.ask("ROLE")[0] == b"master"]


def _are_heard(cluster: Cluster) -> None:
    """All masters have told the proxy of each other while it heard what is announced there."""
    before = {master: _looks(master) for master in _masters(cluster)}

    def have_told() -> bool:
        return all(_looks(master) > looks + 2 for master, looks in before.items())

    wait_until(have_told, "the proxy has asked all of them again")


def _loads(admin: Pages) -> tuple[float, float]:
    """How often families were read, and how often they were known already. The old master's link
    may read them once more before it ends."""
    name = "ttlproxy_registry_loads_total"
    return metric(admin, name, how="read"), metric(admin, name, how="known")


def _is_served(proxy: Proxy, replica: Node, key: bytes) -> None:
    """Returns when the proxy sends requests for the key to the promoted replica."""
    number = replica.ask("CLUSTER", "KEYSLOT", key)
    mark = b"{%b}mark:%d" % (key, number)

    def is_served() -> bool:
        is_set = ask_anew(proxy.port, "SET", mark, 1) == b"OK"
        return is_set and bool(replica.ask("EXISTS", mark))

    try:
        wait_until(is_served, "the replica is served")
    except TimeoutError as late:
        raise TimeoutError(f"{late}\n{told_by_all(replica)}") from None


def _pair(cluster: Cluster, number: int) -> tuple[Node, Node]:
    """The master and the replica that share these slots."""
    one, other = cluster.nodes[number], cluster.nodes[number + 3]
    return (one, other) if one.ask("ROLE")[0] == b"master" else (other, one)


def _keep_reapers_away(node: Node, app: Client, key: bytes) -> bytes:
    """What is due at a master, or at its replica, is reaped for requests only; the lease's name."""
    assert app.ask("HSETEX", key, *BOUNDED, "PX", 1, "FIELDS", 1, "f", "v") == 1
    wait_until(lambda: node.ask("KEYS", "__ttl:lease*"), "a reaper has had the lease")
    (lease,) = node.ask("KEYS", "__ttl:lease*")
    assert node.ask("SET", lease, "a test", "PX", 100_000) == b"OK"
    return bytes(lease)


def _looks(node: Node) -> int:
    """How often a proxy, or all of them, have asked a node of its Cluster."""
    lines = node.ask("INFO", "commandstats").decode().splitlines()
    told = [line for line in lines if line.startswith("cmdstat_cluster")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in told)


def _passes(node: Node, after_ms: int) -> None:
    """Returns when what was due at most so long after now is past its deadline."""
    due_ms = node.client.now_ms() + after_ms
    wait_until(lambda: node.client.now_ms() > due_ms, "it is past its deadline")


def _named(node: Node, name: bytes) -> list[bytes]:
    """The ids of a node's clients with this name."""
    lines = [line.split() for line in node.ask("CLIENT", "LIST").splitlines()]
    return [line[0].removeprefix(b"id=") for line in lines if b"name=" + name in line]


def test_nobody_waits_for_deadlines_that_are_known(
    cluster: Cluster, proxy: Proxy, admin: Pages
) -> None:
    _, replica = _pair(cluster, 0)
    keys = _keys(0, 5000)
    with Client(proxy.port) as app:
        for at in range(0, len(keys), 500):
            some = keys[at : at + 500]
            app.ask_many(
                [("HSETEX", key, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v") for key in some]
            )
        _are_heard(cluster)
        assert app.ask("HSETEX", keys[0], *BOUNDED, "PX", 1500, "FIELDS", 1, "soon", "v") == 1
    before = _loads(admin)
    assert replica.ask("CONFIG", "RESETSTAT") == b"OK"
    replica.promote()
    _is_served(proxy, replica, keys[0])
    assert _loads(admin)[1] == before[1] + 1
    assert b"cmdstat_zscan:" not in replica.ask("INFO", "commandstats")
    wait_until(lambda: replica.ask("HLEN", keys[0]) == 1, "the reaper knows what falls due there")
    there = {"node": f"127.0.0.1:{replica.port}"}
    wait_until(
        lambda: metric(admin, "ttlproxy_node_managed_keys", **there) == 5000, "all are counted"
    )
    with Client(proxy.port) as app:
        assert min(app.ask_many([("HTTLFIELD", key, "f") for key in keys[:500]])) > 900
        app.ask_many([("HPEXPIREFIELD", key, 1, "FIELDS", 1, "f") for key in keys[:500]])
    gone = [0] * 500
    wait_until(
        lambda: replica.client.ask_many([("EXISTS", key) for key in keys[:500]]) == gone,
        "the reaper works there",
    )


def test_a_family_counts_when_proxies_know_it_that_have_lost_its_master(
    cluster: Cluster, proxy: Proxy, start_proxy: StartProxy
) -> None:
    """This proxy does not react. So the connection that it has for that to another master is closed
    before the family counts, and where the replica is promoted, it reads the families anew."""
    master, replica = _pair(cluster, 0)
    (first,) = _keys(0, 1)
    key = b"new-family:{%b}" % first
    assert replica.ask("READONLY") == b"OK"
    _are_heard(cluster)
    with Client(proxy.port) as app:
        assert app.ask("HSETEX", first, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v") == 1
    heard = {node: _named(node, b"ttlproxy:families") for node in _masters(cluster)}
    (lost,) = heard.pop(master)
    other = start_proxy(master.url)
    os.kill(proxy.pid, signal.SIGSTOP)
    try:
        assert master.ask("CLIENT", "KILL", "ID", lost) == 1
        with Client(other.port) as app:
            assert app.ask("HSETEX", key, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v") == 1
        assert any(
            set(ids).isdisjoint(_named(node, b"ttlproxy:families")) for node, ids in heard.items()
        )
        wait_until(lambda: replica.ask("EXISTS", key) == 1, "the replica has it")
        os.kill(other.pid, signal.SIGKILL)
        replica.promote("TAKEOVER")
    finally:
        os.kill(proxy.pid, signal.SIGCONT)
    _is_served(proxy, replica, first)
    with Client(proxy.port) as app:
        assert app.ask("HGET", first, "f") == b"v"
        assert app.ask("HSET", key, "f", "new") == 0
        assert app.ask("HTTLFIELD", key, "f") == -1


def test_what_the_replica_has_not_got_is_not_believed(
    cluster: Cluster, proxy: Proxy, admin: Pages
) -> None:
    """Keys without deadlines left, at the master, are managed and due at its replica."""
    master, replica = _pair(cluster, 1)
    first, *keys = _keys(1, 6)
    whole, part, lasting, deleted, unasked = keys
    assert replica.ask("READONLY") == b"OK"
    _are_heard(cluster)
    with Client(proxy.port) as app:
        lease = _keep_reapers_away(master, app, first)
        app.ask_many([("HSETEX", key, *BOUNDED, "PX", 300, "FIELDS", 1, "f", "v") for key in keys])
        app.ask("HSETEX", part, *BOUNDED, "EX", 1000, "FIELDS", 1, "g", "v")
        wait_until(lambda: replica.ask("HLEN", part) == 2, "the replica has them")
        for name in ("masteruser", "masterauth"):
            assert replica.ask("CONFIG", "SET", name, "nobody") == b"OK"
        assert replica.ask("CLIENT", "KILL", "TYPE", "master") == 1
        assert app.ask("HPERSISTFIELD", lasting, "FIELDS", 1, "f") == [1]
        assert app.ask("DEL", deleted) == 1
        _passes(master, 300)
        assert app.ask_many([("HGET", whole, "f"), ("HGET", part, "f")]) == [None, None]
    assert master.client.ask_many([("EXISTS", whole), ("HLEN", part)]) == [0, 1]
    looks = _looks(master)
    wait_until(lambda: _looks(master) > looks + 2, "the replica could have told that it has all")
    before = _loads(admin)
    master.kill()
    replica.promote("TAKEOVER")
    _is_served(proxy, replica, first)
    assert replica.client.ask_many([("HLEN", key) for key in keys]) == [1, 2, 1, 1, 1]
    with Client(proxy.port) as app:
        assert app.ask_many([("HGET", key, "f") for key in keys[:-1]]) == [None] * 4
        assert app.ask("HGET", part, "g") == b"v"
        assert app.ask("HTTLFIELD", part, "g") > 900
    assert _loads(admin)[1] == before[1] + 1
    assert replica.ask("DEL", lease) == 1
    wait_until(lambda: replica.ask("EXISTS", unasked) == 0, "the reaper finds what is late")


def test_what_only_the_replica_has_told_is_known(
    cluster: Cluster, proxy: Proxy, admin: Pages, start_proxy: StartProxy
) -> None:
    """The master is gone before this proxy has heard of a deadline that another proxy has set."""
    master, replica = _pair(cluster, 2)
    first, key = _keys(2, 2)
    assert replica.ask("READONLY") == b"OK"
    with Client(proxy.port) as app:
        _keep_reapers_away(master, app, first)
    _are_heard(cluster)
    before = _loads(admin)
    (pushes,) = _named(master, b"ttlproxy:pushes")
    other = start_proxy(master.url)
    os.kill(proxy.pid, signal.SIGSTOP)
    try:
        assert master.ask("CLIENT", "KILL", "ID", pushes) == 1
        with Client(other.port) as app:
            assert app.ask("HSETEX", key, *BOUNDED, "PX", 300, "FIELDS", 1, "f", "v") == 1
        wait_until(lambda: replica.ask("EXISTS", key) == 1, "the replica has it")
        master.kill()
    finally:
        os.kill(proxy.pid, signal.SIGCONT)
    replica.promote("TAKEOVER")
    _is_served(proxy, replica, first)
    _passes(replica, 300)
    assert replica.ask("HGET", key, "f") == b"v"
    assert ask_anew(proxy.port, "HGET", key, "f") is None
    assert replica.ask("EXISTS", key) == 0
    assert _loads(admin)[1] == before[1] + 1


def test_rules_of_onwrite_hold_where_the_replica_of_the_master_with_them_is_promoted(
    cluster: Cluster, proxy: Proxy, start_proxy: StartProxy
) -> None:
    _, replica = _pair(cluster, 0)
    keys = [_keys(number, 1)[0] + b":ruled" for number in (0, 1, 2)]
    by_script = next(key for key in (b"%d:ruled" % at for at in range(99)) if _is_first(key))
    with Client(proxy.port) as app:
        assert app.ask("ONWRITE", "*:ruled", "EX", 1000) == b"OK"
        assert app.ask("EVAL", "redis.call('SADD', KEYS[1], 'a')", 1, by_script) is None
    assert replica.ask("READONLY") == b"OK"
    wait_until(lambda: replica.ask("EXISTS", by_script) == 1, "the replica has all that")
    replica.promote()
    _is_served(proxy, replica, by_script)
    other = start_proxy(replica.url)
    with Client(proxy.port) as app, Client(other.port) as second:
        for number, asker in enumerate((app, second)):
            for key in keys:
                assert asker.ask("SADD", key, number) == 1
                assert asker.ask("STTLMEMBER", key, number) > 900
        wait_until(lambda: app.ask("STTLMEMBER", by_script, "a") > 900, "it is swept there")
        assert second.ask("ONWRITE", "*:ruled", "DEL") == b"OK"
        for key in keys:
            assert app.ask_many([("SADD", key, "last"), ("STTLMEMBER", key, "last")]) == [1, -1]


def _is_first(key: bytes) -> bool:
    return slot(key) * 3 // SLOTS == 0


@pytest.mark.any_server
def test_a_replica_is_read_where_two_masters_were_not_heard_at_once(
    cluster: Cluster, proxy: Proxy, admin: Pages
) -> None:
    master, replica = _pair(cluster, 0)
    (key,) = _keys(0, 1)
    _are_heard(cluster)
    before = _loads(admin)
    os.kill(proxy.pid, signal.SIGSTOP)
    try:
        other = next(each for each in _masters(cluster) if each is not master)
        (pushes,) = _named(other, b"ttlproxy:pushes")
        assert other.ask("CLIENT", "KILL", "ID", pushes) == 1
        replica.promote("TAKEOVER")
    finally:
        os.kill(proxy.pid, signal.SIGCONT)
    _is_served(proxy, replica, key)
    read, known = _loads(admin)
    assert read > before[0]
    assert known == before[1]
