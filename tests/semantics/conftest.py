"""Two proxies in front of one Redis."""

from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.raw_client import Connection


@pytest.fixture
def three(start_server: StartServer, start_proxy: StartProxy) -> Iterator[list[Connection]]:
    """Connections through two proxies, and to Redis itself; no proxy can get the reaper's lease."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        with (
            Connection(start_proxy(server.url).port) as one,
            Connection(start_proxy(server.url).port) as other,
        ):
            yield [one, other, direct]
