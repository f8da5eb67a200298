"""Rules, several proxies, and kills at any point: every element is handed on exactly once."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

KILLS = 4
RULES = Keys().rules


def _produce(proxy: Proxy, name: str, stop: threading.Event, written: list[bytes]) -> None:
    """Adds new members with a deadline; `written` has those that were answered."""
    number = 0
    while not stop.is_set():
        try:
            with Connection(proxy.port) as client:
                while not stop.is_set():
                    member = b"%s:%d" % (name.encode(), number)
                    number += 1
                    key = b"s:%d" % (number % 5)
                    client.send(command("SADDEX", key, "PX", 30, "MEMBERS", 1, member))
                    if client.read() == b":1\r\n":
                        written.append(member)
        except (OSError, EOFError):
            stop.wait(0.01)  # the proxy is away


@pytest.mark.slow
@pytest.mark.parametrize("action", ["XADD late", "KEEP"])
def test_proxies_killed_at_any_point_lose_nothing_and_deliver_nothing_twice(
    start_server: StartServer, start_proxy: StartProxy, action: str
) -> None:
    server = start_server()
    proxies = [start_proxy(server.url, "--lease-ms", "300") for _ in range(2)]
    with Client(proxies[0].port) as client:
        assert client.ask("ONEXPIRE", "s:*", *action.split()) == b"OK"
    stop, written = threading.Event(), list[list[bytes]]()
    threads = []
    for number, proxy in enumerate(proxies):
        written.append([])
        arguments = (proxy, f"p{number}", stop, written[-1])
        threads.append(threading.Thread(target=_produce, args=arguments))
        threads[-1].start()
    for number in range(KILLS):
        killed = proxies[number % 2]
        enough = len(written[number % 2]) + 100
        wait_until(lambda: len(written[number % 2]) >= enough, "100 more")  # noqa: B023
        killed.kill()
        killed.start()
    stop.set()
    for thread in threads:
        thread.join()
    with Client(server.port) as direct:
        wait_until(
            lambda: direct.ask("EXISTS", *(f"s:{number}" for number in range(5))) == 0, "all gone"
        )
        if action == "KEEP":
            with Client(proxies[0].port) as client:
                taken = [client.ask("TAKE", f"s:{number}") for number in range(5)]
            delivered = [element for entries in taken for element, _, _ in entries]
        else:
            delivered = [words[5] for _, words in direct.ask("XRANGE", "late", "-", "+")]
    assert len(set(delivered)) == len(delivered), "none twice"
    assert {member for some in written for member in some} <= set(delivered), "none lost"


def test_two_takers_never_get_the_same_element(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxies = [start_proxy(server.url) for _ in range(2)]
    members = [b"%d" % number for number in range(2000)]
    with Client(proxies[0].port) as client:
        client.ask("ONEXPIRE", "s", "KEEP")
        client.ask("SADDEX", "s", "PX", 1, "MEMBERS", len(members), *members)
    taken: list[list[bytes]] = [[], []]

    def take(number: int) -> None:
        with Client(proxies[number].port) as client:
            while entries := client.ask("TAKE", "s", "COUNT", 7):
                taken[number] += [element for element, _, _ in entries]

    threads = [threading.Thread(target=take, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == sorted(members)


def test_ok_means_in_force_before_every_proxy(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Each rule names another destination; an element that falls due after OK goes there."""
    server = start_server()
    with Client(server.port) as direct:
        direct.ask("SET", "__ttl:lease", "a test", "PX", 600_000)
        proxies = [start_proxy(server.url) for _ in range(3)]
        clients = [Client(proxy.port) for proxy in proxies]
        for number in range(90):
            setter, other = clients[number % 3], clients[(number + 1) % 3]
            assert setter.ask("ONEXPIRE", "s:*", "RPUSH", f"late:{number}") == b"OK"
            other.ask("SADDEX", f"s:{number}", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: other.ask("EXISTS", f"s:{number}") == 0, "it gone")  # noqa: B023
            assert direct.ask("LLEN", f"late:{number}") == 1
        for client in clients:
            client.close()


def test_a_rule_that_is_gone_from_the_list_only_stays_known(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Clients with a right to all keys may write to the list, which no signature guards."""
    server = start_server()
    with Client(server.port) as direct, ExitStack() as stack:
        first = stack.enter_context(Client(start_proxy(server.url).port))
        assert first.ask("ONEXPIRE", "s", "RPUSH", "late") == b"OK"
        direct.ask("SET", LEASE, "a test", "PX", 600_000)
        later = stack.enter_context(Client(start_proxy(server.url).port))
        later.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "a")  # it has read the list by now
        wait_until(lambda: later.ask("EXISTS", "s") == 0, "it gone")
        direct.ask("HDEL", RULES, ":s")
        for number in (1, 2):
            assert first.ask("ONEXPIRE", "another", "RPUSH", f"other:{number}") == b"OK"
            later.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, f"b{number}")
            wait_until(lambda: later.ask("EXISTS", "s") == 0, "it gone")
        assert direct.ask("LRANGE", "late", 0, -1) == [b"a", b"b1", b"b2"]


def test_rules_outlive_redis(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server("--appendonly", "yes", "--appendfsync", "always")
    proxy = start_proxy(server.url)
    with Client(proxy.port) as client:
        client.ask("ONEXPIRE", "s", "RPUSH", "late")
        client.ask("SADDEX", "s", "PX", 300, "MEMBERS", 2, "a", "b")
    server.kill()
    server.restart()
    with Client(server.port) as direct:
        wait_until(lambda: direct.ask("LRANGE", "late", 0, -1) == [b"a", b"b"], "both delivered")
        assert direct.ask("EXISTS", "s") == 0
