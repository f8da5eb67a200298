"""What the proxies of one server share: the key of their signatures, out of clients' reach."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.doctor import examine
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from ttlproxy.cli.main import load
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.errors import SettingsError
from ttlproxy.scripts import Scripts

KEYS = Keys()


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 64, b"\xff" * 200])
def test_lua_signs_as_we_do(direct: Client, secret: bytes) -> None:
    words = [b"LPUSH", b"q", b"", b"1:2", bytes(range(256)) * 100]
    signer = Signer(secret)
    inner, outer = signer.pads
    body = Scripts(KEYS.prefix)["deferred_examine"].text.rpartition(b"local page")[0]
    script = body + b"return signature_of('defer', { unpack(ARGV, 4) })"
    token = direct.ask("EVAL", script, 1, "k", inner, outer, 0, *words)
    assert token == signer.sign(b"defer", words)
    assert signer.signed(token, b"defer", words)
    assert not signer.signed(token, b"rule", words)
    assert not signer.signed(token, b"defer", [b"".join(words)])


def test_it_is_hidden_and_cannot_be_named(client: Client, direct: Client) -> None:
    # Redis tells the proxy of the flush before this test just after the reply to it: in any case
    # before it reads another request.
    assert client.ask("PING")
    assert client.ask("SADDEX", "s", 100, "m") == 1
    assert direct.ask("EXISTS", STATE) == 1
    assert client.ask("DBSIZE") == 1
    assert client.ask("KEYS", "*") == [b"s"]
    assert client.ask("SCAN", 0, "COUNT", 1000) == [b"0", [b"s"]]
    assert client.ask("RANDOMKEY") == b"s"
    for line in ("HGETALL {}", "DEL {}", "HSET {} secret x", "RENAME {} x", "COPY {} x"):
        words = [word.encode().replace(b"{}", STATE) for word in line.split()]
        assert "belongs to ttlproxy" in str(client.ask(*words)), line


@pytest.mark.parametrize("gone", ["FLUSHALL", "FLUSHDB", "SWAPDB 0 5", "DEL " + STATE.decode()])
def test_it_is_written_back_as_it_was(
    start_server: StartServer, start_proxy: StartProxy, gone: str
) -> None:
    """So a proxy that starts later carries out what is deferred in another database."""
    server = start_server()
    first = start_proxy(server.url)
    with closing(Client(first.port, 3)) as app, closing(Client(server.port)) as direct:
        app.ask("DEFER", "PX", 1500, "LPUSH", "q", "x")
        secret = direct.ask("HGET", STATE, "secret")
        assert len(secret) == 64
        direct.ask(*gone.split())
        if gone == "FLUSHALL":
            app.ask("DEFER", "PX", 1500, "LPUSH", "q", "x")
        wait_until(lambda: direct.ask("HGET", STATE, "secret") == secret, "it written back")
        first.kill()
        with closing(Client(start_proxy(server.url).port, 3)) as later:
            wait_until(lambda: later.ask("LLEN", "q") == 1, "it carried out")
        assert direct.ask("HGET", STATE, "secret") == secret


def test_proxies_that_begin_together_agree(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxies = [start_proxy(server.url, "--workers", "2") for _ in range(2)]
    with closing(Client(server.port)) as direct:
        for number in range(12):
            with closing(Client(proxies[number % 2].port)) as app:
                app.ask("DEFER", "PX", 1, "LPUSH", "q", number)
        wait_until(lambda: direct.ask("LLEN", "q") == 12, "all carried out")


def test_a_file_has_the_key_instead_and_without_it_nothing_is_carried_out(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("a key of many letters\n")
    server, flags = start_server(), ("--signing-key-file", str(tmp_path / "key"))
    with closing(Client(server.port)) as direct:
        proxy = start_proxy(server.url, *flags)
        with closing(Client(proxy.port)) as app:
            app.ask("ONEXPIRE", "s", "RPUSH", "late")
            app.ask("DEFER", "EX", 1000, "ID", "a", "LPUSH", "q", "x")
            app.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: direct.ask("RPOP", "late") == b"m", "it handed on")
        assert direct.ask("HEXISTS", STATE, "layout") == 1
        assert direct.ask("HEXISTS", STATE, "secret") == 0
        proxy.stop()
        assert "not signed" not in proxy.stderr
        later = KEYS.deferred(b"q")
        for name in (KEYS.index(later), KEYS.schedule):
            direct.ask("ZADD", name, 1, "a" if name != KEYS.schedule else later)
        other = start_proxy(server.url)  # it does not have the file
        with closing(Client(other.port)) as app:
            app.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: direct.ask("EXISTS", "s") == 0, "it deleted")
            wait_until(lambda: float(direct.ask("ZSCORE", KEYS.index(later), "a")) > 1, "set aside")
        assert direct.ask("EXISTS", "q", "late") == 0
        wait_until(lambda: "was not signed" in other.stderr, "the log tells")
        found = examine(server.url)
        assert [each.what for each in found if each.check == "unsigned"] == [
            "deferred commands in database 0 that no proxy has signed: 1",
            "rules in database 0 that are not signed by a proxy: 1",
        ]
        other.stop()
        direct.ask("ZADD", KEYS.index(later), 1, "a")
        direct.ask("ZADD", KEYS.schedule, 1, later)
        with closing(Client(start_proxy(server.url, *flags).port)) as app:
            wait_until(lambda: direct.ask("LLEN", "q") == 1, "carried out with the right key")
            app.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: direct.ask("LLEN", "late") == 1, "the rule in force")


def test_before_a_replica_that_may_not_be_written_to_the_proxy_serves(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("REPLICAOF", "127.0.0.1", "1")
        with closing(Client(start_proxy(server.url).port)) as app:
            assert app.ask("GET", "k") is None
        assert direct.ask("EXISTS", STATE) == 0


@pytest.mark.parametrize("prefix", ["t", "ttlproxy-", "ttlproxy-state:"])
def test_a_prefix_under_which_it_would_stand_is_refused(prefix: str) -> None:
    with pytest.raises(SettingsError, match="prefix"):
        load(["--prefix", prefix])
