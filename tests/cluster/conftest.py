"""A Cluster of one master, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, Node
from tests.support.servers import Proxy, find_binaries

BINARIES = find_binaries()


@pytest.fixture(params=BINARIES, scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with Cluster(BINARIES[request.param], nodes=1) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="module")
def shared(node: Node) -> Iterator[Proxy]:
    proxy = Proxy(node.url).start()
    yield proxy
    proxy.remove()
