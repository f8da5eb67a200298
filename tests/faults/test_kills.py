"""Kills in the middle of work: of the proxy, of Redis, of the link; and a full server."""

import re
import threading
from random import Random

import pytest

from tests.conftest import StartProxy, StartServer, in_cluster_mode
from tests.support.deadlines import has_ttl
from tests.support.event_loops import both_loops
from tests.support.network_path import NetworkPath
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED, STATE
from tests.support.server_queries import unnamed
from tests.support.servers import Server, unshared
from ttlproxy.core.keys import SLOTS
from ttlproxy.link import LAYOUT

pytestmark = pytest.mark.long

AWAY = b"-ERR ttlproxy has no connection to Redis, try again later\r\n"


def _answers(port: int) -> bool:
    try:
        with Connection(port) as client:
            return client.ask("PING") == b"+PONG\r\n"
    except (OSError, EOFError):
        return False


def _internal(server: Server) -> list[bytes]:
    with Connection(server.port) as direct:
        names = direct.ask("KEYS", "__ttl:*").split(b"\r\n")[2::2]
    return [name for name in names if name not in SHARED]


def _load(port: int, stop: threading.Event, acknowledged: list[int]) -> None:
    """Repeats HSET and HPEXPIREFIELD with new fields until the connection breaks."""
    number = 0
    try:
        with Connection(port) as client:
            while not stop.is_set():
                client.send(
                    command("HSET", f"h:{number % 20}", f"keep:{number}", "v", f"go:{number}", "v")
                    + command("HPEXPIREFIELD", f"h:{number % 20}", f"go:{number}", 200)
                )
                assert client.read_many(2) == [b":2\r\n", b":1\r\n"]
                acknowledged.append(number)
                number += 1
    except (EOFError, ConnectionError):
        pass


def test_a_proxy_that_is_killed_loses_nothing_and_leaves_nothing(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    stop, acknowledged = threading.Event(), list[int]()
    thread = threading.Thread(target=_load, args=(proxy.port, stop, acknowledged))
    thread.start()
    wait_until(lambda: len(acknowledged) >= 300, "300 rounds of the load")
    proxy.kill()
    stop.set()
    thread.join()
    proxy.start()
    wait_until(lambda: _internal(server) == [], "everything due reaped after the restart")
    with Connection(server.port) as direct:
        for number in acknowledged:
            key = f"h:{number % 20}"
            assert direct.ask("HEXISTS", key, f"keep:{number}") == b":1\r\n"
            assert direct.ask("HEXISTS", key, f"go:{number}") == b":0\r\n"


@unshared
def test_redis_killed_and_restarted_is_found_again_without_a_restart(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--appendonly", "yes", "--appendfsync", "always")
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as client:
        client.ask("HSETEX", "h", "PX", "300", "FIELDS", "1", "go", "v")
        client.ask("HSETEX", "h", "EX", "1000", "FIELDS", "1", "stay", "v")
        server.kill()
        assert client.read_to_end() == b"", "no made-up reply"
    with Connection(proxy.port) as client:
        client.send(command("PING"))
        assert client.read_to_end() == AWAY
    server.restart()
    wait_until(lambda: _answers(proxy.port), "the proxy serving again")
    with Connection(proxy.port) as client:
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the first field gone")
        assert client.ask("HEXPIREFIELD", "h", "stay", "0") == b":2\r\n"
    wait_until(lambda: _internal(server) == [], "the index gone")


@unshared
def test_no_connection_to_redis_outlives_its_client(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    opened = [Connection(proxy.port) for _ in range(20)]
    for number, client in enumerate(opened):
        if number % 2:
            client.send(command("BLPOP", "nothing", "0"))
        else:
            client.ask("SUBSCRIBE", "c")
    wait_until(lambda: unnamed(server.port) == 1 + 20, "20 clients")
    for client in opened:
        client.close()
    wait_until(lambda: unnamed(server.port) == 1, "none left")


def test_a_newer_layout_refuses_to_start(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("HSET", STATE, "layout", LAYOUT + 1)
    with pytest.raises(RuntimeError, match=f"layout {LAYOUT + 1}"):
        start_proxy(server.url)


@unshared
def test_a_node_without_slots_is_served_once_it_has_some(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    node = in_cluster_mode(start_server)
    # Redis itself serves no keys until five seconds after the node got its slots.
    proxy = start_proxy(node.url, "--hold-max", "60")
    assert "it owns no slots, and knows no node that does" in proxy.stderr
    with Client(node.port) as direct:
        direct.ask("CLUSTER", "ADDSLOTS", *range(SLOTS))
    with Client(proxy.port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1


def test_a_setting_under_which_a_promise_does_not_hold_is_named_at_start(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--maxmemory-policy", "allkeys-lru")
    assert "Redis has maxmemory-policy allkeys-lru" in start_proxy(server.url).stderr


def test_redis_tells_of_itself_while_it_loads_its_data(
    start_server: StartServer, start_proxy: StartProxy, version: str
) -> None:
    debug = () if version == "6.2" else ("--enable-debug-command", "yes")
    # While it loads, Redis serves its clients after every 2 MB.
    server = start_server("--rdbcompression", "no", *debug)
    proxy = start_proxy(server.url)
    with (
        Connection(server.port) as busy,
        Connection(server.port) as direct,
        Connection(proxy.port) as app,
    ):
        busy.ask("DEBUG", "POPULATE", 400, "key", 100_000)
        assert app.ask("SADDEX", "s", 100, "a") == b":1\r\n"
        direct.ask("CONFIG", "SET", "key-load-delay", 20_000)
        busy.send(command("DEBUG", "RELOAD"))
        wait_until(lambda: direct.ask("PING").startswith(b"-LOADING"), "Redis loading")
        wait_until(lambda: "is unavailable" in proxy.stderr, "the link to notice")
        for section in ((), ("persistence",), ("all",)):
            assert b"loading:1\r\n" in app.ask("INFO", *section)
        assert app.ask("PING").startswith(b"-LOADING")


ADDING = """
    HSET h a 2 | HSETNX h b 1 | HINCRBYFLOAT h n 1 | SADD s b | ZADD z 1 b | LPUSH l b | RPUSHX l b
    LINSERT l BEFORE a b | LSET l 0 b | LMOVE l to LEFT LEFT | HEXPIREFIELD h a 200
    LEXPIREELEMENT l a 200 | HSETEX h EX 9 FIELDS 1 b 1 | SADDEX s 9 b | LPUSHEX l 9 b
"""


def test_a_full_server_refuses_in_its_own_words(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    with Connection(start_proxy(start_server().url).port) as app:
        for line in ("HSETEX h EX 100 FIELDS 2 a 1 n 1", "SADDEX s 100 a", "ZADDEX z 100 1 a",
                     "LPUSHEX l 100 a", "CONFIG SET maxmemory 1"):  # fmt: skip
            app.ask(*line.split())
        refusal = app.ask("SET", "k", "v")
        assert refusal.startswith(b"-OOM")
        for line in filter(None, map(str.strip, re.split(r"[|\n]", ADDING))):
            assert app.ask(*line.split()) == refusal, line
        assert has_ttl(app.ask("LTTLELEMENT", "l", "a"), 100)
        assert app.ask("SMOVE", "s", "to", "a") == b":1\r\n", "Redis allows it"


@both_loops
def test_connections_that_are_reset_end_no_proxy(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """An event loop may refuse to write to such a connection, with an error that is no OSError."""
    server = start_server()
    with NetworkPath(server.port) as switch:
        proxy = start_proxy(f"redis://127.0.0.1:{switch.port}")

        def expires() -> bool:
            try:
                with Connection(proxy.port) as client:
                    return client.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m") == b":1\r\n"
            except (OSError, EOFError):
                return False

        for _ in range(10):
            wait_until(lambda: expires() or not proxy.running, "a client is served")
            switch.reset(1.0, Random(0))
        assert proxy.running, proxy.stderr
