"""Clients with ACL users of their own: what deadlines need, and what there is without."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.asked import until_called_by_digest
from tests.conftest import StartProxy, StartServer
from tests.containers import AnyServer
from tests.content import SHARED
from tests.processes import wait_until
from tests.raw import Connection
from tests.servers import Proxy
from tests.test_readme import script_commands

OK = b"+OK\r\n"
# What the README says that a user needs.
NEEDED = [*(f"+{name}" for name in script_commands()), "+eval", "+evalsha", "~__ttl:*"]
OWN = ["~app:*", "+@hash", "+exists"]

LogIn = Callable[..., Connection]


def _is_known(direct: Connection, rule: str) -> bool:
    """Whether the server has the command that a rule allows, if it is one command."""
    if rule[0] != "+" or rule[1] == "@":
        return True
    none = (b"*1\r\n*-1\r\n", b"*1\r\n$-1\r\n")
    return direct.ask("COMMAND", "INFO", rule[1:]) not in none


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A hash that this test alone uses, so that nothing is known of it from before."""
    return f"app:{request.node.name}"


@pytest.fixture
def log_in(proxy: Proxy, server: AnyServer, key: str) -> Iterator[LogIn]:
    """log_in(*rules) is a connection to the proxy as a user that has these rules."""
    with ExitStack() as stack:
        direct = stack.enter_context(Connection(server.port))
        stack.callback(direct.ask, "ACL", "DELUSER", "app")

        def log_in(*rules: str) -> Connection:
            known = [rule for rule in rules if _is_known(direct, rule)]
            assert direct.ask("ACL", "SETUSER", "app", "reset", "on", ">word", *known) == OK
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
    assert client.ask("HTTLFIELD", key, "f") == b":100\r\n"
    assert client.ask("HSET", key, "f", "anew") == b":0\r\n"
    assert client.ask("HTTLFIELD", key, "f") == b":-1\r\n"
    assert client.ask("HSETEX", key, "PX", 30, "FIELDS", 1, "f", "soon") == b":1\r\n"
    wait_until(lambda: client.ask("HEXISTS", key, "f") == b":0\r\n", "the field gone")


def test_and_none_on_those_of_others(log_in: LogIn, app: Connection, key: str) -> None:
    assert app.ask("HSET", "other:h", "f", "v") == b":1\r\n"
    client = log_in(*OWN, *NEEDED)
    assert client.ask("HEXPIREFIELD", "other:h", "f", 100).startswith(b"-NOPERM")
    assert app.ask("HTTLFIELD", "other:h", "f") == b":-1\r\n"


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


@pytest.fixture
def direct_keys(server: AnyServer) -> Iterator[Callable[[], list[bytes]]]:
    """All that there is in Redis."""
    with Connection(server.port) as direct:
        yield lambda: sorted(set(direct.ask("KEYS", "*").split(b"\r\n")[2::2]) - SHARED)


# Asked twice in a row they bring the same replies.
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
