"""Keyspace events in front of several masters: a client hears those of all, as of one Redis."""

from __future__ import annotations

import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Cluster, Node
from tests.support.masters import Masters, master_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import SLOTS, Keys, slot

# Four keys for each of the three masters; and one for each, after whose event all others have come.
KEYS = [b"k:%d" % number for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
ENDS = [b"end:1", b"end:3", b"end:0"]
assert {*map(master_of, KEYS)} == {*map(master_of, ENDS)} == {0, 1, 2}
ENDING = b"__keyspace@0__:end:*"
Told = tuple[bytes, bytes]


@pytest.fixture
def masters(masters: Masters) -> Iterator[Masters]:
    """With all events."""
    with Connection(masters.proxy.port) as app:
        assert app.ask("CONFIG", "SET", "notify-keyspace-events", "KEA") == b"+OK\r\n"
        yield masters
        assert app.ask("CONFIG", "SET", "notify-keyspace-events", "") == b"+OK\r\n"


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def listener(masters: Masters, request: pytest.FixtureRequest) -> Iterator[Connection]:
    with Connection(masters.proxy.port) as connected:
        connected.ask("HELLO", request.param)
        yield connected


def _subscribe(listener: Connection, request: str) -> None:
    name, *channels = request.split()
    listener.send(command(name, *channels) + command("PSUBSCRIBE", ENDING))
    count = 0
    while count <= len(channels):  # events may come between
        said = listener.read()
        assert not said.startswith(b"-")
        count += b"subscribe\r\n" in said


def _heard(listener: Connection, app: Connection, ends: Sequence[bytes] = ENDS) -> list[Told]:
    """The channels and messages up to now."""
    for key in ends:
        app.ask("SET", key, 1)
    found: list[Told] = []
    left = {b"__keyspace@0__:" + key for key in ends}
    while left:
        words = listener.read().split(b"\r\n")
        told = words[-4], words[-2]
        if told[0] in left and words[2].endswith(b"message") and words[4] == ENDING:
            left.discard(told[0])
        elif b"end:" not in b"".join(told) and not told[1].startswith(Keys().prefix):
            found.append(told)
    return found


@pytest.mark.parametrize(
    "request_", ["SUBSCRIBE other __keyevent@0__:set", "PSUBSCRIBE __key*t@*:set"]
)
def test_events_of_all_masters_are_heard_once_and_in_order(
    listener: Connection, app: Connection, request_: str
) -> None:
    _subscribe(listener, request_)
    for key in (*KEYS, *reversed(KEYS)):
        app.ask("SET", key, 1)
    said = _heard(listener, app)
    assert {channel for channel, _ in said} == {b"__keyevent@0__:set"}
    for number in range(3):
        own = [key for key in (*KEYS, *reversed(KEYS)) if master_of(key) == number]
        assert [key for _, key in said if master_of(key) == number] == own


def test_events_of_elements_are_in_order_with_those_of_their_keys(
    listener: Connection, app: Connection
) -> None:
    _subscribe(listener, "PSUBSCRIBE __keyspace@0__:k:*")
    for key in KEYS:
        assert app.ask("SADDEX", key, 1000, "a", "b") == b":2\r\n"
        assert app.ask("SPEXPIREMEMBER", key, "a", 1) == b":1\r\n"
    for key in KEYS:
        wait_until(lambda key=key: app.ask("SCARD", key) == b":1\r\n", "it has expired")  # type: ignore[misc]
        assert app.ask("SPERSISTMEMBER", key, "b") == b":1\r\n"
    said = _heard(listener, app)
    for key in KEYS:
        events = [event for channel, event in said if channel.endswith(b":" + key)]
        assert events == [b"sadd", *[b"sexpire"] * 2, b"sexpired", b"srem", b"spersist"]


def test_a_pattern_that_matches_all_brings_ordinary_messages_once(
    listener: Connection, app: Connection
) -> None:
    _subscribe(listener, "PSUBSCRIBE *")
    for key in KEYS:
        app.ask("SET", key, 1)
        app.ask("PUBLISH", "news", key)
    said = _heard(listener, app)
    assert sorted(key for channel, key in said if channel == b"news") == sorted(KEYS)
    sets = [key for channel, key in said if channel == b"__keyevent@0__:set"]
    assert sorted(sets) == sorted(KEYS)


def test_a_client_that_unsubscribes_hears_no_more_events(
    listener: Connection, app: Connection
) -> None:
    _subscribe(listener, "SUBSCRIBE news __keyevent@0__:set")
    assert listener.ask("UNSUBSCRIBE", "__keyevent@0__:set").endswith(b":2\r\n")
    for key in KEYS:
        app.ask("SET", key, 1)
        app.ask("PUBLISH", "news", key)
    said = _heard(listener, app)
    assert sorted(said) == sorted((b"news", key) for key in KEYS)
    assert listener.ask("PUNSUBSCRIBE").endswith(b":1\r\n")
    assert listener.ask("UNSUBSCRIBE").endswith(b":0\r\n")
    for key in KEYS:
        assert listener.ask("GET", key) == b"$1\r\n1\r\n"


def test_a_subscription_that_is_refused_leaves_the_others(
    masters: Masters, app: Connection
) -> None:
    for node in masters.nodes:
        node.ask("ACL", "SETUSER", "eve", "on", ">w", "~*", "+@all", "resetchannels")
        node.ask("ACL", "SETUSER", "eve", b"&" + ENDING, "&__keyevent@0__:set")
    with Connection(masters.proxy.port) as listener:
        listener.ask("HELLO", 3, "AUTH", "eve", "w")
        assert listener.ask("SUBSCRIBE", "__keyevent@0__:del").startswith(b"-NOPERM")
        _subscribe(listener, "SUBSCRIBE __keyevent@0__:set")
        assert listener.ask("SUBSCRIBE", "__keyevent@0__:del").startswith(b"-NOPERM")
        for key in KEYS:
            app.ask("SET", key, 1)
            app.ask("DEL", key)
        assert sorted(_heard(listener, app)) == sorted((b"__keyevent@0__:set", key) for key in KEYS)
    for node in masters.nodes:
        node.ask("ACL", "DELUSER", "eve")


def test_at_the_port_of_a_node_its_events_are_heard_as_at_any_node(
    masters: Masters, view: Proxy, app: Connection
) -> None:
    """A client that knows Clusters subscribes at each."""
    for number in range(3):
        with Connection(view.port + 1 + number) as listener:
            listener.ask("HELLO", 3)
            _subscribe(listener, "PSUBSCRIBE __keyevent@0__:s*")
            for key in KEYS:
                app.ask("DEL", key)
                app.ask("SADDEX", key, 1000, "a")
            said = _heard(listener, app, [end for end in ENDS if master_of(end) == number])
        own = [key for key in KEYS if master_of(key) == number]
        kinds = (b"sadd", b"sexpire")
        expected = [(b"__keyevent@0__:" + kind, key) for key in own for kind in kinds]
        assert [told for told in said if told[1] in KEYS] == expected


def test_events_go_on_where_a_slot_has_gone(
    masters: Masters, listener: Connection, app: Connection
) -> None:
    key = KEYS[0]
    source = masters.owner(key)
    target = masters.nodes[(master_of(key) + 1) % 3]
    _subscribe(listener, "PSUBSCRIBE __keyspace@0__:k:*")
    # What a script publishes comes to the other nodes a moment later: before the slot does, here.
    with Connection(target.port) as there:
        there.ask("SUBSCRIBE", b"__keyspace@0__:" + key)
        assert app.ask("SADDEX", key, 1000, "a") == b":1\r\n"
        assert there.read().endswith(b"sexpire\r\n")
    masters.move(slot(key), source, target)
    assert app.ask("SPERSISTMEMBER", key, "a") == b":1\r\n"
    assert app.ask("SADD", key, "b") == b":1\r\n"
    said = [event for _, event in _heard(listener, app)]
    masters.move(slot(key), target, source)
    assert [event for event in said if event not in (b"del", b"restore")] == [
        *(b"sadd", b"sexpire", b"spersist", b"sadd")
    ]


def _until_served(proxy: Proxy, masters: int) -> None:
    """A listener that is there before is closed when one more is served."""
    wait_until(lambda: proxy.stderr.count(" keys managed") == masters, "all masters are served")


def test_a_listener_connects_anew_when_there_is_another_master(
    binary: Binary, start_proxy: StartProxy
) -> None:
    """It would miss the events of that one."""
    with Cluster(binary, nodes=3, masters=2) as cluster:
        proxy = start_proxy(cluster.nodes[0].url)
        _until_served(proxy, 2)
        with Connection(proxy.port) as listener, Connection(proxy.port) as other:
            listener.ask("PSUBSCRIBE", "__keyspace@0__:*")
            other.ask("PSUBSCRIBE", "news*")
            cluster.move(0, cluster.nodes[0], cluster.nodes[2])
            assert listener.read_to_end() == b""
            assert other.ask("PING").startswith(b"*2")
        with Connection(proxy.port) as listener:
            assert b"psubscribe" in listener.ask("PSUBSCRIBE", "__keyspace@0__:*")
            wait_until(lambda: b"psub=1" in cluster.nodes[2].ask("CLIENT", "LIST"), "it listens")


def _listens(node: Node) -> bool:
    return b"psub=1" in node.ask("CLIENT", "LIST")


def _is_open(client: Connection) -> bool:
    readable, _, _ = select.select([client.socket], [], [], 0)
    return not readable


def _subscribe_anew(proxy: Proxy, node: Node) -> None:
    with Connection(proxy.port) as listener:
        assert b"psubscribe" in listener.ask("PSUBSCRIBE", "__keyspace@0__:*")
        wait_until(lambda: _listens(node), "it listens")


def test_a_listener_hears_a_master_that_is_served_while_it_subscribes(
    binary: Binary, start_proxy: StartProxy
) -> None:
    with Cluster(binary, nodes=3, masters=2) as cluster:
        home, slow, new = cluster.nodes
        assert slot(Keys().prefix) < SLOTS // 2, "the first node is the home of clients"
        proxy = start_proxy(home.url)
        _until_served(proxy, 2)
        with Connection(proxy.port) as listener:
            assert listener.ask("PING") == b"+PONG\r\n"
            slow.child.send_signal(signal.SIGSTOP)
            try:
                listener.send(command("PSUBSCRIBE", "__keyspace@0__:*"))
                for node in (new, home):
                    assert node.ask("CLUSTER", "SETSLOT", 0, "NODE", new.id) == b"OK"
                _until_served(proxy, 3)
            finally:
                slow.child.send_signal(signal.SIGCONT)
            with suppress(EOFError):
                assert b"psubscribe" in listener.read()
            wait_until(lambda: _listens(new) or not _is_open(listener), "it listens, or is ended")
            if not _listens(new):  # the master came too late: it may have missed something
                _subscribe_anew(proxy, new)
