"""The keyspace does not show that the proxy keeps keys of its own there."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.conversation import let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.servers import Proxy


def test_a_lease_that_is_over_is_not_counted(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Client(server.port) as direct:
        direct.ask("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        with Connection(start_proxy(server.url).port) as app:
            app.ask("SADDEX", "s", 100, "a")
            direct.ask("SET", LEASE, "a test", "PX", 1)
            let_pass(direct, 2)
            assert app.ask("DBSIZE") == b":1\r\n"


@pytest.mark.usefixtures("no_reaper")
def test_a_transaction_counts_as_of_its_exec(proxy: Proxy, direct: Client) -> None:
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        other.ask("HSET", "h", "a", 1)
        other.ask("HEXPIREFIELD", "h", "a", 100)
        assert one.ask("MULTI") == b"+OK\r\n"
        assert one.ask("DBSIZE") == b"+QUEUED\r\n"
        assert other.ask("HPEXPIREFIELD", "h", "a", 20) == b":1\r\n"
        let_pass(direct, 20)
        assert one.ask("EXEC") == b"*1\r\n:0\r\n"


def test_a_scan_to_its_end_gives_every_key_and_no_internal_one(client: Client) -> None:
    wanted = {b"k%d" % number for number in range(500)}
    client.ask_many([["SADDEX", key, 100, "a"] for key in wanted])
    cursor, found = b"0", list[bytes]()
    while True:
        cursor, page = client.ask("SCAN", cursor)
        found += page
        if cursor == b"0":
            break
    assert set(found) == wanted
    assert client.ask("DBSIZE") == 500


def test_a_key_is_found_at_random_where_nearly_all_are_internal(
    client: Client, direct: Client
) -> None:
    # Where the proxies have stored nothing, RANDOMKEY is Redis's own.
    assert client.ask("ONWRITE", "nothing*", "EX", 100) == b"OK"
    direct.ask_many([["SET", f"__ttl:t:left{number}", "x"] for number in range(3000)])
    assert client.ask("RANDOMKEY") is None
    client.ask("SET", "alone", "1")
    assert client.ask("RANDOMKEY") == b"alone"
    direct.ask("FLUSHALL")


def test_every_key_can_be_picked_at_random(client: Client) -> None:
    client.ask_many([["SADDEX", f"k{number}", 100, "a"] for number in range(4)])
    for wanted in (b"k0", b"k1", b"k2", b"k3"):
        wait_until(lambda: client.ask("RANDOMKEY") == wanted, f"{wanted!r} picked")  # noqa: B023


def test_a_setting_shows_internal_keys(start_server: StartServer, start_proxy: StartProxy) -> None:
    proxy = start_proxy(start_server().url, "--show-internal-keys", "yes")
    with Client(proxy.port) as client:
        client.ask("SADDEX", "s", 100, "a")
        assert b"__ttl:schedule" in client.ask("KEYS", "*")
        assert client.ask("TYPE", "__ttl:schedule") == b"zset"


def test_who_may_run_no_script_sees_what_there_is(scriptless: Client) -> None:
    assert scriptless.ask("SADDEX", "s", 100, "a") == 1
    assert scriptless.ask("DBSIZE") == 1
    assert scriptless.ask("AUTH", "scriptless", "word") == b"OK"
    assert scriptless.ask("DBSIZE") > 1


INTERNAL = "ERR this key belongs to ttlproxy; clients may use it only if show_internal_keys is set"


def test_an_internal_key_s_name_that_comes_in_pieces_is_one(app: Connection) -> None:
    request = command("GET", "__ttl:schedule")
    for cut in range(1, len(request)):
        app.send(request[:cut])
        app.send(request[cut:])
        assert app.read() == f"-{INTERNAL}\r\n".encode()
    assert app.ask("PING") == b"+PONG\r\n"
