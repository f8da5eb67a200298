"""The keyspace does not show that the proxy keeps keys of its own there."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.conversation import Talk, let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.servers import Proxy


def test_a_lease_that_is_over_is_not_counted(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        with Connection(start_proxy(server.url).port) as app:
            app.ask("SADDEX", "s", 100, "a")
            direct.ask("SET", LEASE, "a test", "PX", 1)
            let_pass(direct, 2)
            assert app.ask("DBSIZE") == b":1\r\n"


def test_internal_keys_are_not_among_the_keys(talk: Talk) -> None:
    talk("""
        HSET h a 1                          -> 1
        HEXPIREFIELD h a 100                -> 1
        KEYS *                              -> ["h"]
        KEYS __ttl*                         -> []
        SCAN 0 COUNT 1000                   -> ["0", ["h"]]
        SCAN 0 MATCH *schedule COUNT 1000   -> ["0", []]
        SCAN 0 COUNT 1000 TYPE zset         -> ["0", []]
        SCAN 0 COUNT 1000 TYPE hash         -> ["0", ["h"]]
        DBSIZE                              -> 1
        RANDOMKEY                           -> "h"
        SELECT 1                            -> OK
        DBSIZE                              -> 0
        KEYS *                              -> []
        RANDOMKEY                           -> nil
        SADDEX s 100 a                      -> 1
        KEYS *                              -> ["s"]
        SCAN 0 COUNT 1000                   -> ["0", ["s"]]
        DBSIZE                              -> 1
        RANDOMKEY                           -> "s"
        DEL s                               -> 1
        DBSIZE                              -> 0
        RANDOMKEY                           -> nil
    """)


def test_errors_of_the_keyspace_are_redis_own(talk: Talk) -> None:
    talk("""
        SADDEX s 100 a                      -> 1
        SCAN x                              -> ERR invalid cursor
        SCAN 0 COUNT 0                      -> ERR syntax error
        SCAN 0 COUNT x                      -> ERR value is not an integer or out of range
        SCAN 0 MATCH                        -> ERR syntax error
        SCAN 0 NOSUCH x                     -> ERR syntax error
    """)


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    "look",
    ["DBSIZE -> 1", 'KEYS * -> ["kept"]', 'SCAN 0 -> ["0", ["kept"]]', 'RANDOMKEY -> "kept"'],
    ids=lambda look: look.split()[0],
)
def test_keys_that_are_past_are_not_seen(talk: Talk, look: str) -> None:
    talk(f"""
        SADD kept a                         -> 1
        HSET gone a 1 b 1                   -> 2
        HPEXPIREFIELD gone 40 FIELDS 2 a b  -> [1, 1]
        SADDEX gone2 100 a                  -> 1
        SPEXPIREMEMBER gone2 a 40           -> 1
        wait 40
        {look}
    """)


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
    with closing(Client(proxy.port)) as client:
        client.ask("SADDEX", "s", 100, "a")
        assert b"__ttl:schedule" in client.ask("KEYS", "*")
        assert client.ask("TYPE", "__ttl:schedule") == b"zset"


def test_who_may_run_no_script_sees_what_there_is(scriptless: Client) -> None:
    assert scriptless.ask("SADDEX", "s", 100, "a") == 1
    assert scriptless.ask("DBSIZE") == 1
    assert scriptless.ask("AUTH", "scriptless", "word") == b"OK"
    assert scriptless.ask("DBSIZE") > 1


INTERNAL = "ERR this key belongs to ttlproxy; clients may use it only if show_internal_keys is set"


def test_no_client_names_an_internal_key(talk: Talk) -> None:
    talk(f"""
        SADDEX s 100 a                      -> 1
        GET __ttl:schedule                  -> {INTERNAL}
        ZRANGE __ttl:schedule 0 -1          -> {INTERNAL}
        DEL a b __ttl:lease                 -> {INTERNAL}
        MSET a 1 __ttl:x 2                  -> {INTERNAL}
        SADD __ttl:s a                      -> {INTERNAL}
        HEXPIREFIELD __ttl:s a 1            -> {INTERNAL}
        RENAME s __ttl:s                    -> {INTERNAL}
        SUNIONSTORE __ttl:s s               -> {INTERNAL}
        ZUNIONSTORE to 2 s __ttl:s          -> {INTERNAL}
        BLPOP other __ttl:s 0               -> {INTERNAL}
        EVAL "return 1" 1 __ttl:s           -> {INTERNAL}
        OBJECT ENCODING __ttl:s             -> {INTERNAL}
        STTLMEMBER s a                      -> 100
        DBSIZE                              -> 1
    """)


def test_what_only_looks_like_an_internal_key_s_name_is_none(talk: Talk) -> None:
    talk("""
        SET k __ttl:schedule                -> OK
        GET k                               -> "__ttl:schedule"
        SET my__ttl:schedule 1              -> OK
        MSET a __ttl:x b __ttl:y            -> OK
        SADD __ttl __ttl:x                  -> 1
        HSET h __ttl:f __ttl:v              -> 1
        HEXPIREFIELD h __ttl:f 100          -> 1
        HTTLFIELD h __ttl:f                 -> 100
        HGET h __ttl:f                      -> "__ttl:v"
        SADDEX s 100 __ttl:m                -> 1
        PUBLISH __ttl:c __ttl:m             -> 0
        ECHO __ttl:schedule                 -> "__ttl:schedule"
        EVAL "return ARGV[1]" 0 __ttl:x     -> "__ttl:x"
    """)


def test_an_internal_key_s_name_that_comes_in_pieces_is_one(app: Connection) -> None:
    request = command("GET", "__ttl:schedule")
    for cut in range(1, len(request)):
        app.send(request[:cut])
        app.send(request[cut:])
        assert app.read() == f"-{INTERNAL}\r\n".encode()
    assert app.ask("PING") == b"+PONG\r\n"


@pytest.mark.usefixtures("no_reaper")
def test_the_number_of_keys_is_exact_whatever_became_of_indexes(talk: Talk) -> None:
    talk("""
        SADDEX expires 100 a                            -> 1
        PEXPIRE expires 40                              -> 1
        SADDEX renamed 100 a                            -> 1
        RENAME renamed new                              -> OK
        SADDEX popped 100 a                             -> 1
        SPOP popped 2                                   -> ["a"]
        LPUSHEX list 100 a b                            -> 2
        LPOP list 5                                     -> ["b", "a"]
        SADDEX replaced 100 a                           -> 1
        SET replaced text                               -> OK
        SADDEX stored 100 a                             -> 1
        SUNIONSTORE stored nokey                        -> 0
        SADDEX copied 100 a                             -> 1
        COPY copied copy                                -> 1
        COPY copied copy DB 1                           -> 1
        SADDEX moved 100 a                              -> 1
        MOVE moved 1                                    -> 1
        wait 40
        DBSIZE                                          -> 4
        KEYS nosuch*                                    -> []
        SWAPDB 0 1                                      -> OK
        DBSIZE                                          -> 2
        SWAPDB 0 1                                      -> OK
        DBSIZE                                          -> 4
    """)
