"""ONWRITE in front of three masters: the rules are in one slot, and each master announces them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.conftest import StartProxy
from tests.data_path.test_differential import EXAMPLES, generated
from tests.features.test_onwrite_bounds_model import compared_with_the_bounds_model
from tests.features.test_onwrite_history import Story, follow, follow_through_troubles
from tests.features.test_onwrite_lists_model import compared_with_the_lists_model
from tests.features.test_onwrite_model import compared_with_the_model
from tests.features.test_onwrite_moves import FROM, SADD, SWEPT, tagged
from tests.operations.test_adopt import run_adopt
from tests.support.cluster import Node
from tests.support.deep import DEEP, TIMEOUT_S
from tests.support.masters import Masters, master_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

KEYS = Keys(clustered=True)
# At least one key for each of the three masters.
PARTS = ["a", "b", "c", "d"]
assert {master_of(part.encode()) for part in PARTS} == {0, 1, 2}
PUSHES = "ttlproxy:pushes"


@pytest.fixture
def client(masters: Masters) -> Iterator[Client]:
    with Client(masters.proxy.port) as client:
        yield client
        client.ask("FLUSHALL")


def _ttls(client: Client, pattern: str = "k:{%s}", element: str = "a") -> list[int]:
    """What the element of a set has left, in a key of each part; in whole hundreds, because a slow
    machine takes a while."""
    return [_hundreds(client, pattern % part, element) for part in PARTS]


def _added(client: Client, element: str) -> list[int]:
    """Adds an element to a set of each part; what it has left then."""
    for part in PARTS:
        assert client.ask("SADD", f"k:{{{part}}}", element) == 1
    return _ttls(client, element=element)


def test_rules_are_set_shown_and_removed(client: Client) -> None:
    assert client.ask("ONWRITE", "none", "DEL") == b"OK"
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    assert client.ask("ONWRITE", "k:*", "type", "SET", "px", 5000, "jitter", 5, "refresh") == b"OK"
    own = [b"k:*", b"TYPE", b"set", b"PX", b"5000", b"JITTER", b"5", b"REFRESH"]
    assert client.ask("ONWRITE", "k:*") == [b"k:*", b"EX", b"100"]
    assert client.ask("ONWRITE") == [own, [b"k:*", b"EX", b"100"]]
    assert client.ask("ONWRITE", "k:*", "TYPE", "list") is None
    assert client.ask("ONEXPIRE") == []
    assert client.ask("DBSIZE") == 0
    assert client.ask("ONWRITE", "k:*", "TYPE", "set", "DEL") == b"OK"
    assert client.ask("ONWRITE", "k:*", "DEL") == b"OK"
    assert client.ask("ONWRITE") == []
    assert _added(client, "a") == [-1] * len(PARTS)


def test_every_proxy_knows_a_rule_at_every_master_once_ok_is_there(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    other = start_proxy(masters.nodes[1].url)
    with Client(other.port) as second:
        assert _added(second, "before") == [-1] * len(PARTS)
        for number in range(1, 6):
            one, another = (client, second) if number % 2 else (second, client)
            assert one.ask("ONWRITE", "k:*", "EX", number * 100) == b"OK"
            assert _added(another, str(number)) == [number * 100] * len(PARTS)
            assert _ttls(one, element=str(number)) == [number * 100] * len(PARTS)
        assert client.ask("ONWRITE", "k:*", "DEL") == b"OK"
        assert _added(second, "after") == [-1] * len(PARTS)
        assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
        assert client.ask("FLUSHALL") == b"OK"
        assert _added(second, "flushed") == [-1] * len(PARTS)
        assert client.ask("ONWRITE") == []


def test_a_proxy_that_starts_knows_the_rules(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    with Client(start_proxy(masters.nodes[2].url).port) as second:
        assert _added(second, "a") == [100] * len(PARTS)


class Asleep:
    """A second proxy that stands still, and goes on: first with what its client has sent."""

    def __init__(self, masters: Masters, proxy: Proxy) -> None:
        self.home = masters.owner(KEYS.prefix)
        self.away = next(node for node in masters.nodes if node is not self.home)
        part = next(part for part in PARTS if masters.owner(part.encode()) is self.away)
        self.key = f"k:{{{part}}}"
        self.client = Connection(proxy.port)
        self._child = proxy.child

    def stop(self, *without: Node) -> None:
        """It loses its push connections to these masters."""
        self._child.send_signal(signal.SIGSTOP)
        self.client.send(command("PING"))
        for node in without:
            node.ask("CLIENT", "KILL", "ID", _youngest_pushes(node))

    def go_on(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def add(self, element: str) -> None:
        self.client.send(command("SADD", self.key, element))

    def replies(self) -> None:
        assert self.client.read_many(2) == [b"+PONG\r\n", b":1\r\n"]


def _youngest_pushes(node: Node) -> int:
    """The push connection of the proxy that was started last, or has connected last."""
    return max(int(each["id"]) for each in connections(node.port) if each["name"] == PUSHES)


@pytest.fixture
def asleep(masters: Masters, client: Client, start_proxy: StartProxy) -> Iterator[Asleep]:
    second = Asleep(masters, start_proxy(masters.nodes[0].url))
    assert second.client.ask("SADD", second.key, "before") == b":1\r\n"
    yield second
    second.client.close()


def _hundreds(client: Client, key: str, element: str) -> int:
    left: int = client.ask("STTLMEMBER", key, element)
    return left if left < 0 else round(left, -2)


def test_a_proxy_that_misses_an_announcement_at_home_hears_that_of_another_master(
    asleep: Asleep, client: Client
) -> None:
    asleep.stop(asleep.home)
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    asleep.add("a")
    asleep.go_on()
    asleep.replies()
    assert _hundreds(client, asleep.key, "a") == 100
    asleep.stop(asleep.home)
    assert client.ask("FLUSHALL") == b"OK"
    asleep.add("a")
    asleep.go_on()
    asleep.replies()
    assert _hundreds(client, asleep.key, "a") == -1


def test_a_proxy_that_misses_all_announcements_learns_the_version_from_each_master(
    masters: Masters, asleep: Asleep, client: Client
) -> None:
    """While the rules cannot be read, nothing is written by old ones."""
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    asleep.stop(*masters.nodes)
    assert client.ask("ONWRITE", "k:*", "EX", 200) == b"OK"
    asleep.home.child.send_signal(signal.SIGSTOP)
    try:
        before = _youngest_pushes(asleep.away)
        asleep.go_on()
        wait_until(lambda: _youngest_pushes(asleep.away) > before, "it has met the other anew")
        asleep.add("a")
    finally:
        asleep.home.child.send_signal(signal.SIGCONT)
    asleep.replies()
    assert _hundreds(client, asleep.key, "a") == 200


def test_a_proxy_that_misses_all_announcements_writes_nothing_before_it_has_met_a_master_anew(
    masters: Masters, asleep: Asleep, client: Client
) -> None:
    """It reads its client before it sees the losses, or finds them in the same turn."""
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    asleep.stop(*masters.nodes)
    assert client.ask("ONWRITE", "k:*", "EX", 200) == b"OK"
    asleep.add("a")
    asleep.go_on()
    asleep.replies()
    assert _hundreds(client, asleep.key, "a") == 200


def test_while_the_rules_cannot_be_read_old_ones_are_in_force(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    """A master that is met anew needs the master with the rules only if they have changed."""
    home = masters.owner(KEYS.prefix)
    others = [part for part in PARTS if masters.owner(part.encode()) is not home]
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    home.child.send_signal(signal.SIGSTOP)
    try:
        for number in range(2):
            for node in masters.nodes:
                if node is not home:
                    node.ask("CLIENT", "KILL", "TYPE", "normal")
                    node.ask("CLIENT", "KILL", "TYPE", "pubsub")
            with Client(masters.proxy.port) as second:
                for part in others:
                    assert second.ask("SADD", f"k:{{{part}}}", number) == 1
                    assert 0 < second.ask("STTLMEMBER", f"k:{{{part}}}", number) <= 100
    finally:
        home.child.send_signal(signal.SIGCONT)


def test_a_flush_of_the_master_with_the_rules_removes_them(
    masters: Masters, client: Client
) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    assert masters.owner(KEYS.prefix).ask("FLUSHALL") == b"OK"
    # The announcement of one master may arrive after replies of the others.
    elements = iter(range(10**6))
    wait_until(lambda: _added(client, str(next(elements))) == [-1] * len(PARTS), "it is known")
    assert client.ask("ONWRITE") == []
    assert client.ask("ONWRITE", "k:*", "EX", 200) == b"OK"
    assert _added(client, "a") == [200] * len(PARTS)


def test_a_flush_of_another_master_leaves_them(masters: Masters, client: Client) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    for node in masters.nodes:
        if node is not masters.owner(KEYS.prefix):
            assert node.ask("FLUSHALL") == b"OK"
    assert _added(client, "a") == [100] * len(PARTS)
    assert client.ask("ONWRITE", "k:*", "EX", 200) == b"OK"
    assert _added(client, "b") == [200] * len(PARTS)


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL"])
def test_a_flush_through_the_endpoint_removes_them(client: Client, flush: str) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    assert _added(client, "a") == [100] * len(PARTS)
    assert client.ask(flush) == b"OK"
    assert _added(client, "a") == [-1] * len(PARTS)


# --- writes


def test_a_pipeline_for_all_masters_gives_deadlines_in_its_own_steps(client: Client) -> None:
    """If not, a sweep would, some 200 ms later; but it would count them."""
    assert client.ask("ONWRITE", "*", "EX", 100) == b"OK"
    swept = _counted(client, b"dated_elements")
    client.ask_many([("SADD", f"k:{{{part}}}", "a", "b") for part in PARTS])
    assert _ttls(client) == _ttls(client, element="b") == [100] * len(PARTS)
    assert _counted(client, b"dated_elements") == swept


def _counted(client: Client, name: bytes) -> int:
    lines = client.ask("INFO", "ttlproxy").splitlines()
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(name + b":"))


def test_maxlen_counts_in_each_key(client: Client) -> None:
    client.ask("ONWRITE", "k:*", "EX", 100, "MAXLEN", 1)
    client.ask("ONWRITE", "e:*", "EX", 100, "MAXLEN", 1, "EVICT")
    for part in PARTS:
        assert client.ask("SADD", f"k:{{{part}}}", "a") == 1
        assert str(client.ask("SADD", f"k:{{{part}}}", "b")).startswith("TTLMAXLEN a rule of")
        client.ask("SADD", f"e:{{{part}}}", "a")
        client.ask("SADD", f"e:{{{part}}}", "b")
        assert client.ask("SMEMBERS", f"e:{{{part}}}") == [b"b"]


def test_what_the_writes_own_step_cannot_do_is_done_soon_after(
    masters: Masters, client: Client
) -> None:
    """Also after blocking commands: nothing more is asked of their masters through the proxy."""
    assert client.ask("ONWRITE", "*to", "EX", 100) == b"OK"
    asked = list[tuple[list[str], Node, bytes]]()
    for number, (line, letter, element) in enumerate(SWEPT.values()):
        tag = f"{{{PARTS[number % len(PARTS)]}}}{number}:"
        node = masters.owner(tag[1:2].encode())
        for fill in FROM:
            client.ask(*tagged(fill, tag))
        values = {"DUMP": node.ask("DUMP", f"{tag}from"), "SHA": node.ask("SCRIPT", "LOAD", SADD)}
        words = [values.get(word, word) for word in tagged(line, tag)]
        assert not isinstance(client.ask(*words), Exception), words
        noun = "ELEMENT" if letter == "L" else "MEMBER"
        target = f"{tag}to"
        asked.append(([f"{letter}TTL{noun}", target, element], node, KEYS.index(target.encode())))
    wait_until(
        lambda: all(node.ask("EXISTS", index) for _, node, index in asked), "all have deadlines"
    )
    for request, _, _ in asked:
        assert 0 < client.ask(*request) <= 100, request


def test_after_a_blocking_command_nothing_more_need_be_asked(
    masters: Masters, client: Client
) -> None:
    assert client.ask("ONWRITE", "{a}to*", "EX", 100) == b"OK"
    node = masters.owner(b"a")
    with Connection(masters.proxy.port) as app:
        app.send(command("BLMOVE", "{a}from", "{a}to", "LEFT", "LEFT", 60))
        wait_until(lambda: b"blocked_clients:1" in node.ask("INFO", "clients"), "it is blocked")
        client.ask("EVAL", "redis.call('SADD', KEYS[1], 'a')", 1, "{a}too")
        # Until then the sweep that came with the request has passed, too.
        wait_until(lambda: client.ask("STTLMEMBER", "{a}too", "a") > 0, "it has a deadline")
        client.ask("RPUSH", "{a}from", "a")
        assert app.read() == b"$1\r\na\r\n"
        wait_until(lambda: client.ask("LTTLELEMENT", "{a}to", "a") > 0, "it has a deadline")


def test_adopt_does_the_rest(masters: Masters, client: Client) -> None:
    assert _added(client, "before") == [-1] * len(PARTS)
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    assert _added(client, "a") == [100] * len(PARTS)
    url = f"redis://127.0.0.1:{masters.proxy.port}"
    done = run_adopt("--match", "k:*", "--apply", "--ex", "5000", "--proxy", url)
    assert done.returncode == 0, done.stderr
    assert _ttls(client, element="a") == [100] * len(PARTS)
    assert _ttls(client, element="before") == [5000] * len(PARTS)


@pytest.fixture
def proxies(masters: Masters, client: Client, start_proxy: StartProxy) -> Iterator[list[Client]]:
    """Two, in front of the same masters."""
    with Client(start_proxy(masters.nodes[1].url).port) as second:
        yield [client, second]


@pytest.mark.timeout(TIMEOUT_S)
def test_elements_have_the_deadlines_of_the_model(proxies: list[Client]) -> None:
    compared_with_the_model(proxies, settings(generated, max_examples=EXAMPLES // 10 or 1))


@pytest.mark.timeout(TIMEOUT_S)
def test_bounds_and_lists_are_those_of_the_models(proxies: list[Client]) -> None:
    few = settings(generated, max_examples=EXAMPLES // 40 or 1)
    compared_with_the_bounds_model(proxies, few)
    compared_with_the_lists_model(proxies, few)


@pytest.mark.slow
def test_each_element_has_the_deadline_of_a_rule_in_force(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    other = start_proxy(masters.nodes[1].url)
    follow(Story([masters.proxy.port, other.port], PARTS, is_noisy=False), client, changes=12)


@pytest.mark.skipif(not DEEP, reason="only if TTLPROXY_HYPOTHESIS is deep")
@pytest.mark.timeout(TIMEOUT_S)
def test_no_trouble_between_proxies_and_masters_changes_that(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    proxies = [masters.proxy, start_proxy(masters.nodes[1].url)]
    follow_through_troubles([node.port for node in masters.nodes], proxies, PARTS, client)
