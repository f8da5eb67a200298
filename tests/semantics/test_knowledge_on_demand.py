"""Proxies that ask Redis at each request, beside others that hear of all deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from tests.conftest import StartProxy, StartServer
from tests.semantics.conftest import two_proxies
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED, give_one_of_all, until_past
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client, Word
from tests.support.redis_content import LEASE
from tests.support.server_queries import calls, connections, until_called_by_digest
from tests.support.servers import Binary, Proxy
from ttlproxy.core.keys import Keys
from ttlproxy.wire import encode

KEYS = Keys()
# Of a few proxies these hear of all deadlines, where nobody has said it
# (link/knowledge/announcements.py).
FEW = 4
FAR_MS = 4_000_000_000_000


@pytest.fixture
def own_server(start_server: StartServer) -> AnyServer:
    """Of which proxies know no more than that each key may have deadlines."""
    server = start_server()
    with Client(server.port) as direct:
        give_one_of_all(direct)
    return server


@pytest.fixture(scope="module")
def shared_ports(binary: Binary) -> Iterator[list[int]]:
    with two_proxies(binary, asks=True, before=give_one_of_all) as ports:
        yield ports


@pytest.fixture
def ports(shared_ports: list[int]) -> list[int]:
    """Of two proxies that ask, and of their Redis, which is as `own_server`. Tests share them."""
    with Client(shared_ports[2]) as direct:
        direct.ask("FLUSHALL")
        give_one_of_all(direct)
    return shared_ports


@pytest.fixture
def subscribers(own_server: AnyServer) -> Callable[[bytes], int]:
    """How many proxies subscribe to a channel."""

    def count(channel: bytes) -> int:
        with Client(own_server.port) as direct:
            return int(direct.ask("PUBSUB", "NUMSUB", channel)[1])

    return count


def _ask(proxy: Proxy, *words: bytes | str | int) -> object:
    with Client(proxy.port) as client:
        return client.ask(*words)


def _is_gone(direct: Client, key: str) -> bool:
    return bool(direct.ask("EXISTS", key) == 0)


def test_a_few_proxies_hear_of_all_deadlines_and_the_others_ask(
    own_server: AnyServer, start_proxy: StartProxy, subscribers: Callable[[bytes], int]
) -> None:
    proxies = [start_proxy(own_server.url) for _ in range(FEW)]
    assert (subscribers(KEYS.broadcast), subscribers(KEYS.on_demand)) == (FEW, 0)
    late = [start_proxy(own_server.url) for _ in range(2)]
    assert (subscribers(KEYS.broadcast), subscribers(KEYS.on_demand)) == (FEW, 2)
    assert _ask(late[0], "HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1
    for proxy in (*proxies, *late):
        assert _ask(proxy, "HTTLFIELD", "h", "f") in (99, 100)


@pytest.mark.parametrize(
    ("setter", "told", "write", "read", "value"),
    [
        (
            ("HSETEX", "{}", "EX", 100, "FIELDS", 1, "f", "v"),
            (1, 1),
            ("HSET", "{}", "f", "w"),
            ("HGET", "{}", "f"),
            b"w",
        ),
        (("SADDEX", "{}", 100, "m"), (1, 0), ("SADD", "{}", "m"), ("SISMEMBER", "{}", "m"), 1),
    ],
    ids=["hash", "set"],
)
def test_keys_without_anything_due_cost_no_round_trip_more(
    own_server: AnyServer,
    start_proxy: StartProxy,
    setter: Sequence[Word],
    told: Sequence[int],
    write: Sequence[Word],
    read: Sequence[Word],
    value: bytes | int,
) -> None:
    """Neither reads of any number, nor writes that are one call, also where deadlines are; in any
    database."""
    with Client(own_server.port) as direct:
        if setter[0] == "HSETEX" and direct.ask("COMMAND", "INFO", "HSETEX") != [None]:
            pytest.skip("this server keeps deadlines of hash fields itself")
    proxy = start_proxy(own_server.url, *FLAGS, asks=True)
    admin = pages(proxy)

    def on_each(words: Sequence[Word]) -> list[Sequence[Word]]:
        return [[f"k:{number}" if w == "{}" else w for w in words] for number in range(64)]

    def waited() -> float:
        return metric(admin, "ttlproxy_holds_total")

    with Client(proxy.port) as client, Connection(proxy.port) as caller:
        client.ask("SADDEX", "first", 100, "m")
        until_called_by_digest(own_server.port, caller)
        for db in (0, 3):
            client.ask("SELECT", db)
            before = waited()
            for reply in told:
                assert client.ask_many(on_each(setter)) == [reply] * 64
                assert client.ask_many(on_each(write)) == [0] * 64
                assert client.ask_many(on_each(read)) == [value] * 64
            assert waited() == before


def test_what_one_client_gives_a_deadline_another_never_sees_after_it(
    ports: list[int],
) -> None:
    """In any database, also for keys that it has read before."""
    with Connection(ports[0]) as reader, Connection(ports[1]) as writer:
        for number in range(20):
            db, key = number % 3, f"h:{number % 4}"
            for each in (reader, writer):
                each.ask("SELECT", db)
            reader.ask("HGET", key, "f")
            writer.ask("HSETEX", key, "PX", 5, "FIELDS", 1, "f", "v")
            until_past(writer, int(writer.ask("HPEXPIRETIMEFIELD", key, "f")[1:]))
            assert reader.ask("HGET", key, "f") == b"$-1\r\n"


@pytest.mark.parametrize(
    ("around", "databases"), [([], [b"3"]), (["MULTI", "DISCARD"], [b"0", b"3"])]
)
def test_a_key_is_asked_about_where_its_client_is(
    own_server: AnyServer, start_proxy: StartProxy, around: list[str], databases: list[bytes]
) -> None:
    """Where it is not known which of two databases that is, in both."""
    proxy = start_proxy(own_server.url, asks=True)
    with Client(proxy.port) as client:
        for words in (*around[:1], "SELECT 3", *around[1:]):
            client.ask(*words.split())
        with Connection(own_server.port) as monitor:
            monitor.ask("MONITOR")
            assert client.ask("SET", "k", "v") == b"OK"
            seen: list[bytes] = []
            while not (seen and b'"SET"' in seen[-1]):
                seen.append(monitor.read())
        asked = [line.split(b"[")[1].split()[0] for line in seen if b'"ZSCORE"' in line]
        assert sorted(asked) == databases


@pytest.mark.parametrize("carried", [("COPY", "k", "k", "DB", 1), ("MOVE", "k", 1)])
def test_deadlines_that_come_from_another_database_are_heard_of(
    own_server: AnyServer, start_proxy: StartProxy, carried: tuple[str | int, ...]
) -> None:
    """Where the key was asked for when it had none."""
    with Client(own_server.port, 1) as direct:
        give_one_of_all(direct)  # so nothing is new to the proxy there
    proxy = start_proxy(own_server.url, asks=True)
    with (
        Client(own_server.port) as first,
        Client(own_server.port, 1) as direct,
        Client(proxy.port, 1) as there,
        Client(proxy.port) as here,
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
    proxy = start_proxy(own_server.url, asks=True)
    with Client(proxy.port) as client, Client(own_server.port) as direct:
        selects = [("SELECT", number) for number in range(16, 1000)]
        assert all("out of range" in str(reply) for reply in client.ask_many(selects))
        client.ask("SELECT", 0)
        before = calls(own_server.port, "zrangebyscore")
        assert client.ask("SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        wait_until(lambda: direct.ask("EXISTS", "s") == 0, "it is reaped")
        assert calls(own_server.port, "zrangebyscore") < before + 100


@pytest.mark.parametrize("selected", [0, 99, 2**31])
def test_plain_writes_of_a_user_without_the_right_to_scripts_go_on_as_they_came(
    ports: list[int], selected: int
) -> None:
    """To keys without deadlines, for all that is known of their family; Redis refuses the others.
    Also where the client asked for a database that Redis lacks."""
    with Client(ports[0]) as client, Client(ports[0]) as other:
        other.ask("SADDEX", "b:dated", 100, "m")
        client.ask("ACL", "SETUSER", "bob", "on", ">pw", "~b:*", "+@all", "-@scripting")
        client.ask("AUTH", "bob", "pw")
        client.ask("SELECT", selected)
        for writes in (
            [("SET", "b:s", "v")],
            [("SADD", "b:set", number) for number in range(8)],
            [("MULTI",), ("DEL", "b:s", "b:set"), ("SET", "b:s", "v"), ("EXEC",)],
            [("COPY", "b:s", "b:t", "DB", 1), ("RENAME", "b:t", "b:s")],
        ):
            replies = client.ask_many(writes)
            assert not any("permission" in str(reply) for reply in replies)
        assert client.ask("GET", "b:s") == b"v"
        assert "permission" in str(client.ask("SADD", "b:dated", "m"))
        assert other.ask("STTLMEMBER", "b:dated", "m") > 0
        client.ask("AUTH", "default", "")
        client.ask("ACL", "DELUSER", "bob")


def test_a_client_that_asked_for_a_database_that_redis_lacks_is_served_where_it_is(
    ports: list[int],
) -> None:
    """Deadlines there hold, too, wherever else it may be for all that is known."""
    with Client(ports[0]) as client:
        for number in (99, 2**31):
            assert "out of range" in str(client.ask("SELECT", number))
            assert client.ask("SET", "b:s", "v") == b"OK"
            assert client.ask("GET", "b:s") == b"v"
        past_ms = client.now_ms() - 1
        requests = [
            ("MULTI",),
            ("SELECT", 99),
            ("HSETEX", "h", "PXAT", past_ms, "FIELDS", 1, "f", "v"),
            ("EXEC",),
            ("HGET", "h", "f"),
            ("HSETNX", "h", "f", "w"),
        ]
        assert client.ask_many(requests)[4:] == [None, 1]


def test_whoever_leads_the_reaper_hears_of_deadlines(ports: list[int]) -> None:
    """Nobody asks for the element, and no proxy hears of all deadlines."""
    *proxies, server = ports
    with Client(server) as direct:
        for port in proxies:
            with Client(port) as client:
                assert client.ask("SADDEX", f"s:{port}", "PX", 20, "MEMBERS", 1, "m") == 1
            wait_until(partial(_is_gone, direct, f"s:{port}"), "it is reaped")


def test_a_database_that_only_a_proxy_that_is_gone_has_named_is_reaped(
    own_server: AnyServer, start_proxy: StartProxy
) -> None:
    """Who is left did not reap, and so has heard of no deadline there."""
    left = start_proxy(own_server.url, asks=True)

    def names() -> list[str]:
        return [each["name"] for each in connections(own_server.port)]

    with Client(own_server.port) as direct, Client(own_server.port, 7) as there:
        direct.ask("SET", LEASE, "somebody else", "PX", 600_000)
        assert _ask(left, "SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        wait_until(lambda: "ttlproxy:deadlines" not in names(), "it leads no more")
        gone = start_proxy(own_server.url, asks=True)
        with Client(gone.port, 7) as client:
            assert client.ask("SADDEX", "s", "PX", 20, "MEMBERS", 1, "m") == 1
        gone.kill()
        direct.ask("DEL", LEASE)
        wait_until(lambda: there.ask("EXISTS", "s") == 0, "it is gone")


def test_of_many_keys_that_are_named_together_those_with_deadlines_are_found(
    ports: list[int],
) -> None:
    with Client(ports[0]) as client, Client(ports[1]) as writer:
        for round_ in range(2):
            keys = [f"{round_}:{number}" for number in range(100)]
            for key in keys[::10]:
                writer.ask("HSETEX", key, "PXAT", FAR_MS, "FIELDS", 1, "f", "v")
            reads = [("HGET", key, "f") for key in keys]
            assert client.ask_many(reads).count(b"v") == 10
            client.ask_many([("HSET", key, "f", "w") for key in keys])
            assert client.ask_many([("HTTLFIELD", key, "f") for key in keys]) == [-1] * 100


def test_a_key_whose_elements_were_all_reaped_gets_new_deadlines_like_a_new_one(
    ports: list[int],
) -> None:
    with Client(ports[0]) as writer, Client(ports[1]) as reader:
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
    """Nobody could see then that it asks at each request: so it hears of all deadlines."""
    with Client(own_server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "+@all", "-subscribe")
    proxy = start_proxy(f"redis://proxy:word@127.0.0.1:{own_server.port}", asks=True)
    assert subscribers(KEYS.on_demand) == 0
    assert _ask(proxy, "SADDEX", "s", 100, "m") == 1
    assert _ask(proxy, "STTLMEMBER", "s", "m") in (99, 100)


def _is_there(direct: Client, key: bytes) -> bool:
    return bool(direct.ask("EXISTS", key))


def test_a_pause_of_redis_holds_requests_and_new_families_until_it_is_over(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Also those of a client that leaves meanwhile, and what it has sent behind them."""
    server = start_server()
    proxy = start_proxy(server.url, *FLAGS, asks=True)
    written: tuple[str | int, ...] = ("HSETEX", "h", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "v")
    with Client(proxy.port) as client, Client(server.port) as direct:
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
        waits = ("APPEND", "hash", "v")  # of the family of h
        for why, words in (("reap", waits), ("family", ("SADDEX", "elsewhere", 100, "m"))):
            before = metric(admin, held, reason=why)
            client.ask(*words)
            assert metric(admin, held, reason=why) == before + 1
