"""Two proxies in front of the same server, conversations, and a client that sets rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.servers import Proxy


@pytest.fixture
def proxies(proxy: Proxy, server: AnyServer, start_proxy: StartProxy) -> Iterator[list[Client]]:
    """A client of each."""
    with closing(Client(proxy.port)) as one, closing(Client(start_proxy(server.url).port)) as two:
        yield [one, two]


@pytest.fixture
def rule(client: Client) -> Client:
    """Sets rules: each is in force when it has replied OK."""
    return client
