"""Redis refuses something to the proxy's own user, or internal content is broken: clients that need
it wait and are closed at the end; others notice nothing, and the log gives the reason."""

import pytest
from redis.exceptions import ResponseError

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import calls
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import Keys
from ttlproxy.link import Backoff, passes
from ttlproxy.link.shared.agenda import Parked

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


def _reply_or_end(client: Connection) -> bytes:
    """The next reply; empty if the connection is closed instead."""
    try:
        return client.read()
    except EOFError:
        return b""


def _beats(server: Server, count: int) -> None:
    until = calls(server.port, "time") + count
    wait_until(lambda: calls(server.port, "time") >= until, f"{count} more heartbeats")


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


def test_the_reaper_goes_on_past_keys_that_it_may_not_reap(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = _before(server, start_proxy, "--reap-batch", "10")
    _set_user(server, "-hdel")
    _due(server, 0, "h:1", "h:2", "s")
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        app.ask("SADDEX", "stays", 1000, "m")
        app.ask("SADDEX", "other", "PX", "1", "MEMBERS", "1", "m")  # wakes the reaper
        wait_until(lambda: direct.ask("EXISTS", "s", "other") == b":0\r\n", "both sets gone")
        assert direct.ask("EXISTS", "h:1", "h:2") == b":2\r\n"
        _beats(server, 1)
        before = calls(server.port, "evalsha")
        _beats(server, 3)
        assert calls(server.port, "evalsha") - before < 200, "it does not spin"
        _set_user(server, "+hdel")
        wait_until(lambda: direct.ask("EXISTS", "h:1", "h:2") == b":0\r\n", "both gone", 40)
    assert proxy.stderr.count("Redis refuses") == 1


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


def test_rules_that_cannot_be_read_hold_up_the_reaps_of_their_database_only(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = _leased(start_server)
    _due(server, 0, "g")
    _due(server, 3, "h")
    proxy = _before(server, start_proxy)
    with (
        Connection(start_proxy(server.url).port) as ruler,
        Connection(proxy.port) as waits,
        Connection(proxy.port) as app,
    ):
        _set_user(server, "-mget")
        assert ruler.ask("SELECT", 3) == waits.ask("SELECT", 3) == b"+OK\r\n"
        assert ruler.ask("ONEXPIRE", "h", "RPUSH", "l") == b"+OK\r\n"
        waits.send(command("HLEN", "h"))
        wait_until(lambda: "Redis refuses to reap in database 3" in proxy.stderr, "it refused")
        assert app.ask("HLEN", "g") == b":0\r\n"
        _set_user(server, "+mget")
        assert waits.read() == b":0\r\n"
        assert waits.ask("LRANGE", "l", 0, -1) == b"*1\r\n$1\r\nv\r\n", "it was handed on"


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


def test_a_schedule_that_somebody_has_overwritten_stops_its_own_database_only(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = _leased(start_server)
    _due(server, 3, "h")
    proxy = start_proxy(server.url, "--hold-max", "0.5")
    with (
        Connection(server.port) as direct,
        Connection(proxy.port) as waits,
        Connection(proxy.port) as app,
    ):
        direct.ask("SELECT", 3)
        direct.ask("SET", KEYS.schedule, "no schedule")
        assert waits.ask("SELECT", 3) == b"+OK\r\n"
        waits.send(command("HGETALL", "h"))
        app.ask("HSETEX", "g", "PX", 50, "FIELDS", 1, "e", "v")
        wait_until(lambda: app.ask("HLEN", "g") == b":0\r\n", "the other database served")
        if not (reply := _reply_or_end(waits)):
            wait_until(lambda: CLOSED in proxy.stderr, "the reason told")
        assert reply in (b"", b"*0\r\n"), "the schedule may be repaired before its hold is over"
        direct.ask("SELECT", 0)
        direct.ask("DEL", KEYS.lease)
        app.ask("HSETEX", "g", "PX", 1, "FIELDS", 1, "e", "v")
        wait_until(lambda: direct.ask("EXISTS", "g") == b":0\r\n", "the other database reaped")
        app.ask("FLUSHDB")  # the schedules are read again after it
        _beats(server, 3)
        assert app.ask("PING") == b"+PONG\r\n"
    for refused in ("to reap in", "to read the schedule of"):
        assert proxy.stderr.count(f"Redis refuses {refused} database 3: WRONGTYPE") <= 1
    assert "is unavailable" not in proxy.stderr


def test_a_proxy_that_cannot_read_a_schedule_serves_nobody_and_says_why(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("SET", "k", "v")  # a database without keys has no schedule
        direct.ask("ACL", "SETUSER", "default", "-zscan")
        proxy = start_proxy(server.url)
        with Connection(proxy.port) as app:
            assert app.read_to_end().startswith(b"-ERR ttlproxy has no connection to Redis")
        assert proxy.stderr.count("Redis refuses to read the schedule of database 0: ") == 1
        direct.ask("ACL", "SETUSER", "default", "+zscan")

    def serves() -> bool:
        with Connection(proxy.port) as app:
            return app.ask("PING") == b"+PONG\r\n"

    wait_until(serves, "it serving")


def test_a_proxy_that_hears_no_announcements_serves_nobody_and_says_why(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    allowed = (f"+client|{name}" for name in ("setname", "list", "id"))
    with Connection(server.port) as direct:
        words = ("on", ">word", "~*", "&*", "+@all", "-client", *allowed)
        assert direct.ask("ACL", "SETUSER", "proxy", *words) == b"+OK\r\n"
    proxy = start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}", "--hold-max", "0.5")
    with Connection(proxy.port) as app:
        assert app.read_to_end().startswith(b"-ERR ttlproxy has no connection to Redis")
    assert "refuses the push connection: NOPERM" in proxy.stderr


def test_what_goes_on_being_refused_is_left_alone_for_longer_until_it_is_fixed() -> None:
    parked, place = Parked(), (0, b"k")
    parked.park(place, 1000)
    assert 1000 <= (until_ms := parked.first_ms()) <= 1100
    assert parked.holds(place, until_ms - 1)
    assert not parked.holds(place, until_ms)
    for _ in range(2000):
        parked.park(place, 1000)
    assert len(parked) == 1
    assert not parked.holds(place, 31_000)
    parked.forget(31_000)
    assert len(parked) == 0


def test_a_key_is_looked_at_again_soon_after_redis_was_busy() -> None:
    busy = ResponseError("BUSY Redis is busy running a script.")
    assert passes(busy)
    assert not passes(ResponseError("WRONGTYPE Operation against a key"))
    parked, place = Parked(), (0, b"k")
    for _ in range(2000):
        parked.park(place, 1000, passes=passes(busy))
    assert not parked.holds(place, 1501)


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
