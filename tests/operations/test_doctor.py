"""`ttlproxy doctor` on servers with one problem each, and on healthy ones."""

from __future__ import annotations

import os
import signal
from contextlib import closing, suppress
from typing import NamedTuple

import pytest
from redis.exceptions import ConnectionError

from tests.conftest import StartProxy, StartServer, in_cluster_mode
from tests.support.deadlines import BOUNDED
from tests.support.doctor import above_info, check, examine, of
from tests.support.processes import START_TIMEOUT_S, attempts, free_port, wait_until
from tests.support.redis_client import Client
from tests.support.server_queries import info
from tests.support.servers import Server
from ttlproxy import __version__, scripts
from ttlproxy.commands.types.keyspace import KEYSPACE
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.operations.doctor import CHECKS, Finding


class Ill(NamedTuple):
    """sick: the requests that cause the problem; the last reply must be no error."""

    check: str
    severity: str
    sick: tuple[str, ...]
    what: str
    cured: bool = True  # the request under fix cures it


ILLS = (
    Ill(
        "eviction",
        "warning",
        ("CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy volatile-ttl"),
        "maxmemory 104857600",
    ),
    Ill("memory", "warning", ("CONFIG SET maxmemory 100000",), "of 100000 bytes"),
    Ill("clients", "warning", ("CONFIG SET maxclients 1",), "connections in use: "),
    Ill("layout", "error", ("HSET ttlproxy-state:__ttl: layout 99",), "layout 99", cured=False),
    Ill("users", "warning", ("ACL SETUSER a on nopass ~a:* ~__ttl:*",), "1 user may", cured=False),
    Ill("users", "warning", ("ACL SETUSER a on nopass ~a:* ~ttlp*",), "1 user may", cured=False),
    Ill("layout", "warning", ("HSET ttlproxy-state:app: layout 3",), "prefix app:", cured=False),
    Ill("role", "error", ("REPLICAOF 127.0.0.1 {port}",), "a replica of 127.0.0.1", cured=False),
    Ill(
        "replicas",
        "error",
        ("CONFIG SET min-replicas-to-write 1",),
        "only 0 replicas are up to date",
    ),
    Ill("overdue", "warning", ("ZADD __ttl:schedule 1000 gone",), "1 key is overdue", cured=False),
    Ill("overdue", "warning", ("ZADD __ttl:schedule 0.5 gone",), "1 key is overdue", cured=False),
)


def _ask(server: Server, line: str) -> None:
    for _ in attempts(START_TIMEOUT_S, "room for a connection"):
        with suppress(ConnectionError):  # a connection that has just ended may still count
            _asked(server, line)
            return


def _asked(server: Server, line: str) -> None:
    with closing(Client(server.port)) as direct:
        words = line.format(port=free_port()).split()
        reply = direct.ask(*words)
        assert not isinstance(reply, Exception), reply


def _found(server: Server, name: str) -> Finding:
    for _ in attempts(START_TIMEOUT_S, "room for the doctor's connection"):
        worst, *_ = examine(server.url, only=[name])
        if worst.check != "connection":
            return worst
    raise AssertionError


@pytest.mark.parametrize("ill", ILLS, ids=lambda ill: f"{ill.check}, {ill.severity}")
def test_what_ails_a_server_is_named_and_the_command_it_gives_fixes_it(
    ill: Ill, start_server: StartServer
) -> None:
    server = start_server("--io-threads", "1")
    for line in ill.sick:
        _ask(server, line)
    found = _found(server, ill.check)
    assert (str(found.severity), ill.what in found.what) == (ill.severity, True), found
    assert found.why
    if ill.cured:
        _ask(server, found.fix.partition(", or ")[0])
        assert _found(server, ill.check).severity < 2


def test_nothing_above_info_is_found_of_a_healthy_server(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--appendonly", "yes")
    proxy = start_proxy(server.url)
    with closing(Client(proxy.port)) as app, closing(Client(proxy.port, 3)) as elsewhere:
        for client in (app, elsewhere):
            client.ask("HSETEX", "h", "MAXLEN", 9, "EX", 100, "FIELDS", 2, "a", 1, "b", 2)
            client.ask("SADDEX", "s", 100, "a", "b")
            client.ask("ZADDEX", "z", 100, 1, "a")
            client.ask("RPUSHEX", "{tag}l", 100, "a", "b")
            client.ask("EXPIRE", "s", 50)
        found = examine(server.url)
    assert above_info(found) == []
    assert {each.check for each in found} == {*CHECKS}
    assert of("content", found).what == "8 keys and 14 deadlines, no fault found"
    assert of("overdue", found).what == "1 proxy is connected"
    assert of("persistence", found).what.startswith("the append-only file is on")


def test_looking_twice_finds_the_same(start_server: StartServer) -> None:
    server = start_server()
    first, second = ([(each.check, each.severity) for each in examine(server.url)] for _ in "12")
    assert first == second


def test_a_node_of_a_cluster_without_slots_is_an_error(start_server: StartServer) -> None:
    assert check("cluster", in_cluster_mode(start_server).url).severity == 3


def test_a_command_about_keys_that_is_not_known_is_named(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    assert str(check("commands", server.url).severity) == "ok"
    monkeypatch.setattr("ttlproxy.operations.doctor.server.KEYSPACE", KEYSPACE - {"KEYS"})
    found = check("commands", server.url)
    assert (str(found.severity), "know KEYS," in found.what) == ("warning", True)
    assert found.fix.endswith(" -keys")


def test_a_snapshot_that_fails_is_an_error(start_server: StartServer) -> None:
    server = start_server("--dbfilename", "dump.rdb")
    with closing(Client(server.port)) as direct:
        server.folder.joinpath("dump.rdb").mkdir()  # so no file can be renamed to it
        direct.ask("SET", "a", 1)
        assert direct.ask("SAVE") != b"OK"
        direct.ask("BGSAVE")
        wait_until(
            lambda: check("persistence", server.url).severity == 3,
            "the error",
        )


def test_a_renamed_command_is_missed(start_server: StartServer) -> None:
    without_eval = start_server("--rename-command", "EVAL", "")
    assert check("commands", without_eval.url).severity == 3
    without_client = start_server("--rename-command", "HELLO", "")
    assert check("commands", without_client.url).severity == 3


# That scripts and the table have the same commands is a test of the required rights. GETRANGE is
# called by none, CLUSTER in front of a Cluster only.
_RENAMED = {"EVALSHA": "warning", "COPY": "error", "GETRANGE": "ok", "CLUSTER": "ok"}


@pytest.mark.parametrize("name", _RENAMED)
def test_a_command_that_scripts_call_is_missed_where_it_is_renamed(
    start_server: StartServer, name: str
) -> None:
    server = start_server("--rename-command", name, "")
    found = check("commands", server.url)
    wanted = _RENAMED[name]
    assert str(found.severity) == wanted
    assert (name in found.what) is (wanted != "ok")


def test_a_server_that_refuses_scripts_is_an_error(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of several shards does, whose keys are in several slots."""
    original, body = scripts._for_real, "return redis.error_reply('ERR of several slots')"
    monkeypatch.setattr(
        scripts, "_for_real", lambda name: body if name == "key_examine" else original(name)
    )
    found = check("commands", start_server().url)
    assert (str(found.severity), found.what) == ("error", "scripts do not run: of several slots")


def test_looking_changes_nothing(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:

        def changes() -> int:
            return int(info(server.port, "persistence")["rdb_changes_since_last_save"])

        before = changes()
        examine(server.url)
        assert (direct.ask("DBSIZE"), changes()) == (0, before)
        proxy = start_proxy(server.url)
        with closing(Client(proxy.port)) as app:
            app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "a", 1)
            app.ask("ONEXPIRE", "h", "RPUSH", "l")
        proxy.stop()
        before = changes()
        assert above_info(examine(server.url)) == []
        assert changes() == before


def test_a_proxy_in_use_is_known_by_its_version(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with closing(Client(start_proxy(server.url).port)) as app:
        app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "a", 1)
    assert check("layout", server.url).what.endswith(f", of ttlproxy {__version__}")


def test_a_rule_that_cannot_be_read_is_named(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    with closing(Client(server.port)) as direct, closing(Client(proxy.port)) as app:
        app.ask("ONEXPIRE", "good:*", "RPUSH", "l")
        assert check("unsigned", server.url).severity == 0
        secret = direct.ask("HGET", Keys().state, "secret")
        row = b"12:MAIL - 0 new,0:,0:,"
        signed = Signer(secret).sign(b"rule", (b"bad:*", row))
        direct.ask("SET", Keys().rule(b"bad:*"), signed + row)
        direct.ask("HSET", Keys().rules, b":bad:*", "")
        found = check("unsigned", server.url)
    assert str(found.severity) == "error"
    assert found.what == "rules in database 0 that cannot be read: 1"
    assert found.keys == (b"bad:*",)


@pytest.mark.parametrize(
    ("chosen", "severity"),
    [({}, "info"), ({"max_clients": 500}, "warning"), ({"max_clients": 5}, "ok")],
)
def test_a_server_that_takes_fewer_clients_than_the_proxy_is_said(
    start_server: StartServer, chosen: dict[str, int], severity: str
) -> None:
    server = start_server("--maxclients", "100")
    found = check("clients", server.url, **chosen)
    assert (str(found.severity), "100 clients" in found.what) == (severity, severity != "ok")


def test_a_redis_that_is_not_there_is_a_finding_and_no_traceback() -> None:
    (found,) = examine(f"redis://:secret@127.0.0.1:{free_port()}")
    assert (found.check, found.severity) == ("connection", 3)
    assert "secret" not in str(found)


def test_a_wrong_password_is_a_finding(start_server: StartServer) -> None:
    server = start_server("--requirepass", "right")
    (found,) = examine(f"redis://:guess@127.0.0.1:{server.port}")
    assert (found.check, found.severity) == ("connection", 3)
    assert "guess" not in str(found)


def test_overdue_elements_with_a_proxy_are_an_error(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    os.kill(proxy.pid, signal.SIGSTOP)  # it is connected, and reaps nothing
    try:
        with closing(Client(server.port)) as direct:
            direct.ask("ZADD", "__ttl:schedule", 1000, "k")
            assert check("overdue", server.url).severity == 3
    finally:
        os.kill(proxy.pid, signal.SIGCONT)
