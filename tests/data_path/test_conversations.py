"""Connections with state: transactions, subscriptions, blocking, users. Each test would be the
same without the proxy; those of one client alone are generated, in test_differential."""

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.deadlines import has_ttl
from tests.support.event_loops import both_loops
from tests.support.raw_client import Connection, command
from tests.support.server_queries import until_blocked

OK = b"+OK\r\n"


@both_loops
def test_a_subscriber_under_resp2_gets_every_message(app: Connection, other: Connection) -> None:
    assert app.ask("SUBSCRIBE", "news") == b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
    assert app.ask("PSUBSCRIBE", "n*") == b"*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n"
    assert other.ask("PUBLISH", "news", "hello") == b":2\r\n"
    assert app.read_many(2) == [
        b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n",
        b"*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nhello\r\n",
    ]
    assert app.ask("GET", "k").startswith(b"-ERR Can't execute 'get'")
    assert app.ask("PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert app.ask("UNSUBSCRIBE", "news") == b"*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:1\r\n"
    assert app.ask("PUNSUBSCRIBE", "n*") == b"*3\r\n$12\r\npunsubscribe\r\n$2\r\nn*\r\n:0\r\n"
    assert app.ask("PING") == b"+PONG\r\n"


@both_loops
def test_a_subscriber_under_resp3_gets_pushes_between_its_replies(
    app: Connection, other: Connection
) -> None:
    assert app.ask("HELLO", "3").startswith(b"%7\r\n")
    assert app.ask("SUBSCRIBE", "news") == b">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
    assert app.ask("SET", "k", "v") == OK
    assert other.ask("PUBLISH", "news", "hello") == b":1\r\n"
    assert app.read() == b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n"
    assert app.ask("GET", "k") == b"$1\r\nv\r\n"


@both_loops
def test_a_client_blocked_on_a_list_is_woken_by_another(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.send(command("BLPOP", "queue", "0") + command("PING"))
    until_blocked(server.port, 1)
    assert other.ask("RPUSH", "queue", "job") == b":1\r\n"
    assert app.read_many(2) == [b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n", b"+PONG\r\n"]


def test_a_client_blocked_on_a_stream_is_woken_by_another(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.send(command("XREAD", "BLOCK", "0", "STREAMS", "events", "$"))
    until_blocked(server.port, 1)
    other.ask("XADD", "events", "1-1", "f", "v")
    entry = b"*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    assert app.read() == b"*1\r\n*2\r\n$6\r\nevents\r\n*1\r\n" + entry


@both_loops
def test_a_transaction_runs_as_one(app: Connection) -> None:
    app.send(b"MULTI\r\nINCR n\r\nHSET h f v\r\nLPUSH n x\r\nGET n\r\nEXEC\r\n")
    assert app.read_many(5) == [OK, *[b"+QUEUED\r\n"] * 4]
    wrongtype = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    assert app.read() == b"*4\r\n:1\r\n:1\r\n" + wrongtype + b"$1\r\n1\r\n"


def test_a_watched_key_that_another_client_changes_aborts_exec(
    app: Connection, other: Connection
) -> None:
    assert app.ask("WATCH", "k") == OK
    assert other.ask("SET", "k", "1") == OK
    app.send(b"MULTI\r\nSET k 2\r\nEXEC\r\n")
    assert app.read_many(3) == [OK, b"+QUEUED\r\n", b"*-1\r\n"]
    assert app.ask("GET", "k") == b"$1\r\n1\r\n"


@both_loops
def test_monitor_shows_what_other_clients_send(app: Connection, other: Connection) -> None:
    assert app.ask("MONITOR") == OK
    assert other.ask("SET", "watched", "1") == OK
    shown = [app.read()]
    while b'"SET" "watched" "1"' not in shown[-1]:  # the proxy's own commands are shown too
        shown.append(app.read())
    assert all(line.startswith(b"+") for line in shown)


@both_loops
def test_a_tracking_client_is_told_of_another_clients_write(
    app: Connection, other: Connection
) -> None:
    app.ask("HELLO", "3")
    assert app.ask("CLIENT", "TRACKING", "ON") == OK
    assert app.ask("GET", "k") == b"_\r\n"
    assert other.ask("SET", "k", "1") == OK
    assert app.read() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


def test_client_reply_off_silences_every_reply_until_on(app: Connection) -> None:
    app.send(b"CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nNOSUCH\r\nCLIENT REPLY ON\r\nGET a\r\n")
    assert app.read_many(2) == [OK, b"$1\r\n1\r\n"]


def test_client_reply_skip_silences_one_virtual_command(app: Connection) -> None:
    app.send(b"HSET h a 1\r\nCLIENT REPLY SKIP\r\nHEXPIREFIELD h a 100\r\nHTTLFIELD h a\r\n")
    first, ttl = app.read_many(2)
    assert (first, has_ttl(ttl, 100)) == (b":1\r\n", True)


def test_an_empty_line_uses_up_client_reply_skip(app: Connection) -> None:
    """As in Redis: whatever resets the client resets the flag."""
    app.send(b"HSET h a 1\r\nCLIENT REPLY SKIP\r\n\r\nHEXPIREFIELD h a 100\r\n")
    assert app.read_many(2) == [b":1\r\n", b":1\r\n"]


def test_each_client_has_its_own_database_and_name(app: Connection, other: Connection) -> None:
    assert app.ask("SELECT", "1") == OK
    assert app.ask("CLIENT", "SETNAME", "me") == OK
    assert app.ask("SET", "k", "1") == OK
    assert other.ask("EXISTS", "k") == b":0\r\n"
    assert other.ask("CLIENT", "GETNAME") == b"$-1\r\n"
    assert app.ask("CLIENT", "GETNAME") == b"$2\r\nme\r\n"


def test_an_acl_user_is_the_user_redis_sees(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--user", *["alice", "on", ">wonder", "~a:*", "+@all", "-flushall"])
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as app:
        assert app.ask("HELLO", "3", "AUTH", "alice", "wonder").startswith(b"%7\r\n")
        assert app.ask("ACL", "WHOAMI") == b"$5\r\nalice\r\n"
        assert app.ask("SET", "a:k", "1") == OK
        assert app.ask("SET", "b:k", "1").startswith(b"-NOPERM")
        assert app.ask("FLUSHALL").startswith(b"-NOPERM")
