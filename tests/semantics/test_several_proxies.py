"""Two proxies in front of one Redis: each sees the other's deadlines, whatever it missed."""

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import deadline_ms_of, until_past
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import calls, let_beat, until_called_by_digest, until_loaded
from tests.support.servers import Binary, Server
from ttlproxy.core.keys import Keys


def test_a_greeting_that_is_not_taken_back_ends_by_itself(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """As if the proxy was killed between SET and DEL."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-del")
        for _ in range(2):  # a lone proxy greets nobody
            start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}")
        wait_until(lambda: calls(server.port, "set") > 0, "the greeting")
        wait_until(lambda: direct.ask("KEYS", "__ttl:!*") == b"*0\r\n", "nothing left of it")


def test_an_element_past_its_deadline_is_seen_through_neither(three: list[Connection]) -> None:
    one, other, direct = three
    for number in range(30):
        key = f"h:{number}"
        one.ask("HSET", key, "a", 1, "b", 2)
        one.ask("HPEXPIREFIELD", key, "a", 3)
        until_past(direct, deadline_ms_of(direct, key, "a"))
        assert direct.ask("HLEN", key) == b":2\r\n", "nobody has reaped it"
        assert other.ask("HLEN", key) == b":1\r\n"


def test_a_proxy_that_starts_later_knows_what_was_there(
    three: list[Connection], start_proxy: StartProxy
) -> None:
    one, _, direct = three
    one.ask("SADDEX", "s", "PX", "500", "MEMBERS", "1", "a")
    one.ask("SADD", "s", "b")
    port = direct.socket.getpeername()[1]
    with Connection(start_proxy(f"redis://127.0.0.1:{port}").port) as late:
        until_past(direct, deadline_ms_of(direct, "s", "a"))
        assert late.ask("SCARD", "s") == b":1\r\n"


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_proxy_that_starts_later_knows_every_key(
    start_server: StartServer, start_proxy: StartProxy, is_trusted: bool
) -> None:
    """There are more than fit on a page of the schedule, or of the search for indexes where a
    client may have taken the schedule away."""
    server, keys = start_server(), [f"s{number}" for number in range(2500)]
    with Connection(server.port) as direct:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        if not is_trusted:
            direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~__ttl:schedule", "+@all")
        for key in keys:
            index = Keys().index(key.encode())
            direct.send(command("SADD", key, "due", "stays") + command("ZADD", index, 1, "due"))
        direct.read_many(2 * len(keys))
        if is_trusted:
            direct.ask("ZADD", Keys().schedule, *(word for key in keys for word in (1, key)))
        with Connection(start_proxy(server.url).port) as late:
            late.send(b"".join(command("SCARD", key) for key in keys))
            assert set(late.read_many(len(keys))) == {b":1\r\n"}


def test_the_same_key_in_two_databases_has_two_deadlines(three: list[Connection]) -> None:
    one, other, direct = three
    for db in ("0", "7"):
        one.ask("SELECT", db)
        one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    direct.ask("SELECT", "7")
    until_past(direct, deadline_ms_of(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":2\r\n"
    other.ask("SELECT", "7")
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_scripts_that_redis_has_lost_are_loaded_before_a_client_needs_one(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """A client would get Redis's NOSCRIPT."""
    server = start_server()
    with Connection(server.port) as direct, Connection(start_proxy(server.url).port) as app:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"
        for _ in range(2):
            until_loaded(server.port)
            assert direct.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
            let_beat(server.port, 3)  # one sees it; then calls have their text again
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"


@pytest.mark.redis
def test_scripts_of_applications_evict_none_of_the_proxys(
    valkey_binary: Binary, start_proxy: StartProxy
) -> None:
    """Servers since Redis 7.4 and Valkey 8 evict what EVAL has cached when it is more than 500."""
    with Server(valkey_binary) as server:
        proxy = start_proxy(server.url)
        with Connection(server.port) as direct, Connection(proxy.port) as app:
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"
            until_called_by_digest(server.port, app)
            direct.send(b"".join(command("EVAL", f"return {n}", 0) for n in range(600)))
            direct.read_many(600)
            assert b"evicted_scripts:0" not in direct.ask("INFO", "stats")
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"


def test_what_one_proxy_swapped_the_other_looks_for_where_it_is_now(
    three: list[Connection],
) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = deadline_ms_of(direct, "h", "a")
    assert one.ask("SWAPDB", 0, 7) == b"+OK\r\n"
    until_past(direct, deadline_ms)
    assert other.ask("HLEN", "h") == b":0\r\n"
    other.ask("SELECT", 7)
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_what_one_proxy_copied_or_moved_the_other_knows_there(three: list[Connection]) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = deadline_ms_of(direct, "h", "a")
    for words in (("COPY", "h", "c"), ("COPY", "h", "h", "DB", 3), ("MOVE", "c", 7)):
        assert one.ask(*words) == b":1\r\n"
    until_past(direct, deadline_ms)
    for db, key in ((0, "h"), (3, "h"), (7, "c")):
        assert other.ask("SELECT", db) == b"+OK\r\n"
        assert other.ask("HLEN", key) == b":1\r\n", (db, key)
    assert other.ask("SELECT", 0) == b"+OK\r\n"
    assert other.ask("EXISTS", "c") == b":0\r\n"
