"""Proxies that look up the keys that their clients name, beside others that hear of all keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.containers import AnyServer
from tests.support.deadlines import give_one_of_all
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.server_queries import calls, connections, until_quiet
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys
from ttlproxy.wire import encode

KEYS = Keys()
# Of a few proxies these hear of all keys, where nobody has said it (link/knowledge/modes.py).
FEW = 4
FAR_MS = 4_000_000_000_000
ON_DEMAND = ("--knowledge", "on-demand")
BROADCAST = ("--knowledge", "broadcast")


@pytest.fixture
def own_server(start_server: StartServer) -> AnyServer:
    """Of which proxies know no more than that each key may have deadlines."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        give_one_of_all(direct)
    return server


@pytest.fixture
def subscribers(own_server: AnyServer) -> Callable[[bytes], int]:
    """How many proxies subscribe to a channel."""

    def count(channel: bytes) -> int:
        with closing(Client(own_server.port)) as direct:
            return int(direct.ask("PUBSUB", "NUMSUB", channel)[1])

    return count


def _ask(proxy: Proxy, *words: bytes | str | int) -> object:
    with closing(Client(proxy.port)) as client:
        return client.ask(*words)


def _is_gone(direct: Client, key: str) -> bool:
    return bool(direct.ask("EXISTS", key) == 0)


@pytest.mark.slow
def test_a_few_proxies_hear_of_all_keys_and_the_others_look_them_up(
    own_server: AnyServer, start_proxy: StartProxy, subscribers: Callable[[bytes], int]
) -> None:
    proxies = [start_proxy(own_server.url) for _ in range(FEW)]
    assert (subscribers(KEYS.broadcast), subscribers(KEYS.on_demand)) == (FEW, 0)
    late = [start_proxy(own_server.url) for _ in range(2)]
    assert (subscribers(KEYS.broadcast), subscribers(KEYS.on_demand)) == (FEW, 2)
    assert _ask(late[0], "HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1
    for proxy in (*proxies, *late):
        assert _ask(proxy, "HTTLFIELD", "h", "f") in (99, 100)


def test_a_key_is_looked_up_once_as_long_as_nobody_changes_it(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    """Also one that has deadlines, and for all databases alike. The first read of one without
    deadlines is only checked."""
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    other = start_proxy(own_server.url, *ON_DEMAND)

    def looked_up() -> int:
        return calls(own_server.port, "exists")

    until_quiet(own_server.port)
    with closing(Client(proxy.port)) as client, closing(Client(other.port)) as writer:
        for key, value in (("plain", None), ("dated", b"v")):
            if value is not None:
                writer.ask("HSETEX", key, "EX", 100, "FIELDS", 1, "f", value)
            assert [client.ask("HGET", key, "f") for _ in range(2)] == [value] * 2
            before = looked_up()
            assert [client.ask("HGET", key, "f") for _ in range(10)] == [value] * 10
            assert looked_up() == before
        assert writer.ask("HSETEX", "plain", "PX", 50, "FIELDS", 1, "f", "v") == 1
        assert looked_up() > before
        wait_until(lambda: client.ask("HGET", "plain", "f") is None, "it is due")
        assert client.ask("HGET", "dated", "f") == b"v"
        client.ask("SELECT", 3)
        assert client.ask("HGET", "dated", "f") is None
        writer.ask("SELECT", 3)
        writer.ask("HSETEX", "dated", "PX", 50, "FIELDS", 1, "f", "w")
        wait_until(lambda: client.ask("HGET", "dated", "f") is None, "it is due here, too")


@pytest.mark.parametrize(("around", "databases"), [([], 1), (["MULTI", "DISCARD"], 2)])
def test_a_key_is_looked_up_where_its_client_is(
    own_server: AnyServer, start_proxy: StartProxy, around: list[str], databases: int
) -> None:
    """Where it is not known which of two databases that is, in both."""
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    with closing(Client(proxy.port)) as client:
        for words in (*around[:1], "SELECT 3", *around[1:]):
            client.ask(*words.split())
        until_quiet(own_server.port)
        before = calls(own_server.port, "exists")
        assert client.ask("SET", "k", "v") == b"OK"
        assert calls(own_server.port, "exists") == before + 2 * databases, "news, and indexes"


@pytest.mark.parametrize("carried", [("COPY", "k", "k", "DB", 1), ("MOVE", "k", 1)])
def test_deadlines_that_come_from_another_database_are_heard_of(
    own_server: AnyServer, start_proxy: StartProxy, carried: tuple[str | int, ...]
) -> None:
    """Where it was known that the key has none."""
    with closing(Client(own_server.port, 1)) as direct:
        give_one_of_all(direct)  # so nothing is new to the proxy there
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    with (
        closing(Client(own_server.port)) as first,
        closing(Client(own_server.port, 1)) as direct,
        closing(Client(proxy.port, 1)) as there,
        closing(Client(proxy.port)) as here,
    ):
        here.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m")
        wait_until(lambda: bool(first.ask("EXISTS", KEYS.lease)), "somebody reaps")
        first.ask("SET", KEYS.lease, "a test", "PX", 60_000)  # and from now on nobody by itself
        here.ask("HSET", "k", "f", "v", "g", "w")
        here.ask("HPEXPIREFIELD", "k", 500, "FIELDS", 1, "f")
        for _ in range(2):
            assert there.ask("HLEN", "k") == 0
        assert here.ask(*carried) == 1
        start_ms = direct.now_ms()
        wait_until(lambda: direct.now_ms() > start_ms + 500, "it is due")
        assert there.ask("HLEN", "k") == 1


def test_many_databases_that_redis_lacks_are_not_reaped(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    with closing(Client(proxy.port)) as client, closing(Client(own_server.port)) as direct:
        selects = [("SELECT", number) for number in range(16, 1000)]
        assert all("out of range" in str(reply) for reply in client.ask_many(selects))
        client.ask("SELECT", 0)
        before = calls(own_server.port, "zrangebyscore")
        assert client.ask("SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        wait_until(lambda: direct.ask("EXISTS", "s") == 0, "it is reaped")
        assert calls(own_server.port, "zrangebyscore") < before + 100


def test_keys_of_a_database_that_redis_lacks_have_no_deadlines(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    """A client asked for it. Its plain writes need no right to scripts, and no further look-ups."""
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    until_quiet(own_server.port)
    with closing(Client(proxy.port)) as client:
        client.ask("ACL", "SETUSER", "bob", "on", ">pw", "~b:*", "+@all", "-@scripting")
        client.ask("AUTH", "bob", "pw")
        for number in (99, 2**31):
            assert "out of range" in str(client.ask("SELECT", number))
            assert client.ask("SET", "b:s", "v") == b"OK"
        looked_up = calls(own_server.port, "exists")
        assert [client.ask("GET", "b:s") for _ in range(10)] == [b"v"] * 10
        assert calls(own_server.port, "exists") == looked_up
        client.ask("ACL", "DELUSER", "bob")


def test_whoever_leads_the_reaper_hears_of_deadlines(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    """Nobody asks for the element, and no proxy hears of all keys."""
    proxies = [start_proxy(own_server.url, *ON_DEMAND) for _ in range(3)]
    with closing(Client(own_server.port)) as direct:
        for number, proxy in enumerate(proxies):
            assert _ask(proxy, "SADDEX", f"s:{number}", "PX", 20, "MEMBERS", 1, "m") == 1
            wait_until(partial(_is_gone, direct, f"s:{number}"), "it is reaped")


def test_a_database_that_only_a_proxy_that_is_gone_has_named_is_reaped(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    """Who is left did not reap, and so has heard of no deadline there."""
    left = start_proxy(own_server.url, *ON_DEMAND)

    def names() -> list[str]:
        return [each["name"] for each in connections(own_server.port)]

    with closing(Client(own_server.port)) as direct, closing(Client(own_server.port, 7)) as there:
        direct.ask("SET", LEASE, "somebody else", "PX", 600_000)
        assert _ask(left, "SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        wait_until(lambda: "ttlproxy:deadlines" not in names(), "it leads no more")
        gone = start_proxy(own_server.url, *ON_DEMAND)
        with closing(Client(gone.port, 7)) as client:
            assert client.ask("SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        gone.kill()
        direct.ask("DEL", LEASE)
        wait_until(lambda: there.ask("EXISTS", "s") == 0, "it is gone")


def test_a_lost_connection_forgets(own_server: AnyServer, start_proxy: StartProxy) -> None:
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    with ExitStack() as stack:
        client = stack.enter_context(closing(Client(proxy.port)))
        direct = stack.enter_context(closing(Client(own_server.port)))
        until_quiet(own_server.port)
        assert [client.ask("HGET", "h", "f") for _ in range(2)] == [None] * 2
        looked_up = calls(own_server.port, "exists")
        for line in direct.ask("CLIENT", "LIST").decode().splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split())
            if fields["name"] == "ttlproxy:lookups":
                direct.ask("CLIENT", "KILL", "ID", fields["id"])
        assert client.ask("HGET", "h", "f") is None
        assert calls(own_server.port, "exists") == looked_up + 2, "of news, and of indexes"


def test_any_number_of_keys_without_deadlines_is_looked_up_by_the_same_requests(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    keys, asked = [f"k:{number}" for number in range(100)], []
    until_quiet(own_server.port)
    with closing(Client(proxy.port)) as client:
        for _ in range(3):
            before = calls(own_server.port, "exists")
            assert client.ask_many([("HGET", key, "f") for key in keys]) == [None] * 100
            asked.append(calls(own_server.port, "exists") - before)
    assert calls(own_server.port, "zcard") < 50, "each key's own deadline is not asked for"
    assert asked[0] == 1, "they are checked"
    assert 0 < asked[1] < 20, "they are looked up"
    assert asked[2] == 0, "all are known"


def test_of_many_keys_that_are_named_together_those_with_deadlines_are_found(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(own_server.url, *ON_DEMAND)
    other = start_proxy(own_server.url, *ON_DEMAND)
    with closing(Client(proxy.port)) as client, closing(Client(other.port)) as writer:
        for round_ in range(2):  # what the first one finds decides how the second one asks
            keys = [f"{round_}:{number}" for number in range(100)]
            for key in keys[::10]:
                writer.ask("HSETEX", key, "PXAT", FAR_MS, "FIELDS", 1, "f", "v")
            reads = [("HGET", key, "f") for key in keys]
            assert client.ask_many(reads).count(b"v") == 10
            client.ask_many([("HSET", key, "f", "w") for key in keys])
            assert client.ask_many([("HTTLFIELD", key, "f") for key in keys]) == [-1] * 100


def test_a_key_whose_elements_were_all_reaped_gets_new_deadlines_like_a_new_one(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    one, other = (start_proxy(own_server.url, *ON_DEMAND) for _ in range(2))
    with closing(Client(one.port)) as writer, closing(Client(other.port)) as reader:
        for number in range(3):
            writer.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", number)
        for number in range(20):
            writer.ask("HPEXPIREFIELD", "h", "f", 1)
            wait_until(lambda: reader.ask("HGET", "h", "f") is None, "it is due")
            writer.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", number)
            assert reader.ask("HSET", "h", "f", "plain") == 0
            assert reader.ask("HTTLFIELD", "h", "f") == -1, number


def test_it_is_refused_nothing_without_the_right_to_subscribe(
    own_server: AnyServer, start_proxy: StartProxy, subscribers: Callable[[bytes], int]
) -> None:
    """Nobody could see then that it looks keys up: so it hears of all of them."""
    with closing(Client(own_server.port)) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "+@all", "-subscribe")
    proxy = start_proxy(f"redis://proxy:word@127.0.0.1:{own_server.port}", *ON_DEMAND)
    assert subscribers(KEYS.on_demand) == 0
    assert _ask(proxy, "SADDEX", "s", 100, "m") == 1
    assert _ask(proxy, "STTLMEMBER", "s", "m") in (99, 100)


def _is_there(direct: Client, key: bytes) -> bool:
    return bool(direct.ask("EXISTS", key))


def test_a_pause_of_redis_holds_look_ups_and_new_families_until_it_is_over(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Also those of a client that leaves meanwhile, and what it has sent behind them."""
    server = start_server()
    proxy = start_proxy(server.url, *ON_DEMAND, *FLAGS)
    written: tuple[str | int, ...] = ("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v")
    with closing(Client(proxy.port)) as client, closing(Client(server.port)) as direct:
        for other, words, reply, value in (
            (b"a", ("HGET", "h", "f"), None, None),
            (b"b", ("HSET", "plain", "f", "v"), 1, None),
            (b"c", written, 1, b"v"),
        ):
            direct.ask("CLIENT", "PAUSE", 300, "ALL")
            with Connection(proxy.port) as leaving:
                leaving.socket.sendall(encode((b"HGET", other, b"f")))
                leaving.socket.sendall(encode((b"SADDEX", other, 100, b"m")))
            replies = client.ask_many([words, ("HGET", "h", "f")])
            assert replies == [reply, value]
            wait_until(partial(_is_there, direct, other), "what was left behind")
        admin, held = pages(proxy), "ttlproxy_hold_seconds_count"
        new = ("HSET", "hash", "f", "v")  # of the family of h
        for why, words in (("look_up", new), ("family", ("SADDEX", "elsewhere", 100, "m"))):
            before = metric(admin, held, reason=why)
            client.ask(*words)
            assert metric(admin, held, reason=why) == before + 1
