"""A Cluster of one master, and a proxy in front of it. Three masters, each at a port of its own.
Three of Valkey 9, with several databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster, Node
from tests.support.masters import Masters
from tests.support.processes import free_range
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


@pytest.fixture
def proxy(masters: Masters) -> Proxy:
    """The one in front of three masters: `app`, `other` and `client` are connected to it."""
    return masters.proxy


@pytest.fixture(scope="module")
def view(shared_masters: Masters) -> Iterator[Proxy]:
    """A proxy in front of `masters`; each of the three ports after its own has a master."""
    words = ("--listen", f"127.0.0.1:{free_range(4)}", "--cluster-view", "nodes")
    proxy = Proxy(shared_masters.nodes[0].url, *words, forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture(scope="session")
def valkey_masters(valkey_binary: Binary) -> Iterator[Masters]:
    """Three masters with 16 databases, and a proxy in front of them."""
    with Masters(valkey_binary, ("--cluster-databases", "16")) as masters:
        yield masters
