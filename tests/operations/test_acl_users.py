"""Clients with ACL users of their own: rights that deadlines need, and what works without."""

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.docs.generated import script_commands
from tests.support.containers import AnyServer
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import SHARED
from tests.support.server_queries import until_called_by_digest
from tests.support.servers import Proxy
from ttlproxy.commands.router import VIRTUALS

OK = b"+OK\r\n"
# The rights that a user needs according to docs/security.md.
NEEDED = [*(f"+{name}" for name in script_commands()), "+eval", "+evalsha", "~__ttl:*"]
OWN = ["~app:*", "+@hash", "+exists"]

LogIn = Callable[..., Connection]


def _is_known(direct: Connection, rule: str) -> bool:
    """Whether the server has the command that a rule allows, if the rule is for one command."""
    if rule[0] != "+" or rule[1] == "@":
        return True
    none = (b"*1\r\n*-1\r\n", b"*1\r\n$-1\r\n")
    return direct.ask("COMMAND", "INFO", rule[1:]) not in none


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A hash that only this test uses, so the proxy knows nothing about it."""
    return f"app:{request.node.name}"


@pytest.fixture
def log_in(proxy: Proxy, server: AnyServer, key: str) -> Iterator[LogIn]:
    """log_in(*rules) opens a connection to the proxy as a user with these rules.

    The rules are set through the proxy, so it reads them at once; else within ten seconds.
    """
    with ExitStack() as stack:
        direct = stack.enter_context(Connection(server.port))
        through = stack.enter_context(Connection(proxy.port))
        stack.callback(direct.ask, "ACL", "DELUSER", "app")

        def log_in(*rules: str) -> Connection:
            known = [rule for rule in rules if _is_known(direct, rule)]
            assert through.ask("ACL", "SETUSER", "app", "reset", "on", ">word", *known) == OK
            assert through.ask("PING") == b"+PONG\r\n"  # the proxy has read the rules by now
            client = stack.enter_context(Connection(proxy.port))
            assert client.ask("AUTH", "app", "word") == OK
            assert direct.ask("HSET", key, "f", "v", "g", "w") == b":2\r\n"
            return client

        yield log_in


def test_a_user_with_what_the_readme_lists_has_deadlines_on_its_keys(
    log_in: LogIn, key: str
) -> None:
    client = log_in(*OWN, *NEEDED)
    assert client.ask("HEXPIREFIELD", key, "f", 100) == b":1\r\n"
    assert has_ttl(client.ask("HTTLFIELD", key, "f"), 100)
    assert client.ask("HSET", key, "f", "anew") == b":0\r\n"
    assert client.ask("HTTLFIELD", key, "f") == b":-1\r\n"
    assert client.ask("HSETEX", key, "PX", 30, "FIELDS", 1, "f", "soon") == b":1\r\n"
    wait_until(lambda: client.ask("HEXISTS", key, "f") == b":0\r\n", "the field gone")


def test_and_none_on_those_of_others(log_in: LogIn, app: Connection, key: str) -> None:
    assert app.ask("HSET", "other:h", "f", "v") == b":1\r\n"
    client = log_in(*OWN, *NEEDED)
    assert client.ask("HEXPIREFIELD", "other:h", "f", 100).startswith(b"-NOPERM")
    assert app.ask("HTTLFIELD", "other:h", "f") == b":-1\r\n"


def test_who_may_not_touch_indexes_watches_keys_all_the_same(
    log_in: LogIn, app: Connection, key: str
) -> None:
    client = log_in(*OWN, "+@transaction")
    assert client.ask("WATCH", key) == OK
    assert app.ask("HSET", key, "f", "changed") == b":0\r\n"
    assert client.ask("MULTI") == OK
    assert client.ask("HGET", key, "f") == b"+QUEUED\r\n"
    assert client.ask("EXEC") == b"*-1\r\n"


@pytest.mark.parametrize("lacking", ["+evalsha", "+time", "+zadd", "~__ttl:*"])
def test_without_one_of_these_rights_a_deadline_is_refused_and_nothing_changes(
    log_in: LogIn,
    app: Connection,
    server: AnyServer,
    direct_keys: Callable[[], list[bytes]],
    key: str,
    lacking: str,
) -> None:
    until_called_by_digest(server.port, app)
    client = log_in(*OWN, *[right for right in NEEDED if right.lower() != lacking])
    reply = client.ask("HEXPIREFIELD", key, "f", 100)
    assert re.match(rb"-.*(NOPERM|permission|can't run|can't access)", reply), reply
    assert direct_keys() == [key.encode()]
    assert client.ask("HGET", key, "f") == b"$1\r\nv\r\n"


def test_a_user_with_what_the_readme_lists_may_use_every_command(log_in: LogIn) -> None:
    """This includes scripts that build the names of the commands they call.

    If the server has a command itself, the user needs the right to that one too.
    """
    natives = (f"+{name}" for name in VIRTUALS)
    client = log_in("~*", "&*", *(rule for rule in NEEDED if rule[0] == "+"), *natives)
    for virtual in VIRTUALS.values():
        for line, _ in virtual.example:
            reply = client.ask(*shlex.split(line))
            assert not re.search(rb"NOPERM|can't run this command", reply), (line, reply)


@pytest.fixture
def direct_keys(server: AnyServer) -> Iterator[Callable[[], list[bytes]]]:
    """All keys in Redis."""
    with Connection(server.port) as direct:
        yield lambda: sorted(set(direct.ask("KEYS", "*").split(b"\r\n")[2::2]) - SHARED)


# Asked twice in a row, these give the same replies.
NATIVE = [
    ("HSET", "app:n", "f", "1"),
    ("HGETALL", "app:n"),
    ("HEXISTS", "app:n", "f"),
    ("HSETNX", "app:n", "f", "2"),
    ("GET", "app:n"),
    ("HSET", "never-managed", "f", "1"),
    ("ACL", "WHOAMI"),
    ("EVAL", "return 1", "0"),
]


def test_a_user_without_scripts_does_all_else_as_before(log_in: LogIn, server: AnyServer) -> None:
    client = log_in(*OWN)
    assert client.ask("HSET", "app:n", "f", "1") == b":1\r\n"
    with Connection(server.port) as past:
        assert past.ask("AUTH", "app", "word") == OK
        for words in NATIVE:
            assert client.ask(*words) == past.ask(*words)


def test_it_reads_keys_with_deadlines_and_writes_none(
    log_in: LogIn, app: Connection, key: str
) -> None:
    client = log_in(*OWN)
    assert app.ask("HPEXPIREFIELD", key, "f", 40) == b":1\r\n"
    assert app.ask("HEXPIREFIELD", key, "g", 100) == b":1\r\n"
    assert client.ask("HGET", key, "g") == b"$1\r\nw\r\n"
    wait_until(lambda: client.ask("HLEN", key) == b":1\r\n", "the field gone, by the link")
    assert client.ask("HSET", key, "g", "x").startswith(b"-NOPERM")
    assert client.ask("HGET", key, "g") == b"$1\r\nw\r\n"


# Redis itself answers these to each of the users below.
COUNTS = ["DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY", "COMMAND COUNT"]
COUNTING = "~app:* +dbsize +scan +keys +randomkey +command"


@pytest.mark.parametrize("past", [False, True], ids=["through the proxy", "past it"])
@pytest.mark.parametrize(
    "rules",
    [
        COUNTING,
        f"{COUNTING} +eval +evalsha",
        f"{COUNTING} +eval +evalsha ~__ttl:*",
        "~app:* +@all",
        "~app:* ~__ttl:schedule ~__ttl:others +@all",
        "~* +@all -zcard",
        "~* +@all -exists",
    ],
)
def test_who_may_count_keys_may_do_so_from_the_moment_on_that_the_user_is_there(
    start_server: StartServer, start_proxy: StartProxy, rules: str, past: bool
) -> None:
    """The proxy's own script for it may need rights that the user does not have."""
    server = start_server()
    proxy = start_proxy(server.url)
    with ExitStack() as stack:
        admin = stack.enter_context(Connection(server.port if past else proxy.port))
        admin.ask("SET", "app:k", "v")
        assert admin.ask("ACL", "SETUSER", "new", "on", ">word", *rules.split()) == OK
        client = stack.enter_context(Connection(proxy.port))
        client.send(b"".join(command(*words.split()) for words in ("AUTH new word", *COUNTS)))
        login, *replies = client.read_many(1 + len(COUNTS))
        assert login == OK
        assert [reply for reply in replies if reply.startswith(b"-")] == []


def test_a_right_that_is_taken_away_counts_for_the_next_request(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as admin, Connection(proxy.port) as client:
        assert admin.ask("ACL", "SETUSER", "new", "on", ">word", "~*", "+@all") == OK
        assert client.ask("AUTH", "new", "word") == OK
        client.ask("SET", "k", "v")
        assert client.ask("DBSIZE") == b":1\r\n"
        assert admin.ask("ACL", "SETUSER", "new", "-@scripting") == OK
        assert admin.ask("PING") == b"+PONG\r\n", "the proxy has looked by now"
        assert client.ask("DBSIZE").startswith(b":")


@pytest.mark.parametrize("user", ["new", "default"])
def test_a_stranger_logs_in_as_somebody_new(
    start_server: StartServer, start_proxy: StartProxy, user: str
) -> None:
    server = start_server("--requirepass", "word")
    proxy = start_proxy(f"redis://:word@127.0.0.1:{server.port}")
    with Connection(server.port) as direct, Connection(proxy.port) as client:
        direct.ask("AUTH", "word")
        assert direct.ask("ACL", "SETUSER", "new", "on", ">word", *COUNTING.split(), "+ping") == OK
        words = [f"AUTH {user} wrong", f"AUTH {user} word", "DBSIZE", "PING"]
        client.send(b"".join(command(*each.split()) for each in words))
        wrong, right, size, pong = client.read_many(4)
        assert wrong.startswith(b"-WRONGPASS")
        assert (right, size[:1], pong) == (OK, b":", b"+PONG\r\n")


def test_who_has_not_logged_in_is_told_so_by_redis(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--requirepass", "word")
    proxy = start_proxy(f"redis://:word@127.0.0.1:{server.port}")
    with Connection(proxy.port) as client, Connection(server.port) as past:
        for words in (
            ("GET", "k"),
            ("AUTH", "wrong"),
            ("AUTH", "nobody", "word"),
            ("HELLO", "3"),
            ("HELLO", "3", "AUTH", "default", "wrong"),
            ("AUTH", "word"),
            ("GET", "k"),
        ):
            assert client.ask(*words) == past.ask(*words)
        assert client.ask("HEXPIREFIELD", "h", "f", 100) == b":-2\r\n"
    with Connection(proxy.port) as client:
        assert client.ask("HEXPIREFIELD", "h", "f", 100).startswith(b"-NOAUTH")


def test_a_key_that_got_no_deadline_is_written_by_who_may_run_no_scripts(
    log_in: LogIn, app: Connection, key: str
) -> None:
    """A request of others that sets no deadline keeps nobody from writing to the key."""
    client = log_in(*OWN)

    def written() -> bytes:
        assert app.ask("HEXPIREFIELD", key, "none", 100) == b":-2\r\n"
        return client.ask("HSET", key, "f", "anew")

    wait_until(lambda: written() == b":0\r\n", "the rights known")
    assert {written() for _ in range(20)} == {b":0\r\n"}
    assert app.ask("HEXPIREFIELD", key, "f", 100) == b":1\r\n"
    assert client.ask("HSET", key, "f", "anew").startswith(b"-NOPERM")
    assert has_ttl(app.ask("HTTLFIELD", key, "f"), 100)
