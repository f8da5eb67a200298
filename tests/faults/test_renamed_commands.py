"""Servers whose configuration removes commands: what works without them still works."""

from itertools import chain

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy

COMMON = ["KEYS", "CONFIG", "FLUSHALL", "FLUSHDB", "DEBUG", "SHUTDOWN", "SAVE", "BGREWRITEAOF"]


def _works(client: Client, direct: Client) -> None:
    assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == 1
    assert has_ttl(client.ask("HTTLFIELD", "h", "f"), 100)
    assert client.ask("DBSIZE") == 1
    assert client.ask("SCAN", 0) == [b"0", [b"h"]]
    assert "wrong number of arguments for 'httlfield'" in str(client.ask("HTTLFIELD", "h"))
    requests = [("SADDEX", "s", 100, "m"), ("HDEL", "h", "f")]
    assert client.ask_many(requests, transaction=True) == [1, 1]
    client.ask("DEFER", "PX", 10, "LPUSH", "l", "v")
    assert client.ask("HSETEX", "soon", "PX", 10, "FIELDS", 1, "f", "v") == 1
    wait_until(lambda: direct.ask("EXISTS", "soon") == 0, "it reaped")
    wait_until(lambda: direct.ask("EXISTS", "l") == 1, "it carried out")


@pytest.mark.parametrize(
    ("names", "other"),
    [(["EVALSHA"], ""), (COMMON, ""), (["EVALSHA"], "other")],
    ids=["evalsha", "common", "another name"],
)
def test_a_server_without_what_can_be_done_without_is_served(
    start_server: StartServer, start_proxy: StartProxy, names: list[str], other: str
) -> None:
    server = start_server(*chain(*(("--rename-command", name, other) for name in names)))
    proxy = start_proxy(server.url)
    with Client(proxy.port) as client, Client(server.port) as direct:
        _works(client, direct)
        if "KEYS" not in names:
            assert sorted(client.ask("KEYS", "*")) == [b"l", b"s"]


# All have to be in COMMAND; which of them a server lacks makes a difference where proxies need
# them to look at COMMAND itself.
@pytest.mark.parametrize(
    ("names", "other"),
    [(["EVAL"], ""), (["EVAL", "COMMAND"], ""), (["INFO"], ""), (["CLIENT"], ""), (["ZADD"], "x")],
    ids=["EVAL", "EVAL and COMMAND", "INFO", "CLIENT", "another name"],
)
def test_a_server_without_what_is_needed_is_refused_at_start(
    start_server: StartServer, names: list[str], other: str
) -> None:
    words = [("--rename-command", name, other) for name in names]
    proxy = Proxy(start_server(*chain(*words)).url, event_loop="asyncio", forked=True)
    try:
        with pytest.raises(RuntimeError, match=f"Redis lacks {names[0]}, which ttlproxy needs"):
            proxy.start()
        assert proxy.wait() == 1
    finally:
        proxy.remove()
