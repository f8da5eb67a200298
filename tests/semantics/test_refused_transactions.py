"""What Redis refuses at EXEC it refuses as a whole, also where scripts carry the commands out; of
what tells it so, clients see nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command

# A setting that Redis looks at again when EXEC comes: as it is meanwhile, and otherwise.
FULL = ("maxmemory", "1", "0")
ALONE = ("min-replicas-to-write", "1", "0")
FILLED = ("SADD A x y", "SADD B z", "HSET h a 1 b 2", "ZADD z 1 a 2 b", "RPUSH l a b", "SET text t")
DATED = (
    *("SEXPIREMEMBER A x 1000", "SEXPIREMEMBER B z 1000", "HEXPIREFIELD h a 1000"),
    *("ZEXPIREMEMBER z a 1000", "LEXPIREELEMENT l a 1000", "ONWRITE ruled EX 1000"),
)
CONTENT = (
    *("SISMEMBER A x", "SISMEMBER B x", "SCARD A", "SCARD B", "EXISTS C", "HGET h a", "HGET h b"),
    *("ZRANGE z 0 -1 WITHSCORES", "LRANGE l 0 -1", "PTTL l", "GET text", "TYPE ruled"),
)
# Some need memory, some only write, one only reads.
TRANSACTIONS = {
    "a member that moves": ["SADD B x", "SREM A x"],
    "a field": ["HSET h a 2", "HDEL h b"],
    "a score": ["ZADD z 9 a", "ZREM z b"],
    "an element": ["RPUSH l c", "LREM l 0 a"],
    "a copy": ["COPY A C", "DEL A"],
    "a key without deadlines": ["SADD C x", "SREM A x"],
    "a rule": ["SADD ruled a", "SREM A x"],
    "a string too": ["SREM A x", "APPEND text t", "SADD B x"],
    "what needs no memory": ["SREM A x", "HDEL h a", "DEL z", "PERSIST l", "RENAME B C"],
    "what is read": ["SCARD A", "HGET h a", "LRANGE l 0 -1"],
}
# What the server does not have -> what it refuses instead, in the same cases.
OURS = {
    "SEXPIREMEMBER A y 100": "SADD A y",
    "SADDEX B 100 x": "SADD B x",
    "LEASE l A EX 100": "SADD A y",
    "SPERSISTMEMBER A x": "PERSIST A",
    "STTLMEMBER A x": "TTL A",
}


@pytest.fixture
def both(app: Connection, server: AnyServer, plain: AnyServer) -> Iterator[list[Connection]]:
    """Clients of the proxy and of a plain server, with the same data."""
    with Connection(plain.port) as bare:
        for client, lines in ((app, FILLED + DATED), (bare, FILLED)):
            for line in lines:
                assert not client.ask(*line.split()).startswith(b"-"), line
        yield [app, bare]


def _carried_out(
    both: Sequence[Connection],
    servers: Sequence[AnyServer],
    lines: Sequence[Sequence[str]],
    setting: tuple[str, str, str],
) -> list[bytes]:
    """The replies to EXEC, with a setting that changes after the last command was queued."""
    name, meanwhile, otherwise = setting
    for client, each in zip(both, lines, strict=True):
        assert client.ask("MULTI") == b"+OK\r\n"
        for line in each:
            assert client.ask(*line.split()) == b"+QUEUED\r\n"
    with ExitStack() as stack:
        direct = [stack.enter_context(Connection(server.port)) for server in servers]
        for client in direct:
            client.ask("CONFIG", "SET", name, meanwhile)
            client.ask("EVAL", "return 1", 0)  # before 7.0 a script's memory is measured only here
        replies = [client.ask("EXEC") for client in both]
        for client in direct:
            client.ask("CONFIG", "SET", name, otherwise)
    return replies


@pytest.mark.parametrize("setting", [FULL, ALONE], ids=lambda setting: setting[0])
@pytest.mark.parametrize("said", TRANSACTIONS.values(), ids=TRANSACTIONS)
def test_a_transaction_is_refused_as_a_whole_where_redis_refuses_it(
    both: list[Connection],
    server: AnyServer,
    plain: AnyServer,
    said: list[str],
    setting: tuple[str, str, str],
) -> None:
    app, bare = _carried_out(both, [server, plain], [said, said], setting)
    assert app == bare
    app_content, bare_content = [[client.ask(*line.split()) for line in CONTENT] for client in both]
    assert app_content == bare_content


@pytest.mark.parametrize("setting", [FULL, ALONE], ids=lambda setting: setting[0])
@pytest.mark.parametrize(("ours", "like"), OURS.items())
def test_a_transaction_with_a_command_of_ours_is_refused_as_a_whole(
    both: list[Connection],
    server: AnyServer,
    plain: AnyServer,
    ours: str,
    like: str,
    setting: tuple[str, str, str],
) -> None:
    lines = [["SREM B z", ours], ["SREM B z", like]]
    app, bare = _carried_out(both, [server, plain], lines, setting)
    if bare.startswith(b"-"):
        assert app == bare
    else:
        assert app.startswith(b"*2\r\n:1\r\n")
        assert b"-" not in app
    assert both[0].ask("SCARD", "B") == both[1].ask("SCARD", "B")


@pytest.mark.parametrize("lost", ["-sadd", "-srem", "-@write", "-scard", "resetkeys", "off"])
def test_a_command_whose_right_is_lost_before_exec_is_refused_alone(
    both: list[Connection], server: AnyServer, plain: AnyServer, lost: str
) -> None:
    """What is done is the same; the texts of the errors are not (docs/limits.md)."""
    found = []
    for client, of in zip(both, (server, plain), strict=True):
        with Connection(of.port) as direct:
            direct.ask("ACL", "SETUSER", "u", "reset", "on", "nopass", "~*", "&*", "+@all")
            for line in ("AUTH u p", "MULTI", "SADD B x", "SREM A x", "SCARD A"):
                client.ask(*line.split())
            direct.ask("ACL", "SETUSER", "u", lost)
            replies = re.sub(rb"-[^\r]*", b"-", client.ask("EXEC"))
            found.append((replies, [direct.ask(*line.split()) for line in CONTENT[:4]]))
            direct.ask("ACL", "DELUSER", "u")
    assert found[0] == found[1]


# Pipelines; the writes become scripts.
PIPELINES = {
    "a small write, then one that needs memory": "MULTI; SCARD A; SREM A x; GET text; SADD B x y;"
    " SCARD B; EXEC",
    "two in a row": "MULTI; SADD A n; EXEC; MULTI; SADD B n; LRANGE l 0 -1; HSET h a 3; EXEC",
    "a watched key that changes": "WATCH A; SADD A n; MULTI; SADD B n; EXEC; SCARD B",
    "a watched key in RESP3": "HELLO 3; WATCH A; SADD A n; MULTI; SADD B n; EXEC; SCARD B",
    "RESP3": "HELLO 3; MULTI; HSET h a 2; HGETALL h; ZRANGE z 0 -1 WITHSCORES; ZADD z 3 a; EXEC",
    "DISCARD": "MULTI; SADD A n; DISCARD; MULTI; SCARD A; EXEC; EXEC",
    "RESET": "MULTI; SADD A n; RESET; MULTI; SCARD A; EXEC",
    "MULTI in MULTI": "MULTI; SADD A n; MULTI; WATCH A; SADD B n; EXEC; SCARD A",
    "an error when it is queued": "MULTI; SADD A n; SADD A; SADD B n; EXEC; SCARD A",
    "an error when it is carried out": "MULTI; SADD A n; LPUSH A n; SADD B n; EXEC",
    "a wrong EXEC": "MULTI; SADD A n; EXEC now; EXEC; SCARD A",
    "MULTI that is refused": "ACL SETUSER default -multi; MULTI; SADD A n; EXEC;"
    " ACL SETUSER default +multi; MULTI; SADD A m; EXEC",
    "MULTI that is refused, and another": "ACL SETUSER default -multi; MULTI; SREM A x;"
    " ACL SETUSER default +multi; MULTI; SADD B n; SADD A m; EXEC",
    "no replies afterwards": "MULTI; SADD A n; EXEC; CLIENT REPLY OFF; SADD B n; CLIENT REPLY ON;"
    " SCARD B",
    "a subscription to nothing afterwards": "MULTI; SADD A n; EXEC; UNSUBSCRIBE; SCARD A",
    "no replies before": "CLIENT REPLY SKIP; PING; MULTI; SADD A n; SREM B z; EXEC; SCARD B",
}


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("said", PIPELINES.values(), ids=PIPELINES)
def test_a_transaction_has_the_replies_that_redis_gives(
    both: list[Connection], said: str, at_once: bool
) -> None:
    requests = [command(*line.split()) for line in said.split("; ")]
    replies = []
    for client in both:
        before = client.ask("PING")
        for each in [b"".join(requests)] if at_once else requests:
            client.send(each)
        client.send(command("ECHO", "the end"))
        got = [before]
        while got[-1] != b"$7\r\nthe end\r\n":
            got.append(client.read())
        replies.append([reply for reply in got if not reply.startswith(b"%")])
    assert replies[0] == replies[1]


def test_a_transaction_is_done_whole_when_there_is_memory_again(
    both: list[Connection], server: AnyServer
) -> None:
    """Redis 6.2 measures it for scripts when EVAL comes, whoever sends it."""
    app, _ = both
    for line in ("MULTI", "SADD B x", "SREM A x"):
        app.ask(*line.split())
    with Connection(server.port) as direct:
        direct.ask("CONFIG", "SET", "maxmemory", 1)
        direct.ask("EVAL", "return 1", 0)
        direct.ask("CONFIG", "SET", "maxmemory", "1gb")
        assert app.ask("EXEC") == b"*2\r\n:1\r\n:1\r\n"


@pytest.mark.parametrize("said", ["SUBSCRIBE c", "CLIENT REPLY OFF"])
def test_what_would_hide_the_end_of_a_reply_is_refused_where_one_is_to_be_found(
    both: list[Connection], server: AnyServer, said: str
) -> None:
    app, _ = both
    if server.name != "6.2":
        pytest.skip("from 7.0 on nothing is hidden")
    for line in ("MULTI", "SADD A n"):
        app.ask(*line.split())
    assert app.ask(*said.split()).startswith(b"-ERR unknown command")
    assert app.ask("EXEC").startswith(b"-EXECABORT")
    assert app.ask("SISMEMBER", "A", "n") == b":0\r\n"
