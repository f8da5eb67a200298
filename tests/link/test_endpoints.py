"""The addresses of nodes, by the kind that CLUSTER SLOTS prefers."""

from __future__ import annotations

import pytest

from ttlproxy.addresses import Upstream
from ttlproxy.core.topology import cluster_nodes
from ttlproxy.link.connecting import reachability as module
from ttlproxy.link.connecting.reachability import endpoints

A, B = "a" * 40, "b" * 40
NODES = cluster_nodes(
    f"{A} :0@0 myself,master - 0 0 1 connected 0-99\n"
    f"{B} 10.0.0.2:7001@17001,b.example master - 0 0 2 connected 100-199\n"
)


@pytest.mark.parametrize(
    ("url", "preferred", "expected"),
    [
        pytest.param("redis://x:7000", {A: "", B: "10.0.0.2"}, "10.0.0.2:7001", id="addresses"),
        pytest.param("redis://x:7000", {A: "?", B: "b.example"}, "b.example:7001", id="names"),
        pytest.param("redis://x:7000", {A: "", B: "?"}, "10.0.0.2:7001", id="a name, without one"),
        pytest.param("redis://x:7000", {A: "", B: ""}, "x:7001", id="none, as through a relay"),
        pytest.param("redis://x:7000", {}, "10.0.0.2:7001", id="not told"),
        pytest.param("rediss://x:7000", {}, "b.example:7001", id="not told, and TLS"),
    ],
)
async def test_the_preferred_endpoint_is_used(
    monkeypatch: pytest.MonkeyPatch, url: str, preferred: dict[str, str], expected: str
) -> None:
    async def told(server: Upstream, timeout_s: float) -> dict[str, str]:
        return preferred

    monkeypatch.setattr(module, "_preferred", told)
    found = await endpoints(Upstream.parse(url), NODES, 1.0)
    assert {name: str(address) for name, address in found.items()} == {A: "x:7000", B: expected}


async def test_the_node_at_a_unix_socket_is_on_this_machine() -> None:
    found = await endpoints(Upstream.parse("unix:///nowhere"), NODES, 1.0)
    assert str(found[B]) == "10.0.0.2:7001"
    assert found[A].host == "127.0.0.1"
