"""A Cluster of one master, and a proxy in front of it. Three masters, each at a port of its own.
Three of Valkey 9, with several databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Cluster, Node
from tests.support.masters import Masters, view_of_nodes
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
    proxy = Proxy(shared_masters.nodes[0].url, *view_of_nodes(), forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture(scope="session")
def valkey_masters(valkey_binary: Binary) -> Iterator[Masters]:
    """Three masters with 16 databases, and a proxy in front of them."""
    with Masters(valkey_binary, ("--cluster-databases", "16")) as masters:
        yield masters


@pytest.fixture(params=["one master", "several masters", "port of a node"])
def valkey_port(
    request: pytest.FixtureRequest,
    valkey_binary: Binary,
    valkey_masters: Masters,
    start_proxy: StartProxy,
) -> Iterator[int]:
    """Where clients connect; the servers have several databases, and are empty."""
    if request.param == "one master":
        databases = ("--cluster-databases", "16")
        with Cluster(valkey_binary, nodes=1, config=databases) as cluster:
            yield start_proxy(cluster.nodes[0].url).port
        return
    valkey_masters.flush()
    if request.param == "several masters":
        yield valkey_masters.proxy.port
    else:
        yield start_proxy(valkey_masters.nodes[0].url, *view_of_nodes()).port + 2
