"""COMMAND and ACL CAT include the virtual commands, and redis-cli understands them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator
from typing import TypeAlias

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.requirements import absent
from tests.support.server_queries import calls
from tests.support.servers import Proxy
from ttlproxy.commands.introspection import Argument, arguments
from ttlproxy.commands.router import LONGER, VIRTUALS
from ttlproxy.commands.spec import Virtual

Reply: TypeAlias = "str | tuple[Reply, ...] | frozenset[Reply]"

NAMES = {name.lower() for name in VIRTUALS}
ALL = (*VIRTUALS.values(), *LONGER.values())


class _Reader:
    """RESP3 as values; sets and maps have no order."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def one(self) -> Reply:
        line, _, self.rest = self.rest.partition(b"\r\n")
        kind, head = line[:1], line[1:]
        if kind == b"$" and head != b"-1":
            bulk, self.rest = self.rest[: int(head)], self.rest[int(head) + 2 :]
            return bulk.decode()
        if kind not in b"*~%":
            return line.decode()
        if kind == b"%":
            return frozenset((self.one(), self.one()) for _ in range(int(head)))
        found = tuple(self.one() for _ in range(int(head)))
        return frozenset(found) if kind == b"~" else found


def _asked(port: int, hello: int, words: str) -> bytes:
    with Connection(port) as app:
        app.ask("HELLO", hello)
        return app.ask(*words.split())


def _lacked(direct: Client) -> set[str]:
    """The virtual commands that the server does not have itself."""
    return NAMES - {row[0].decode() for row in direct.ask("COMMAND")}


def test_the_virtual_commands_are_counted_and_listed(client: Client, direct: Client) -> None:
    lacked = _lacked(direct)
    assert client.ask("COMMAND", "COUNT") == direct.ask("COMMAND", "COUNT") + len(lacked)
    native, all_names = direct.ask("COMMAND", "LIST"), client.ask("COMMAND", "LIST")
    if isinstance(native, Exception):
        assert str(all_names) == str(native)
        return
    assert all_names[: len(native)] == native
    assert {name.decode() for name in all_names[len(native) :]} == lacked


@pytest.mark.parametrize("words", ["COMMAND", "COMMAND INFO", "COMMAND DOCS"])
def test_what_is_redis_own_stays_as_it_was(proxy: Proxy, server: AnyServer, words: str) -> None:
    native, reply = _asked(server.port, 2, words), _asked(proxy.port, 2, words)
    assert reply.partition(b"\r\n")[2].startswith(native.partition(b"\r\n")[2])
    before, after = _Reader(_asked(server.port, 3, words)), _Reader(_asked(proxy.port, 3, words))
    one, other = before.one(), after.one()
    assert (before.rest, after.rest) == (b"", b"")
    assert isinstance(one, str) or set(one) <= set(other)


@pytest.mark.parametrize("hello", [2, 3])
def test_a_row_has_the_shape_of_redis_own(proxy: Proxy, hello: int) -> None:
    reply = _asked(proxy.port, hello, "COMMAND INFO hset hexpirefield nosuch SaddEx hget httlfield")
    shapes = [_shape(row) for row in _rows(reply)]
    assert len(shapes) == 6
    assert shapes[0] == shapes[1] == shapes[3]
    assert shapes[4] == shapes[5]
    assert shapes[2] == [b"_" if hello == 3 else b"$-1"]


def _rows(reply: bytes) -> list[bytes]:
    """The elements of an array, as bytes."""
    head, _, rest = reply.partition(b"\r\n")
    rows = []
    for _ in range(int(head[1:])):
        reader = _Reader(rest)
        reader.one()
        rows.append(rest[: len(rest) - len(reader.rest)])
        rest = reader.rest
    return rows


def _shape(row: bytes) -> list[bytes]:
    """A reply without what differs between commands: names, flags and their counts."""
    lines = row.split(b"\r\n")[:-1]
    if len(lines) == 1:
        return lines
    columns = [_Reader(column) for column in _rows(row)]
    kinds = [column.rest[:1] for column in columns]
    return [lines[0], *kinds, *re.findall(rb"(?:flags|begin_search|find_keys|spec)\r\n.", row)]


def test_what_only_asks_is_said_to_read_and_all_else_to_write(
    client: Client, direct: Client
) -> None:
    names = sorted(_lacked(direct))
    for name, row in zip(names, client.ask("COMMAND", "INFO", *names), strict=True):
        asks = name == "ttlproxy" or name.endswith(("ttl", "ttlfield", "ttlmember", "ttlelement"))
        asks = asks or name in ("lbtop", "lbrank", "lbaround", "due", "deferred")
        asks = asks or "expiretime" in name
        assert (b"readonly" in row[2], b"write" in row[2]) == (asks, not asks), name


def test_documentation_says_what_the_tables_say(client: Client, direct: Client) -> None:
    reply = client.ask("COMMAND", "DOCS")
    if isinstance(reply, Exception):
        assert str(reply) == str(direct.ask("COMMAND", "DOCS"))
        return
    docs = dict(zip(reply[::2], reply[1::2], strict=True))
    for name in _lacked(direct):
        virtual, reply = VIRTUALS[name.upper()], docs[name.encode()]
        entries = dict(zip(reply[::2], reply[1::2], strict=True))
        assert list(entries) == [b"summary", b"since", b"group", b"complexity", b"arguments"]
        assert entries[b"summary"].decode() == virtual.summary
        assert entries[b"group"].decode() == virtual.group
        assert len(entries[b"arguments"]) == len(arguments(virtual.hinted))
    (name, _) = client.ask("COMMAND", "DOCS", "HTTLField", "nosuch")
    assert name == b"httlfield"


def test_documentation_is_a_map_under_resp3(proxy: Proxy, direct: Client) -> None:
    with Client(proxy.port, protocol=3) as third:
        docs = third.ask("COMMAND", "DOCS")
        if isinstance(docs, Exception):
            assert str(docs) == str(direct.ask("COMMAND", "DOCS"))
            return
        assert {name.encode() for name in _lacked(direct)} <= docs.keys()
        assert docs[b"get"][b"group"] == b"string"
        only = third.ask("COMMAND", "DOCS", "HTTLField", "nosuch")
    assert only == {b"httlfield": docs[b"httlfield"]}
    assert docs[b"httlfield"][b"summary"].decode() == VIRTUALS["HTTLFIELD"].summary


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ACLCAT SortedSet", {"zaddex", "zttlmember"}),
        ("PATTERN STTL*", {"sttlmember"}),
        ("PATTERN h[pq]ttlfiel?", {"hpttlfield"}),
        ("MODULE nosuch", set()),
        ("ACLCAT nosuch", set()),
    ],
)
def test_a_filtered_list_has_ours_that_pass(
    client: Client, direct: Client, words: str, expected: set[str]
) -> None:
    request = ["COMMAND", "LIST", "FILTERBY", *words.split()]
    native, reply = direct.ask(*request), client.ask(*request)
    if isinstance(native, Exception):
        assert str(reply) == str(native)
        return
    assert reply[: len(native)] == native
    names = {name.decode() for name in reply[len(native) :]}
    assert names >= expected
    assert names <= _lacked(direct)
    assert bool(names) == bool(expected)


def test_the_keys_of_a_virtual_command_are_told(talk: Talk) -> None:
    talk("""
        COMMAND GETKEYS HEXPIREFIELD h f 9          -> ["h"]
        COMMAND GETKEYS saddex s 100 a b            -> ["s"]
        COMMAND GETKEYS TTLPROXY KEY k              -> ["k"]
        COMMAND GETKEYS LEASE src dst EX 9          -> ["src", "dst"]
        COMMAND GETKEYS TTLPROXY HELP               -> ERR The command has no key arguments
        COMMAND GETKEYS HEXPIREFIELD h     -> ERR Invalid number of arguments specified for command
        COMMAND GETKEYS MSET a 1 b 2                -> ["a", "b"]
        COMMAND GETKEYS nosuch k                    -> ERR Invalid command specified
    """)


def _requests(virtual: Virtual) -> Iterator[list[str]]:
    """One request for each form, without optional words; its words are the form's own, but for
    times, by which the forms of HSETEX differ."""
    for form in virtual.forms:
        while "[" in form:
            form = re.sub(r"\[[^][]*\]", "", form)
        yield [virtual.name, *("100" if word == "seconds" else word for word in form.split())]


def test_the_keys_of_every_form_of_a_virtual_command_are_told(talk: Talk) -> None:
    requests = [request for virtual in ALL for request in _requests(virtual)]
    assert len(requests) > len(ALL)
    talk("\n".join(f"COMMAND GETKEYS {' '.join(each)} -> {_keys_of(each)}" for each in requests))


def _keys_of(request: list[str]) -> str:
    keys = [f'"{word}"' for word in request if word in ("key", "source", "destination")]
    return f"[{', '.join(keys)}]" if keys else "ERR The command has no key arguments"


@pytest.mark.parametrize("hello", [2, 3])
def test_the_keys_of_every_form_have_the_flags_of_redis_own(
    proxy: Proxy, server: AnyServer, direct: Client, hello: int
) -> None:
    lacked = [VIRTUALS[name.upper()] for name in _lacked(direct)]
    likes = {
        "reads": "HMGET key x",
        "writes": "HSET key x x",
        "moves": "LMOVE source destination LEFT LEFT",
        "no key": "PING x",
    }
    with Connection(server.port) as past, Connection(proxy.port) as app:
        past.ask("HELLO", hello)
        app.ask("HELLO", hello)
        native = {
            name: past.ask("COMMAND", "GETKEYSANDFLAGS", *like.split())
            for name, like in likes.items()
        }
        for virtual in (*lacked, *LONGER.values()):
            access = "reads" if {spec.access for spec in virtual.positions} == {"RO"} else "writes"
            for request in _requests(virtual):
                reply = app.ask("COMMAND", "GETKEYSANDFLAGS", *request)
                how = access if "key" in request else "no key"
                assert reply == native["moves" if "source" in request else how], request


def test_keys_with_flags_are_told_where_redis_tells_them(client: Client, direct: Client) -> None:
    for like, words in (("HSET h a 1", "HEXPIREFIELD h a 1"), ("HGET h a", "HTTLFIELD h a")):
        native = direct.ask("COMMAND", "GETKEYSANDFLAGS", *like.split())
        reply = client.ask("COMMAND", "GETKEYSANDFLAGS", *words.split())
        assert str(reply) == str(native)


@pytest.mark.parametrize("words", ["NOSUCH", "COUNT x", "LIST x", "GETKEYS", "INFO nosuch", "HELP"])
def test_what_asks_for_none_of_ours_is_answered_by_redis(
    client: Client, direct: Client, words: str
) -> None:
    assert str(client.ask("COMMAND", *words.split())) == str(direct.ask("COMMAND", *words.split()))


def test_command_in_a_transaction(proxy: Proxy, direct: Client) -> None:
    with Connection(proxy.port) as app:
        app.send(b"MULTI\r\nCOMMAND COUNT\r\nCOMMAND INFO httlfield\r\nEXEC\r\n")
        reply = app.read_many(4)[3]
    count = direct.ask("COMMAND", "COUNT") + len(_lacked(direct))
    assert reply.startswith(b"*2\r\n:%d\r\n*1\r\n*" % count)
    assert b"$9\r\nhttlfield\r\n:-3\r\n" in reply


def test_who_may_run_no_script_is_told_of_redis_own_commands(
    scriptless: Client, direct: Client
) -> None:
    count = direct.ask("COMMAND", "COUNT")
    assert scriptless.ask("COMMAND", "COUNT") > count
    assert scriptless.ask("AUTH", "scriptless", "word") == b"OK"
    assert scriptless.ask("COMMAND", "COUNT") == count
    assert scriptless.ask("COMMAND", "INFO", "httlfield") == [None]


def test_forms_become_arguments() -> None:
    key, option, tail = arguments(["key [NX|EX seconds] FIELDS numfields field [field ...]"])
    assert key == Argument("key", "key")
    assert option.flags == ("optional",)
    assert option.arguments == (
        Argument("nx", "pure-token", "NX"),
        Argument("seconds", "integer", "EX"),
    )
    assert tail == Argument(
        "fields",
        "block",
        "FIELDS",
        arguments=(
            Argument("numfields", "integer"),
            Argument("field", "string", flags=("multiple",)),
        ),
    )


# --- ACL CAT


def _names(reply: bytes) -> list[str]:
    reader = _Reader(reply)
    found = reader.one()
    assert reader.rest == b""
    assert isinstance(found, tuple)
    return [str(name) for name in found]


@pytest.mark.parametrize("hello", [2, 3])
def test_a_category_has_the_virtual_commands_that_say_so(
    proxy: Proxy, server: AnyServer, direct: Client, hello: int
) -> None:
    lacked = sorted(_lacked(direct))
    found: set[str] = set()
    with Connection(server.port) as past, Connection(proxy.port) as app:
        rows = dict(zip(lacked, _rows(app.ask("COMMAND", "INFO", *lacked)), strict=True))
        past.ask("HELLO", hello)
        app.ask("HELLO", hello)
        for category in _names(past.ask("ACL", "CAT")):
            native, reply = (
                past.ask("ACL", "CAT", category),
                app.ask("acl", "Cat", category.upper()),
            )
            line = b"+@%s\r\n" % category.encode()
            ours = [name for name, row in rows.items() if line in row]
            # Redis lists them in the order of a hash table, which changes during a rehash.
            assert sorted(_names(reply)) == sorted([*_names(native), *ours])
            assert reply[:1] == native[:1]
            found.update(ours)
    assert found == set(lacked)


@pytest.mark.parametrize("words", ["CAT", "CAT nosuch", "CAT @hash", "CAT hash set", "WHOAMI"])
def test_what_asks_for_no_category_of_ours_is_answered_by_redis(
    proxy: Proxy, server: AnyServer, words: str
) -> None:
    with Connection(server.port) as past, Connection(proxy.port) as app:
        assert app.ask("ACL", *words.split()) == past.ask("ACL", *words.split())


def test_a_category_in_a_transaction(proxy: Proxy) -> None:
    with Connection(proxy.port) as app:
        plain = app.ask("ACL", "CAT", "hash")
        app.send(b"MULTI\r\nACL CAT hash\r\nACL CAT nosuch\r\nEXEC\r\n")
        reply = app.read_many(4)[3]
    assert reply == b"*2\r\n" + plain + b"-ERR Unknown category 'nosuch'\r\n"
    assert b"hexpirefield" in plain


USERS = {
    "all": "+@all",
    "tame": "+@all -@dangerous",
    "guest": "+@all -@admin",
    "barred": "+@all -acl",
    "asking": "+@all -acl +acl|cat",
    "reader": "+@read +@connection +eval +evalsha",
    "minimal": "+eval +evalsha +acl|cat",
    "slow": "+@slow",
}


def test_who_may_not_ask_for_a_category_is_refused_by_redis(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    direct = Client(server.port)
    for user, rules in USERS.items():
        assert direct.ask("ACL", "SETUSER", user, "on", ">word", "~*", *rules.split()) == b"OK"
    proxy = start_proxy(server.url)
    answered = set()
    for user in USERS:
        with Connection(server.port) as past, Connection(proxy.port) as app:
            for client in (past, app):
                assert client.ask("AUTH", user, "word") == b"+OK\r\n"
            native, reply = past.ask("ACL", "CAT", "set"), app.ask("ACL", "CAT", "set")
        if native.startswith(b"-NOPERM"):
            assert reply == native, user
        else:
            assert b"sexpiremember" in reply, user
            answered.add(user)
    assert {"all", "asking", "minimal", "slow"} <= answered < USERS.keys()
    direct.close()


def test_who_may_run_no_script_is_told_redis_own_categories(
    scriptless: Client, direct: Client
) -> None:
    native = sorted(direct.ask("ACL", "CAT", "hash"))
    assert b"hexpirefield" in scriptless.ask("ACL", "CAT", "hash")
    assert scriptless.ask("AUTH", "scriptless", "word") == b"OK"
    assert sorted(scriptless.ask("ACL", "CAT", "hash")) == native


def _three_beats(port: int) -> None:
    """Returns after three more heartbeats of the link."""
    beats = calls(port, "time") + 3
    wait_until(lambda: calls(port, "time") >= beats, "three more heartbeats")


@pytest.mark.parametrize("rules", ["-acl +acl|list", "-acl +acl|cat", "-command"])
def test_a_proxy_that_may_not_ask_leaves_categories_to_redis(
    start_server: StartServer, start_proxy: StartProxy, rules: str
) -> None:
    """It asks once: each refusal is an entry of ACL LOG."""
    server = start_server()
    direct = Client(server.port)
    direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", *rules.split())
    app = Client(start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}").port)

    def refusals() -> list[int]:
        return [entry[1] for entry in direct.ask("ACL", "LOG")]

    logged = refusals()
    assert logged
    _three_beats(server.port)
    assert refusals() == logged
    assert sorted(app.ask("ACL", "CAT", "hash")) == sorted(direct.ask("ACL", "CAT", "hash"))
    app.close()
    direct.close()


def test_categories_are_asked_for_anew_only_where_commands_came_or_went(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    start_proxy(server.url)

    def asked() -> int:
        return calls(server.port, "acl|cat")

    before = asked()
    _three_beats(server.port)
    assert before > 0
    assert asked() - before < 9


# --- redis-cli


def _redis_cli() -> str:
    """A redis-cli that reads COMMAND DOCS."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "redis-cli")
        if os.access(path, os.X_OK):
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            if re.match(r"redis-cli ([7-9]|\d\d)", said.stdout):
                return path
    return absent("redis-cli", "no redis-cli 7 or later here")


def test_redis_cli_completes_and_hints_a_virtual_command(proxy: Proxy, direct: Client) -> None:
    """The hint is one form, and nothing behind it."""
    documented = not isinstance(direct.ask("COMMAND", "DOCS", "get"), Exception)
    hint = b"key field milliseconds [NX|XX|GT|LT]" if documented else b"key arg arg ...options..."
    path = _redis_cli()
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        os.execve(path, [path, "-p", str(proxy.port)], {**os.environ, "TERM": "xterm"})
    shown = bytearray()

    def shows(text: bytes) -> bool:
        if select.select([terminal], [], [], 0)[0]:
            shown.extend(os.read(terminal, 65536))
        return text in re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", bytes(shown))

    try:
        wait_until(lambda: shows(b"> "), "the prompt")
        os.write(terminal, b"HPEXPIREF\t ")
        wait_until(lambda: shows(b"HPEXPIREFIELD " + hint), "the hint")
        assert not shows(hint + b"|")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
