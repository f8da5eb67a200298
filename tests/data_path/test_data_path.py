"""Bytes through the proxy: whole, in order, whatever their size, their pieces and their number.
Knows few commands, and no deadline."""

import socket
import struct

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.relay import Relay
from tests.support.server_queries import clients, largest_query, until_blocked
from tests.support.servers import Proxy, unshared

MIB = 1 << 20
LINGER_0 = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

VARIED = (
    command("DEL", "h", "l", "z", "counter")
    + command("HSET", "h", "a", "1", "b", b"\x00\r\n")
    + b"\r\n"
    + command("HGETALL", "h")
    + b"INCR counter\r\n"
    + command("RPUSH", "l", "x", "y")
    + command("MULTI")
    + command("LRANGE", "l", "0", "-1")
    + b"*0\r\n"
    + command("GET", "missing")
    + command("EXEC")
    + command("HEXPIREFIELD", "h", "a", "100")
    + command("NOSUCH", "command")
    + command("EVAL", "return {1, {2, 'three'}, false}", "0")
)
VARIED_REPLIES = 12


def _bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


@both_loops
def test_a_request_split_anywhere_is_answered_whole(app: Connection) -> None:
    app.send(VARIED * 2)
    expected = app.read_many(2 * VARIED_REPLIES)[VARIED_REPLIES:]
    assert expected[9] == b":1\r\n"
    for cut in range(1, len(VARIED)):
        app.send(command("PING") + VARIED[:cut])
        assert app.read() == b"+PONG\r\n"  # so the first part has been read by now
        app.send(VARIED[cut:])
        assert app.read_many(VARIED_REPLIES) == expected, f"cut after {VARIED[:cut]!r}"


@pytest.mark.parametrize("piece", [1, 2, 7])
@both_loops
def test_a_reply_split_anywhere_arrives_whole(
    server: AnyServer, start_proxy: StartProxy, piece: int
) -> None:
    large = command("SET", "big", b"x" * 5000) + command("MGET", "big", "missing")
    with Relay(server.port, piece) as relay:
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        with Connection(proxy.port) as client:
            client.send(command("HELLO", "3") + VARIED + large)
            answers = client.read_many(VARIED_REPLIES + 3)
        proxy.stop()
    assert answers[3] == b"%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$3\r\n\x00\r\n\r\n"
    assert answers[9:11] == [b"*2\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n_\r\n", b":1\r\n"]
    assert answers[-1] == b"*2\r\n" + _bulk(b"x" * 5000) + b"_\r\n"


@both_loops
def test_a_client_that_half_closes_gets_every_reply_owed(app: Connection) -> None:
    app.send(b"PING\r\nECHO hi\r\nSET a b\r\n")
    app.half_close()
    assert app.read_to_end() == b"+PONG\r\n$2\r\nhi\r\n+OK\r\n"


@both_loops
def test_64_replies_of_1_mib_reach_a_client_that_half_closed(app: Connection) -> None:
    value = bytes(range(256)) * (MIB // 256)
    assert app.ask("SET", "big", value) == b"+OK\r\n"
    app.send(command("GET", "big") * 64)
    app.half_close()
    replies = app.read_to_end()
    assert len(replies) == 64 * len(_bulk(value))
    assert replies == _bulk(value) * 64


def test_a_half_close_inside_a_request_costs_no_earlier_reply(app: Connection) -> None:
    app.send(b"PING\r\n*2\r\n$3\r\nGET\r\n$10\r\nabc")
    app.half_close()
    assert app.read_to_end() == b"+PONG\r\n"


def test_a_half_close_inside_what_only_some_servers_read_ends_as_without_a_proxy(
    app: Connection, server: AnyServer
) -> None:
    ends = []
    with Connection(server.port) as direct:
        for client in (app, direct):
            client.send(b"PING\r\n*1048577\r\n$4\r\nPING\r\n")
            client.half_close()
            ends.append(client.read_to_end())
    assert ends[0] == ends[1]


def test_a_half_close_inside_multi_runs_nothing(app: Connection, direct: Client) -> None:
    app.send(b"MULTI\r\nSET a b\r\n")
    app.half_close()
    assert app.read_to_end() == b"+OK\r\n+QUEUED\r\n"
    assert direct.ask("EXISTS", "a") == 0


def test_a_half_close_with_replies_off_brings_no_byte(app: Connection, direct: Client) -> None:
    app.send(b"CLIENT REPLY OFF\r\nSET a b\r\n")
    app.half_close()
    assert app.read_to_end() == b""
    assert direct.ask("GET", "a") == b"b"


def test_a_half_closed_subscriber_gets_its_confirmation_and_the_end(app: Connection) -> None:
    app.send(command("SUBSCRIBE", "news"))
    confirmation = app.read()
    app.half_close()
    assert confirmation == b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
    assert app.read_to_end() == b""


def test_a_client_that_closes_while_blocked_takes_no_element(
    app: Connection, server: AnyServer, direct: Client
) -> None:
    app.send(command("PING") + command("BLPOP", "queue", "0"))
    until_blocked(server.port, 1)
    app.half_close()
    assert app.read_to_end() == b"+PONG\r\n"
    assert direct.ask("RPUSH", "queue", "job") == 1
    assert direct.ask("LLEN", "queue") == 1


def test_after_quit_the_connection_ends_and_later_requests_are_not_run(
    app: Connection, direct: Client
) -> None:
    app.send(command("PING") + command("QUIT") + command("SET", "late", "1"))
    assert app.read_to_end() == b"+PONG\r\n+OK\r\n"
    assert direct.ask("EXISTS", "late") == 0


@both_loops
def test_a_value_of_8_mib_goes_in_and_comes_out(app: Connection) -> None:
    value = bytes(range(256)) * (8 * MIB // 256)
    assert app.ask("SET", "large", value) == b"+OK\r\n"
    assert app.ask("GET", "large") == _bulk(value)


@both_loops
def test_a_value_of_16_mib_that_cannot_pass_unread_reaches_redis_as_fast_as_that_takes_it(
    app: Connection,
) -> None:
    value = b"v" * (16 * MIB)
    assert app.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
    app.send(command("HSET", "h", "f", value) + command("HSTRLEN", "h", "f"))
    assert app.read_many(2) == [b":0\r\n", b":%d\r\n" % len(value)]


def test_a_key_that_gets_a_deadline_while_its_replacement_passes_leaves_no_index(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The servers are its own: after many families of other tests all keys are of one."""
    server, key = start_server(), "k"
    proxy = start_proxy(server.url)
    request = command("SET", key, b"v" * MIB)
    with Connection(proxy.port) as slow, Connection(proxy.port) as quick:
        assert quick.ask("HSET", key, "f", "v") == b":1\r\n"
        slow.send(request[: MIB // 2])
        wait_until(lambda: largest_query(server.port) > MIB // 4, "Redis has the first half")
        assert quick.ask("HEXPIREFIELD", key, "f", "100") == b":1\r\n"
        slow.send(request[MIB // 2 :])
        assert slow.read() == b"+OK\r\n"
        with Connection(server.port) as direct:
            index = ("KEYS", f"__ttl:{{*:{key}")
            wait_until(lambda: direct.ask(*index) == b"*0\r\n", "the index is gone")


@both_loops
def test_a_half_close_inside_a_large_value_costs_no_earlier_reply(app: Connection) -> None:
    app.send(command("PING") + command("SET", "large", b"v" * MIB)[:-100])
    app.half_close()
    assert app.read_to_end() == b"+PONG\r\n"


@pytest.mark.parametrize("words", [("HSETEX", "h", "EX", "100", "FIELDS", "1", "f"), ("HGETALL",)])
def test_a_request_that_cannot_pass_unread_has_a_limit_and_an_error(
    serve: StartProxy, words: tuple[str, ...]
) -> None:
    proxy = serve("--max-request-bytes", str(MIB))
    large = command(*words, b"v" * (2 * MIB), "more")
    setting = b"its setting is max_request_bytes"
    refused = b"-ERR the request is larger than ttlproxy keeps; %b\r\n" % setting
    with Connection(proxy.port) as client:
        client.send(command("HSET", "h", "a", "1") + large + command("HLEN", "h"))
        assert client.read_many(3) == [b":1\r\n", refused, b":1\r\n"]
        client.send(command("MULTI") + command("HSET", "h", "b", "2") + large + command("EXEC"))
        replies = client.read_many(4)
        assert replies[:2] == [b"+OK\r\n", b"+QUEUED\r\n"]
        assert replies[2].startswith(b"-ERR unknown command")
        assert replies[3].startswith(b"-EXECABORT")
        assert client.ask("HEXPIREFIELD", "h", "a", "100") == b":1\r\n"


@unshared
@both_loops
def test_300_clients_at_once_each_get_their_own_replies(proxy: Proxy, server: AnyServer) -> None:
    crowd = [Connection(proxy.port) for _ in range(300)]
    try:
        for number, client in enumerate(crowd):
            client.send(command("SET", f"k{number}", number) + command("GET", f"k{number}"))
        for number, client in enumerate(crowd):
            assert client.read_many(2) == [b"+OK\r\n", _bulk(b"%d" % number)]
        assert clients(server.port) >= 300
    finally:
        for client in crowd:
            client.close()
    wait_until(lambda: clients(server.port) < 100, "their connections to Redis are gone")


def test_a_client_that_vanishes_while_blocked_leaves_nothing_behind(
    proxy: Proxy, server: AnyServer
) -> None:
    with Connection(proxy.port) as client:
        client.send(command("BLPOP", "queue", "0"))
        until_blocked(server.port, 1)
        # A reset instead of an end: a killed process leaves its connections like that.
        client.socket.setsockopt(*LINGER_0)
    until_blocked(server.port, 0)


@both_loops
def test_a_client_that_goes_without_reading_does_not_keep_the_proxy_from_ending(
    serve: StartProxy,
) -> None:
    proxy = serve("--drain-max", "600")
    for _ in range(50):
        with Connection(proxy.port) as client:
            client.send(command("PING"))
            client.half_close()
    proxy.terminate()
    assert proxy.wait() == 0


@both_loops
def test_clients_that_have_gone_hold_no_sockets_of_the_proxy(proxy: Proxy) -> None:
    before = proxy.open_files()
    for _ in range(200):
        with Connection(proxy.port) as client:
            assert client.ask("PING") == b"+PONG\r\n"
    assert proxy.open_files() - before < 100


def test_a_client_that_redis_kills_sees_its_connection_end(proxy: Proxy) -> None:
    with Connection(proxy.port) as victim, Connection(proxy.port) as killer:
        number = int(victim.ask("CLIENT", "ID")[1:-2])
        assert killer.ask("CLIENT", "KILL", "ID", number) == b":1\r\n"
        assert victim.read_to_end() == b""
