"""Redis refuses something to the proxy's own user, or internal content is broken: clients that need
it wait and are closed at the end; others notice nothing, and the log gives the reason."""

import pytest
from redis.exceptions import ResponseError

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import Keys
from ttlproxy.link import Backoff, passes

CLOSED = "closed: Redis refuses"
KEYS = Keys()


def _due(server: Server, db: int, *keys: str) -> None:
    """Hashes (sets, if the name begins with s) whose one element is past its deadline."""
    with Connection(server.port) as direct:
        direct.ask("SELECT", db)
        for key in keys:
            direct.ask(*(("SADD", key, "e") if key[0] == "s" else ("HSET", key, "e", "v")))
            direct.ask("ZADD", KEYS.index(key.encode()), 1, "e")
            direct.ask("ZADD", KEYS.schedule, 1, key)


def _leased(start_server: StartServer) -> Server:
    """A server whose lease somebody else holds: elements are reaped only for clients' requests."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("SET", KEYS.lease, "somebody", "PX", 600_000)
    return server


def _before(server: Server, start_proxy: StartProxy, *settings: str) -> Proxy:
    """A proxy whose own user still has every right."""
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all")
    return start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}", *settings)


def _set_user(server: Server, rule: str) -> None:
    with Connection(server.port) as direct:
        assert direct.ask("ACL", "SETUSER", "proxy", rule) == b"+OK\r\n"


def test_a_right_that_is_missing_holds_up_those_who_need_it_and_nobody_else(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = _leased(start_server)
    _due(server, 0, "h", "s")
    proxy = _before(server, start_proxy, "--hold-max", "0.5")
    _set_user(server, "-hdel")
    with (
        Connection(proxy.port) as one,
        Connection(proxy.port) as two,
        Connection(proxy.port) as app,
        Connection(server.port) as direct,
    ):
        one.send(command("HGETALL", "h"))
        two.send(command("HLEN", "h"))
        assert app.ask("SCARD", "s") == b":0\r\n"
        assert one.read_to_end() == two.read_to_end() == b"", "no made-up reply"
        assert app.ask("SCARD", "s") == b":0\r\n"
        wait_until(lambda: proxy.stderr.count(CLOSED) == 2, "both ends told")
        assert proxy.stderr.count("Redis refuses to reap in database 0: ") == 1
        (refusals,) = [
            line
            for line in app.ask("INFO", "ttlproxy").split(b"\r\n")
            if line.startswith(b"refusals:")
        ]
        assert int(refusals.split(b":")[1]) > 1
        assert direct.ask("ZSCORE", KEYS.index(b"h"), "e") == b"$1\r\n1\r\n", "it has its deadline"
        _set_user(server, "+hdel")
        assert app.ask("HLEN", "h") == b":0\r\n"


def test_a_request_is_not_carried_out_in_a_database_it_was_not_meant_for(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = _leased(start_server)
    _due(server, 3, "h")
    proxy = _before(server, start_proxy, "--hold-max", "0.5")
    _set_user(server, "-select")
    with Connection(proxy.port) as app:
        assert app.ask("SELECT", 3) == b"+OK\r\n"
        app.send(command("HGETALL", "h"))
        assert app.read_to_end() == b""
    wait_until(lambda: CLOSED in proxy.stderr, "the reason told")


def test_a_list_is_moved_to_where_somebody_has_overwritten_the_index(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        app.ask("RPUSH", "from", "a")
        app.ask("LPUSHEX", "to", 100, "b")
        direct.ask("SET", KEYS.index(b"to"), "no index")
        assert app.ask("BLMOVE", "from", "to", "LEFT", "RIGHT", 1) == b"$1\r\na\r\n"
        assert direct.ask("EXISTS", KEYS.index(b"to")) == b":0\r\n"
    assert "Redis refuses" not in proxy.stderr


def test_that_redis_is_busy_passes_and_another_type_of_key_does_not() -> None:
    assert passes(ResponseError("BUSY Redis is busy running a script."))
    assert not passes(ResponseError("WRONGTYPE Operation against a key"))


@pytest.mark.parametrize("failures", [1, 1_000_000])
def test_a_pause_is_computed_after_any_number_of_failures(failures: int) -> None:
    assert 0 <= Backoff(cap=2.0, base=0.05).compute(failures) <= 2.0


def test_a_script_that_keeps_redis_busy_can_be_killed_and_hides_what_was_hidden(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Nothing shows a key of the proxy's own, and connections that it opens then are no loss."""
    server = start_server("--lua-time-limit", "10")
    proxy = start_proxy(server.url)
    with Connection(server.port) as busy, Connection(proxy.port) as app:
        assert app.ask("SADDEX", "s", 100, "m") == b":1\r\n"
        busy.send(command("EVAL", "while true do end", 0))
        try:
            wait_until(lambda: "to store the secret of the proxies: BUSY" in proxy.stderr, "a beat")
        finally:
            assert app.ask("SCRIPT", "KILL") == b"+OK\r\n"
        assert app.ask("KEYS", "*") == b"*1\r\n$1\r\ns\r\n"
        assert app.ask("DBSIZE") == b":1\r\n"
    assert "is unavailable" not in proxy.stderr
