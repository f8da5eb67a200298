"""A proxy that starts beside keys with deadlines learns their families from the proxies' state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.exceptions import ConnectionError

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from tests.support.servers import Proxy, Server

SET = ("HSETEX", "h:1", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "v")


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def direct(server: Server) -> Iterator[Client]:
    with Client(server.port) as client:
        yield client


@pytest.fixture
def first(server: Server, start_proxy: StartProxy, direct: Client) -> Proxy:
    """It has given a key a deadline in database 3, and has noted the family."""
    proxy = start_proxy(server.url)
    with Client(proxy.port, 3) as client:
        assert client.ask(*SET) == 1
    wait_until(lambda: bool(direct.ask("HGET", STATE, "families") == b"1"), "it is noted")
    return proxy


def _clears(proxy: Proxy, key: str, db: int) -> bool:
    """Whether a write through this proxy removes a deadline that is there."""
    with Client(proxy.port, db) as client:
        assert client.ask("HSET", key, "f", "new") == 0
        return bool(client.ask("HTTLFIELD", key, "f") == -1)


def test_names_are_not_read_where_all_families_are_noted(
    server: Server, first: Proxy, start_proxy: StartProxy
) -> None:
    before = calls(server.port, "zscan")
    first.kill()
    proxy = start_proxy(server.url)
    assert calls(server.port, "zscan") == before, "a second later it walks over the schedules"
    assert _clears(proxy, "h:1", 3)


def test_a_family_is_noted_before_its_first_deadline(
    first: Proxy, serve: StartProxy, direct: Client
) -> None:
    with Client(first.port) as client:
        assert client.ask("HSETEX", "new:1", *BOUNDED, "EX", 100, "FIELDS", 1, "f", "v") == 1
    first.kill()
    assert direct.ask("HGET", STATE, "families") == b"2"
    assert _clears(serve(), "new:1", 0)


@pytest.mark.parametrize("words", [("FLUSHDB",), ("SWAPDB", 0, 7), ("DEL", STATE)])
def test_families_are_noted_again_when_the_state_is_gone(
    first: Proxy, serve: StartProxy, direct: Client, words: tuple[str | bytes | int, ...]
) -> None:
    """Those of other databases, too."""
    direct.ask(*words)
    wait_until(lambda: bool(direct.ask("HGET", STATE, "families") == b"1"), "it is noted again")
    first.kill()
    assert _clears(serve(), "h:1", 3)


def test_names_are_read_where_the_state_has_gone_while_no_proxy_was_there(
    first: Proxy, serve: StartProxy, direct: Client
) -> None:
    first.kill()
    direct.ask("FLUSHDB")
    assert _clears(serve(), "h:1", 3)
    wait_until(lambda: bool(direct.ask("HGET", STATE, "families") == b"1"), "it is noted again")


def test_where_a_family_cannot_be_noted_its_keys_get_no_deadline(
    server: Server, first: Proxy, start_proxy: StartProxy, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-hset")
    barred = start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}", "--hold-max", "0.5")
    with Client(barred.port) as client, pytest.raises(ConnectionError, match="closed"):
        client.ask("SADDEX", "new:1", 100, "m")
    assert not direct.ask("EXISTS", "new:1")
