"""Clients that have not logged in: Redis's own replies and limits, and no memory of the proxy."""

from __future__ import annotations

import contextlib
import re
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import has_ttl
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.relay import Gate, Relay
from tests.support.servers import Proxy, Server
from ttlproxy.commands.router import VIRTUALS

PASSWORD = ("--requirepass", "secret")
NOAUTH = b"-NOAUTH Authentication required.\r\n"
OK = b"+OK\r\n"
WRONG, RIGHT = command("AUTH", "wrong"), command("AUTH", "secret")
TEN, ELEVEN = command("DEL", *range(9)), command("DEL", *range(10))
FITS, LARGE = command("SET", "k", "v" * 16384), command("SET", "k", "v" * 16385)
BOMB = b"*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$500000000\r\n"
GET, PING, RESET = command("GET", "k"), command("PING"), command("RESET")
QUIT = command("QUIT")

# Redis reads no more of it.
TOO_LARGE = LARGE[:60]
STREAMS = {
    "at the limits": TEN + FITS + QUIT,
    "a word too many": PING + ELEVEN,
    "a byte too many": PING + TOO_LARGE,
    "a value that is announced": PING + BOMB,
    "a count that is announced": PING + b"*1000000\r\n$3\r\nSET\r\n",
    "a name that is announced": b"*1\r\n$20000\r\n",
    "a name that is announced, of an AUTH": b"*2\r\n$4\r\nAUTH\r\n$20000\r\n",
    "refused, then a word too many": WRONG + ELEVEN,
    "refused, then announced": WRONG + BOMB,
    "let in": RIGHT + ELEVEN + FITS + LARGE + GET + QUIT,
    "refused, then let in": GET + WRONG + GET + RIGHT + ELEVEN + GET + WRONG + ELEVEN + QUIT,
    "let in twice": RIGHT + RIGHT + ELEVEN + command("AUTH", "default", "secret") + ELEVEN + QUIT,
    "let in by a name": command("AUTH", "default", "secret") + ELEVEN + QUIT,
    "with too few words": command("AUTH") + command("AUTH", "a", "b", "c") + ELEVEN,
    "greeted": command("HELLO") + command("HELLO", 3) + command("HELLO", 9) + PING + QUIT,
    "greeted and let in": command("HELLO", 3, "AUTH", "default", "wrong")
    + command("HELLO", 3, "AUTH", "default", "secret")
    + ELEVEN
    + command("HGETALL", "none")
    + QUIT,
    "let in by lines": b"GET k\r\n\r\n*0\r\nauth wrong\r\nAUTH 'secret'\nGET k\r\n" + ELEVEN + QUIT,
    "silent frames between": b"\r\n*0\r\n*-1\r\n"
    + GET
    + b"\r\n"
    + RIGHT
    + b"*0\r\n"
    + ELEVEN
    + QUIT,
    "unknown and malformed": command("NOSUCH", "a") + command("GET") + RIGHT + ELEVEN + QUIT,
    "in no transaction": command("MULTI") + GET + RIGHT + command("EXEC") + ELEVEN + QUIT,
    "reset": RESET + GET + RIGHT + RESET + GET + RESET + RIGHT + ELEVEN + QUIT,
    "reset, then a word too many": RIGHT + RESET + ELEVEN,
    "reset, then announced": RIGHT + RESET + BOMB,
    "no protocol": GET + b"*1\r\n:5\r\n",
}
# Valkey 9.1 keeps a client that has not logged in any more; Redis, and so the proxy, closes it.
WAITING = ("reset, then a word too many", "reset, then announced")


@pytest.fixture
def locked(start_server: StartServer) -> Server:
    return start_server(*PASSWORD)


@pytest.fixture
def before_it(locked: Server, start_proxy: StartProxy) -> Proxy:
    # With its name Redis lets the default user in although it has no password.
    return start_proxy(f"redis://default:secret@127.0.0.1:{locked.port}")


def _told(port: int, *pieces: bytes, between: Connection | None = None) -> bytes:
    """All replies to these pieces; after each piece `between` sends a PING."""
    with Connection(port) as client:
        for piece in pieces:
            client.send(piece)
            if between is not None:
                assert between.ask("PING") == NOAUTH
        return re.sub(rb"(\$2\r\nid\r\n:)\d+", rb"\1N", client.read_to_end())


@both_loops
def test_all_is_answered_as_by_redis_however_it_is_cut(locked: Server, before_it: Proxy) -> None:
    with Connection(before_it.port) as other:
        for name, stream in STREAMS.items():
            if name in WAITING and locked.name.startswith("valkey"):
                continue
            expected = _told(locked.port, stream)
            assert _told(before_it.port, stream) == expected, name
            for cut in range(1, len(stream), len(stream) // 40 + 1):
                pieces = stream[:cut], stream[cut:]
                assert _told(before_it.port, *pieces, between=other) == expected, (name, cut)


def test_every_command_of_ours_is_refused_as_redis_s_own_are(before_it: Proxy) -> None:
    with Connection(before_it.port) as client:
        for name, virtual in VIRTUALS.items():
            for example, _ in virtual.example:
                words = [word.strip('"') for word in example.split()]
                if words[0] == name and len(words) <= 10:
                    assert client.ask(*words) == NOAUTH, example
            assert client.ask(name) == NOAUTH
        assert client.ask("TTLPROXY", "HELP") == NOAUTH
        assert client.ask("AUTH", "secret") == OK
        assert client.ask("SADDEX", "s", 100, "m") == b":1\r\n"
        assert client.ask("RESET") == b"+RESET\r\n"
        assert client.ask("TTLPROXY", "HELP") == NOAUTH
        assert client.ask("STTLMEMBER", "s", "m") == NOAUTH
        assert client.ask("AUTH", "secret") == OK
        assert has_ttl(client.ask("STTLMEMBER", "s", "m"), 100)


def test_what_stands_behind_the_login_means_what_it_means_to_who_is_let_in(
    before_it: Proxy,
) -> None:
    many = command("HSETEX", "h", "EX", 100, "FIELDS", 5, *"a1b2c3d4e5")
    ask = command("HTTLFIELD", "h", "FIELDS", 2, "a", "b")
    stream = ask + WRONG + ask + RIGHT + many + ask + QUIT
    answers = [NOAUTH, NOAUTH, OK, b":1\r\n", b"*2\r\n:100\r\n:100\r\n", OK]
    with Connection(before_it.port) as other:
        for cut in range(len(stream)):
            with Connection(before_it.port) as client:
                client.send(stream[:cut])
                assert other.ask("PING") == NOAUTH
                client.send(stream[cut:])
                received = client.read_to_end()
                replies = received.splitlines(keepends=True)
                assert replies.pop(1).startswith(b"-WRONGPASS")
                assert b"".join(replies) == b"".join(answers)


def _refused_logins(direct: Connection) -> list[bytes]:
    """How many AUTH Redis has refused, if any: the proxy's own are not among them."""
    stats = direct.ask("INFO", "commandstats")
    return re.findall(rb"cmdstat_auth:.*?failed_calls=([1-9]\d*)", stats)


def test_a_login_goes_to_redis_behind_the_replies_before_it(
    locked: Server, start_proxy: StartProxy
) -> None:
    """Redis 8.2 sends no reply to a login that fails while it has other replies to send."""
    gate = Gate(NOAUTH)
    with Relay(locked.port, 1 << 16, on_reply=gate) as relay, gate:
        proxy = start_proxy(f"redis://:secret@127.0.0.1:{relay.port}")
        with (
            Connection(locked.port) as direct,
            Connection(proxy.port) as client,
            Connection(proxy.port) as other,
        ):
            assert direct.ask("AUTH", "secret") == OK
            assert other.ask("PING") == NOAUTH
            assert direct.ask("CONFIG", "RESETSTAT") == OK
            gate.arm()
            client.send(PING + command("AUTH", "client"))
            assert gate.held.wait(30)
            assert other.ask("PING") == NOAUTH
            assert _refused_logins(direct) == []
            gate.release()
            assert client.read_many(2)[0] == NOAUTH
            assert _refused_logins(direct) == [b"1"]
        proxy.stop()


def test_what_an_unknown_client_asks_changes_nothing_for_others(
    locked: Server, before_it: Proxy
) -> None:
    with Connection(before_it.port) as stranger, Connection(before_it.port) as client:
        assert client.ask("AUTH", "secret") == OK
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
        for words in (("MULTI",), ("HSET", "h", "f", "w"), ("DEL", "h"), ("GET", "__ttl:rules")):
            assert stranger.ask(*words) == NOAUTH
        assert has_ttl(client.ask("HTTLFIELD", "h", "f"), 100)


def test_a_server_that_asks_for_a_password_from_now_on_knows_its_clients_still(
    locked: Server, before_it: Proxy
) -> None:
    many = ("HSETEX", "h", "EX", 100, "FIELDS", 5, *"a1b2c3d4e5")
    with ExitStack() as stack:
        direct = stack.enter_context(Connection(locked.port))
        assert direct.ask("AUTH", "secret") == OK
        assert direct.ask("CONFIG", "SET", "requirepass", "") == OK

        def is_open() -> bool:
            with Connection(before_it.port) as new:
                return new.ask("HTTLFIELD", "h", "a") != NOAUTH

        wait_until(is_open, "a server without a password")
        early = stack.enter_context(Connection(before_it.port))
        assert early.ask(*many) == b":1\r\n"
        assert direct.ask("CONFIG", "SET", "requirepass", "secret") == OK
        wait_until(lambda: not is_open(), "a server with a password")
        assert early.ask(*many) == b":1\r\n"


CEILING = 24 << 20
MANY = 30


@both_loops
@pytest.mark.any_server
@pytest.mark.parametrize("before", [b"", WRONG], ids=["at once", "after a wrong password"])
def test_large_requests_before_the_login_take_no_memory(before_it: Proxy, before: bytes) -> None:
    with Connection(before_it.port) as client:
        assert client.ask("PING") == NOAUTH
        before_it.forget_peak()
        start = before_it.rss_bytes()
        for _ in range(MANY):
            stack_in(before_it.port, before)
        assert client.ask("PING") == NOAUTH
        assert before_it.peak_bytes() - start < CEILING


def stack_in(port: int, before: bytes) -> None:
    """A client that sends as much of a bomb as is accepted."""
    with Connection(port) as client:
        client.send(before + BOMB)
        with contextlib.suppress(OSError):
            for _ in range(16):
                client.send(b"x" * (1 << 20))
