"""What Redis refuses changes nothing; what it accepts counts from the next request on."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Binary, Proxy, Server

OK = b"+OK\r\n"
SETTING = "notify-keyspace-events"
# A user who may use everything except these.
BARRED = [
    *("-psync", "-sync", "-monitor", "-config", "-script"),
    *("-multi", "-discard", "-watch"),
]


class World:
    """A server with a password, a proxy in front of it, and clients of both."""

    def __init__(self, server: Server, proxy: Proxy, stack: ExitStack) -> None:
        self.server, self.proxy, self._stack = server, proxy, stack

    def stranger(self) -> Connection:
        """A client that has not logged in."""
        return self._stack.enter_context(Connection(self.proxy.port))

    def client(self, *login: str) -> Connection:
        return self._known(self.proxy.port, login)

    def direct(self) -> Connection:
        return self._known(self.server.port, ())

    def _known(self, port: int, login: tuple[str, ...]) -> Connection:
        client = self._stack.enter_context(Connection(port))
        assert client.ask("AUTH", *(login or ("word",))) == OK
        return client


def _user(port: int) -> None:
    with Connection(port) as direct:
        direct.ask("AUTH", "word")
        assert direct.ask("ACL", "SETUSER", "some", "on", ">word", "~*", "&*", "+@all", *BARRED)


@pytest.fixture(scope="module")
def locked(binary: Binary) -> Iterator[tuple[Server, Proxy]]:
    with Server(binary, "--requirepass", "word") as server:
        _user(server.port)
        with Proxy(f"redis://:word@127.0.0.1:{server.port}", forked=True) as proxy:
            yield server, proxy


@pytest.fixture
def world(locked: tuple[Server, Proxy]) -> Iterator[World]:
    """The tests of this file share server and proxy."""
    with ExitStack() as stack:
        world = World(*locked, stack)
        assert world.direct().ask("FLUSHALL") == OK
        yield world


def _refused(client: Connection, *words: str) -> None:
    assert client.ask(*words)[:5] in (b"-NOAU", b"-NOPE")


@pytest.mark.parametrize("who", ["a stranger", "a user without the right"])
def test_a_refused_config_set_loses_no_event(world: World, who: str) -> None:
    app, ear = world.client(), world.direct()
    assert app.ask("CONFIG", "SET", SETTING, "KA") == OK
    ear.ask("SUBSCRIBE", "__keyspace@0__:h")
    attacker = world.stranger() if who == "a stranger" else world.client("some", "word")
    app.ask("HSET", "h", "f", "v")
    assert b"hset" in ear.read()
    for _ in range(20):
        _refused(attacker, "CONFIG", "SET", SETTING, "")
        assert app.ask("HEXPIREFIELD", "h", "f", 100) == b":1\r\n"
        assert b"hexpire" in ear.read()
    assert app.ask("CONFIG", "SET", SETTING, "") == OK


def test_a_refused_flush_of_scripts_costs_others_little(world: World) -> None:
    app, attacker, direct = world.client(), world.stranger(), world.direct()
    _refused(attacker, "SCRIPT", "FLUSH")
    # The first is believed until the proxy has checked; the later ones are not.
    wait_until(lambda: b"evalsha" in _sent(world, direct, app), "scripts go by name again")
    direct.ask("CONFIG", "RESETSTAT")
    for _ in range(20):
        attacker.send(command("SCRIPT", "FLUSH"))
        app.ask("HTTLFIELD", "h", "f")
        attacker.read()
    assert _calls(direct, "evalsha") >= 15


def _sent(world: World, direct: Connection, app: Connection) -> list[bytes]:
    """How Redis counts a script call of an application: eval or evalsha."""
    direct.ask("CONFIG", "RESETSTAT")
    app.ask("HTTLFIELD", "h", "f")
    return [name for name in (b"eval", b"evalsha") if _calls(direct, name.decode())]


def _calls(direct: Connection, name: str) -> int:
    found = re.search(
        rb"cmdstat_%b:calls=(\d+)" % name.encode(), direct.ask("INFO", "commandstats")
    )
    return int(found[1]) if found else 0


@pytest.mark.parametrize("flush", ["SCRIPT FLUSH", "SCRIPT FLUSH ASYNC", "MULTI;SCRIPT FLUSH;EXEC"])
def test_nobody_sees_that_scripts_were_flushed(
    app: Connection, other: Connection, flush: str
) -> None:
    """Neither the client that flushes, with requests right behind, nor others after its reply."""
    for _ in range(5):
        requests = [*flush.split(";"), "HTTLFIELD h f"]
        app.send(b"".join(command(*request.split()) for request in requests))
        *_, last = app.read_many(len(requests))
        assert last == b":-2\r\n"
        assert other.ask("HTTLFIELD", "h", "f") == b":-2\r\n"


@pytest.mark.parametrize("in_multi", [False, True], ids=["alone", "in MULTI"])
def test_events_begin_and_end_with_the_next_request(
    app: Connection, server: Server, in_multi: bool
) -> None:
    with Connection(server.port) as ear:
        ear.ask(
            "SUBSCRIBE",
            "__keyevent@0__:hexpire",
        )
        for number in range(10):
            for flags in ("Eh", ""):
                key = f"{flags}{number}"
                requests: list[tuple[str, ...]] = [("CONFIG", "SET", SETTING, flags)]
                if in_multi:
                    requests = [("MULTI",), *requests, ("EXEC",)]
                requests += [("HSETEX", key, "EX", "9", "FIELDS", "1", "f", "v")]
                app.send(b"".join(command(*words) for words in requests))
                assert app.read_many(len(requests))[-1] == b":1\r\n"
            assert ear.read().endswith(b"$%d\r\nEh%d\r\n" % (len(f"Eh{number}"), number))


@pytest.mark.parametrize("request_", ["PSYNC ? -1", "SYNC", "PSYNC x", "MONITOR x", "MONITOR"])
def test_a_refused_replica_is_a_client_as_before(world: World, request_: str) -> None:
    app, some = world.client(), world.client("some", "word")
    assert app.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
    assert some.ask(*request_.split()).startswith(b"-")
    assert some.ask("HSET", "h", "f", "anew") == b":0\r\n"
    assert app.ask("HTTLFIELD", "h", "f") == b":-1\r\n"
    assert some.ask("HEXPIREFIELD", "h", "f", 100) == b":1\r\n"
    assert some.ask("KEYS", "*") == b"*1\r\n$1\r\nh\r\n"
    assert some.ask("GET", "__ttl:schedule").startswith(b"-ERR this key belongs to ttlproxy")


def test_a_watch_behind_a_refused_multi_sees_deadlines(world: World) -> None:
    app, direct = world.client(), world.direct()
    assert direct.ask("ACL", "SETUSER", "watcher", "on", ">word", "~*", "+@all", "-multi") == OK
    watcher = world.client("watcher", "word")
    app.ask("HSET", "h", "f", "v")
    _refused(watcher, "MULTI")
    assert watcher.ask("WATCH", "h") == OK
    assert app.ask("HEXPIREFIELD", "h", "f", 100) == b":1\r\n"
    assert direct.ask("ACL", "SETUSER", "watcher", "+multi") == OK
    assert watcher.ask("MULTI") == OK
    assert watcher.ask("PING") == b"+QUEUED\r\n"
    assert watcher.ask("EXEC") == b"*-1\r\n"


def test_behind_a_refused_multi_what_a_write_has_left_is_swept(world: World) -> None:
    app, some, direct = world.client(), world.client("some", "word"), world.direct()
    _refused(some, "MULTI")
    assert app.ask("RPUSH", "l", "a", "b") == b":2\r\n"
    assert app.ask("LEXPIREELEMENT", "l", "a", 100) == b":1\r\n"
    assert some.ask("LPOP", "l", 1) == b"*1\r\n$1\r\na\r\n"
    wait_until(lambda: b"__ttl:" not in direct.ask("KEYS", "__ttl:*:l"), "the deadline gone")


def test_a_refused_swap_is_told_to_nobody(world: World) -> None:
    app, direct = world.client(), world.direct()
    assert direct.ask("ACL", "SETUSER", "user", "on", ">word", "~*", "+@all", "-swapdb") == OK
    user = world.client("user", "word")
    assert app.ask("SADDEX", "s", 100, "m") == b":1\r\n"
    direct.ask("HELLO", 3)
    direct.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "__ttl:!swap")
    for client, words in ((user, ("0", "1")), (app, ("0", "99"))):
        assert client.ask("SWAPDB", *words).startswith(b"-")
    assert direct.ask("ECHO", "end") == b"$3\r\nend\r\n"
    assert app.ask("SWAPDB", 0, 1) == OK
    assert b"__ttl:!swap:0:1" in direct.read()


def test_a_client_that_is_to_hear_again_is_answered_to_the_end(app: Connection) -> None:
    app.send(command("CLIENT", "REPLY", "OFF") + command("PING") + command("CLIENT", "REPLY", "ON"))
    app.send(command("CLIENT", "REPLY", "OFF", "x") + command("ECHO", "end"))
    app.half_close()
    assert app.read_to_end().endswith(b"$3\r\nend\r\n")


# --- random requests that change the meaning of later ones, some of them refused

CHANGES = """
    MULTI|MULTI x|EXEC|EXEC x|DISCARD|DISCARD x|SELECT 0|SELECT 1|SELECT 99|SELECT x|SELECT
    SWAPDB 0 99|SWAPDB x 1|SWAPDB 0|SWAPDB 0 0|SWAPDB 0 1|WATCH k|WATCH|UNWATCH|RESET|RESET x
    CLIENT REPLY ON|CLIENT REPLY x|CLIENT REPLY|CLIENT x|CONFIG SET notify-keyspace-events x?
    CONFIG SET notify-keyspace-events KEA|CONFIG SET notify-keyspace-events|CONFIG SET|CONFIG
    SCRIPT FLUSH|SCRIPT FLUSH x|SCRIPT FLUSH SYNC|SCRIPT FLUSH SYNC x|SCRIPT|SCRIPT x
    AUTH word|AUTH some word|AUTH some wrong|AUTH nobody x|AUTH a b c|AUTH|HELLO 3|HELLO 2|HELLO 9
    HELLO x|HELLO 3 AUTH some word|HELLO 3 AUTH some wrong|SUBSCRIBE c|SUBSCRIBE|UNSUBSCRIBE c
    PSUBSCRIBE c|PUNSUBSCRIBE|PSYNC x|PSYNC|SYNC x|MONITOR x|PING|HSET h f v|HSET h|HGET h f
    MYSTERY x|SADD s a|SREM s a|SCARD s|LPUSH l a|LPOP l|LRANGE l 0 -1
    DEL h|EXPIRE h 100|EXISTS h s l
"""
_REQUESTS = [command(*line.split()) for line in re.split(r"[|\n]", CHANGES) if line.strip()]
_EXAMPLES = int(os.environ.get("TTLPROXY_EXAMPLES", "100"))
# If Redis refuses a rewritten command to a RESP2 subscriber, its error names the script.
_NAME = re.compile(rb"(Can't execute )'\w+'")
_CLIENT_ID = re.compile(rb"(\$2\r\nid\r\n):\d+\r\n")
_END = command("RESET") + command("AUTH", "word") + command("ECHO", "the end")


def _answered(client: Connection, requests: list[bytes]) -> bytes:
    """The replies, up to those that reset the client and log it in again."""
    client.send(b"".join(requests) + _END)
    found = b""
    while not found.endswith(b"$7\r\nthe end\r\n"):
        found += client.read()
    return _CLIENT_ID.sub(rb"\1:ID\r\n", _NAME.sub(rb"\1", found))


@pytest.fixture
def plain_port(start_server: StartServer) -> int:
    port = start_server("--requirepass", "word").port
    _user(port)
    return port


def test_a_login_behind_other_requests_is_answered_and_what_follows_too(world: World) -> None:
    """Redis 8.2 does not answer a login that fails while it has other replies to send."""
    with world.stranger() as client:
        requests = ("PING", "AUTH some wrong", "PING", "AUTH word", "PING")
        client.send(b"".join(command(*each.split()) for each in requests))
        replies = client.read_many(len(requests))
    noauth = [reply.startswith(b"-NOAUTH") for reply in replies]
    assert noauth == [True, False, True, False, False]
    assert replies[1].startswith(b"-WRONGPASS")
    assert replies[3:] == [OK, b"+PONG\r\n"]


def _answers_each_login(port: int) -> bool:
    """Whether Redis answers a login that fails behind another request: 8.2 does not."""
    with Connection(port) as direct:
        direct.send(command("PING") + command("AUTH", "some", "wrong") + command("QUIT"))
        return direct.read_to_end().count(b"\r\n") == 3


@settings(
    max_examples=_EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(requests=st.lists(st.sampled_from(_REQUESTS), max_size=12))
def test_after_any_of_them_deadlines_are_kept_as_ever(
    world: World, plain_port: int, requests: list[bytes]
) -> None:
    app = world.client()
    for port in (world.server.port, plain_port):
        with Connection(port) as direct:
            direct.ask("AUTH", "word")
            direct.ask("CONFIG", "SET", SETTING, "")
            direct.ask("FLUSHALL")
    with Connection(plain_port) as plain, Connection(world.proxy.port) as client:
        found = _answered(client, requests)
        assert found == _answered(plain, requests) or not _answers_each_login(plain_port)
        for each in (client, app):
            _deadlines_are_kept(each)


FAR_S = 4_000_000_000


def _deadlines_are_kept(client: Connection) -> None:
    ask = client.ask
    ask("DEL", "kept")
    assert ask("HSETEX", "kept", "EXAT", FAR_S, "FIELDS", 2, "f", "v", "g", "v") == b":1\r\n"
    assert ask("HSET", "kept", "f", "anew") == b":0\r\n"
    ends = ask("HEXPIRETIMEFIELD", "kept", "FIELDS", 2, "f", "g")
    assert ends == b"*2\r\n:-1\r\n:%d\r\n" % FAR_S
    assert b"__ttl:" not in ask("KEYS", "*")
    assert ask("DEL", "__ttl:schedule").startswith(b"-ERR this key belongs to ttlproxy")
    assert ask("HPEXPIREFIELD", "kept", "f", 0) == b":2\r\n"
    assert ask("HLEN", "kept") == b":1\r\n"
