"""Two proxies in front of the same server, conversations, and a client that sets rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy


@pytest.fixture
def proxies(proxy: Proxy, server: AnyServer, start_proxy: StartProxy) -> Iterator[list[Client]]:
    """A client of each."""
    with Client(proxy.port) as one, Client(start_proxy(server.url).port) as two:
        yield [one, two]


Limited = Callable[[str, str], bytes]


@pytest.fixture
def limited(proxy: Proxy, server: AnyServer, direct: Client) -> Iterator[Limited]:
    """limited(rules, line) sends the line as a user with all rights, changed by `rules`."""
    with Connection(proxy.port) as client:

        def ask(rules: str, line: str) -> bytes:
            everything = ["reset", "on", "nopass", "~*", "&*", "+@all"]
            assert direct.ask("ACL", "SETUSER", "limited", *everything, *rules.split()) == b"OK"
            assert client.ask("AUTH", "limited", "any") == b"+OK\r\n"
            return client.ask(*line.split())

        yield ask
    direct.ask("ACL", "DELUSER", "limited")


@pytest.fixture
def rule(client: Client) -> Client:
    """Sets rules: each is in force when it has replied OK."""
    return client
