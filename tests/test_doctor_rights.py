"""The rights that the proxy's own user needs: `ttlproxy doctor` names those that it lacks."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.doctor import above_info, examine, of
from tests.processes import wait_until
from tests.redis_client import Client
from tests.servers import Server, release
from ttlproxy.doctor.rights import rules
from ttlproxy.keys import Keys


def _user(server: Server, *more: str) -> str:
    """The URL of a proxy's user with the rights of the README, and these rules on top."""
    with closing(Client(server.port)) as direct:
        words = (
            "ACL",
            "SETUSER",
            "proxy",
            "reset",
            "on",
            ">word",
            *rules(release(server.name)),
            *more,
        )
        assert direct.ask(*words) == b"OK"
    return f"redis://proxy:word@127.0.0.1:{server.port}"


def test_the_listed_rights_are_enough(start_server: StartServer, start_proxy: StartProxy) -> None:
    """Reaps, sweeps and events run without a refusal that follows from them."""
    server = start_server("--notify-keyspace-events", "KEA")
    url = _user(server)
    found = examine(url, mend=True)
    assert above_info(found) == []
    assert "cannot be looked at" not in str(found)
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "LOG", "RESET")
        proxy = start_proxy(url)
        with closing(Client(proxy.port)) as app:
            for add in ("HSETEX h MAXLEN 9 PX 10 FIELDS 1 a 1", "SADDEX s PX 10 MEMBERS 1 a"):
                assert app.ask(*add.split()) == 1
            app.ask("RPUSHEX", "l", "PX", 10, "ELEMENTS", 1, "a")
            app.ask("ZADDEX", "z", "PX", 10, "MEMBERS", 1, 1, "a")
            wait_until(lambda: direct.ask("EXISTS", "h", "s", "l", "z") == 0, "all reaped")
            app.ask("RPUSHEX", "l", 100, "a", "b")
            assert app.ask("BLPOP", "l", 1) == [b"l", b"a"]
            wait_until(lambda: direct.ask("ZCARD", Keys().index(b"l")) != 2, "the list swept")
        proxy.stop()
        refused = [
            dict(zip(entry[::2], entry[1::2], strict=True)) for entry in direct.ask("ACL", "LOG")
        ]
        # What redis-py says of itself, and what older servers have no word for, is not listed.
        assert [each for each in refused if not each[b"object"].startswith(b"client")] == []


@pytest.mark.parametrize(
    ("taken", "severity", "rule"),
    [
        ("-zrangebyscore", "error", "+zrangebyscore"),
        ("-hdel", "error", "+hdel"),
        ("-evalsha", "error", "+evalsha"),
        ("-command", "warning", "+command"),
        ("-client +client|setname", "error", "+client|tracking"),
        ("-config", "info", "+config|get"),
        ("-acl", "info", "+acl|list"),
        ("resetkeys ~app:* ~__ttl:*", "warning", "~*"),
        ("resetkeys ~app:*", "error", "~__ttl:*"),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_line_that_gives_it(
    taken: str, severity: str, rule: str, start_server: StartServer
) -> None:
    server = start_server()
    url = _user(server, *taken.split())
    lines = [found for found in examine(url) if found.check == "rights"]
    (named,) = [found for found in lines if rule in found.mend.split()]
    assert str(named.severity) == severity
    with closing(Client(server.port)) as direct:
        for found in lines:
            assert direct.ask(*found.mend.split()) == b"OK"
    assert of("rights", examine(url)).severity == 0


def test_who_may_not_even_say_its_name_is_told_so(start_server: StartServer) -> None:
    (found,) = examine(_user(start_server(), "-client"))
    assert (found.check, "client" in found.what) == ("connection", True)


def test_who_may_not_try_is_told_so(start_server: StartServer) -> None:
    found = of("rights", examine(_user(start_server(), "-multi")))
    assert (str(found.severity), "+multi" in found.mend) == ("info", True)


def test_nothing_is_carried_out_while_rights_are_tried(start_server: StartServer) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        examine(server.url)
        assert direct.ask("DBSIZE") == 0
