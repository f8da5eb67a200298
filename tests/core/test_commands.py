"""The tables of commands: every row is tested here, with its examples."""

from __future__ import annotations

import math
import re
import shlex
from contextlib import closing

import hiredis
import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.redis_cli_format import shown
from tests.support.redis_client import Client
from tests.support.server_queries import received, until_called_by_digest
from ttlproxy.commands import Native, Router, natives
from ttlproxy.commands.router import BLOCKING, LONGER, OVERRIDES, STATEFUL, VIRTUALS
from ttlproxy.commands.spec import FIRST, Virtual
from ttlproxy.commands.types.keyspace import KEYSPACE
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import _roles
from ttlproxy.session.connection_commands import CHANGES

SCRIPTS = Scripts(b"__ttl:")
ROWS = (*VIRTUALS.values(), *LONGER.values())


def _shown(reply: bytes) -> str:
    """A reply as redis-cli shows it on a terminal."""
    reader = hiredis.Reader()
    reader.feed(reply)
    return shown(reader.gets())


def _as_told(text: str) -> str:
    """The reply as an example shows it: with a time in 2026, and with no time gone since the
    request."""
    text = re.sub(r"\b1\d{15}\b", "1767225600000000", text)
    text = re.sub(r"\b1\d{12}$", "1767225600000", text, flags=re.MULTILINE)
    text = re.sub(r"\b9\d$", "100", text, flags=re.MULTILINE)
    return re.sub(r"\b\d*9\d{4}$", _hundreds, text, flags=re.MULTILINE)


def _hundreds(found: re.Match[str]) -> str:
    return str(math.ceil(int(found[0]) / 100_000) * 100_000)


@pytest.mark.parametrize("virtual", ROWS, ids=lambda virtual: virtual.name)
def test_the_example_of_a_command_answers_as_it_says(app: Connection, virtual: Virtual) -> None:
    assert any(line.split()[0] == virtual.name for line, _ in virtual.example)
    for line, reply in virtual.example:
        text = _shown(app.ask(*shlex.split(line)))
        assert reply in (text, _as_told(text)), line


@pytest.mark.parametrize("virtual", VIRTUALS.values(), ids=lambda virtual: virtual.name)
def test_too_few_words_are_refused_in_redis_own_words(app: Connection, virtual: Virtual) -> None:
    text = f"-ERR wrong number of arguments for '{virtual.name.lower()}' command\r\n".encode()
    for count in range(virtual.min_words - 1):
        assert app.ask(virtual.name, *["k"] * count) == text, count
    assert app.ask("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("virtual", VIRTUALS.values(), ids=lambda virtual: virtual.name)
def test_too_few_words_inside_a_transaction_abort_it(app: Connection, virtual: Virtual) -> None:
    if virtual.min_words == 1:
        pytest.skip("none are too few")
    assert app.ask("MULTI") == b"+OK\r\n"
    refused = (b"-ERR unknown command", b"-ERR wrong number of arguments")  # the server's own
    assert app.ask(virtual.name).startswith(refused)
    assert app.ask("EXEC").startswith(b"-EXECABORT")


@pytest.mark.parametrize("virtual", ROWS, ids=lambda virtual: virtual.name)
def test_a_command_becomes_one_script_call_and_no_more(
    app: Connection, server: AnyServer, virtual: Virtual
) -> None:
    if virtual.group == "hash":  # the server may answer it for unmanaged keys
        app.ask("HSET", "h", "other", "v")
        app.ask("HEXPIREFIELD", "h", "other", "100")
    line, _ = virtual.example[-1]
    sent = [b"eval"]
    while sent == [b"eval"]:  # it has just learnt of a flush, or a rule, of an earlier test
        until_called_by_digest(server.port, app)
        sent = received(server.port, app, *shlex.split(line))
    assert sent == [b"evalsha"]


def test_native_writes_on_unmanaged_keys_go_on_as_they_are(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(start_proxy(server.url).port) as app:
        _go_on_as_they_are(server, app)


def _go_on_as_they_are(server: AnyServer, app: Connection) -> None:
    app.ask("HEXPIREFIELD", "managed", "f", "100")
    app.ask("SADDEX", "other", "100", "m")
    for line in ("HSET plain-h f v", "SADD plain-s m", "DEL plain-h", "EXPIRE plain-s 9"):
        words = line.split()
        assert received(server.port, app, *words) == [words[0].lower().encode()]


def test_scripts_and_tables_name_each_other() -> None:
    for script in SCRIPTS.values():
        _roles(script.keys)  # raises KeyError for an unknown name
        assert script.text.count(b"-- include") == 0, script.name
    assert set(CHANGES) == set(STATEFUL)
    assert not set(VIRTUALS) & (set(OVERRIDES) | set(STATEFUL) | BLOCKING)


def test_scripts_that_publish_events_know_the_database() -> None:
    """Without events switched on, a script that does not know it would not be noticed."""
    tellers = [script for script in SCRIPTS.values() if b"local function notify" in script.text]
    assert {script.name for script in tellers} >= {"reap", "hash_expire", "set_persist"}
    assert {script.argv[0] for script in tellers} == {"db", "origin"}


def test_every_script_compiles(app: Connection) -> None:
    for script in SCRIPTS.values():
        assert app.ask("SCRIPT", "LOAD", script.text) == b"$40\r\n%b\r\n" % script.sha


def test_a_command_the_server_has_is_ours_on_managed_keys_only() -> None:
    native = Native("HSETEX", -6, frozenset({"write"}), (FIRST,))
    rule = Router([native]).find(b"hsetex")
    assert rule.virtual is None
    assert rule.override
    assert Router().find(b"HSetEx").virtual is VIRTUALS["HSETEX"]


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ("HSETEX h FIELDS 1 a 1", False),
        ("HSETEX h EX 100 FIELDS 1 MAXLEN 5", False),
        ("HSETEX h EX x FIELDS 1 a 1", False),
        ("HSETEX h MAXLEN 5 FIELDS 1 a 1", True),
        ("HSETEX h 10 a 1", True),
        ("HSETEX h KEEPTTL NX 10 FIELDS 1", True),
        ("HSETEX h FIELDS 1 a 1 maxlen 5 EVICT", True),
        ("HSETEX h MAXLEN x FIELDS 1 a 1", True),
    ],
)
def test_hsetex_with_a_cap_is_ours_though_the_server_has_hsetex(line: str, is_ours: bool) -> None:
    rules = Router([Native("HSETEX", -6, frozenset({"write"}), (FIRST,))])
    override = rules.find(b"HSETEX").override
    assert override
    assert override.always
    assert override.always(line.encode().split()) is is_ours
    assert b"HSETEX" not in rules.passthrough


def test_each_command_of_the_server_about_keys_is_known(server: AnyServer) -> None:
    with closing(Client(server.port)) as direct:
        table = natives(direct.ask("COMMAND"))
    found = {native.name for native in table if b"@keyspace" in native.categories}
    assert found - KEYSPACE == set()
    assert found >= {"SCAN", "KEYS", "DBSIZE", "RANDOMKEY"}


def test_names_of_commands_are_found_in_any_case() -> None:
    rules = Router()
    for name in (*VIRTUALS, *OVERRIDES):
        for spelt in (name, name.lower(), name.capitalize()):
            assert rules.find(spelt.encode()).name == name
    assert rules.find(b"nosuch").name == ""
