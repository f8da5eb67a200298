"""A Cluster of one master, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, Node
from tests.support.servers import Binary, Proxy


@pytest.fixture(scope="module")
def node(binary: Binary) -> Iterator[Node]:
    with Cluster(binary, nodes=1) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="module")
def shared(node: Node) -> Iterator[Proxy]:
    proxy = Proxy(node.url, forked=True).start()
    yield proxy
    proxy.remove()
