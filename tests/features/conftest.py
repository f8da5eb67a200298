"""Two proxies in front of the same server, conversations, and a client that sets rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.conversation import WAYS, Talk, one_by_one, talking
from tests.support.redis_client import Client
from tests.support.servers import Proxy


@pytest.fixture
def proxies(proxy: Proxy, server: AnyServer, start_proxy: StartProxy) -> Iterator[list[Client]]:
    """A client of each."""
    with closing(Client(proxy.port)) as one, closing(Client(start_proxy(server.url).port)) as two:
        yield [one, two]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def talk(request: pytest.FixtureRequest, proxy: Proxy, server: AnyServer) -> Iterator[Talk]:
    with talking(proxy, server, request.param) as say:
        yield say


@pytest.fixture
def talk_one_by_one(proxy: Proxy, server: AnyServer) -> Iterator[Talk]:
    with talking(proxy, server, one_by_one) as say:
        yield say


@pytest.fixture
def rule(client: Client) -> Client:
    """Sets rules: each is in force when it has replied OK."""
    return client
