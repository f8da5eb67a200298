"""A proxy whose clients share one connection to Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.admin_pages import FLAGS
from tests.support.containers import AnyServer
from tests.support.servers import Proxy


@pytest.fixture(scope="module")
def sharing_proxy(shared_server: AnyServer, loop_name: str) -> Iterator[Proxy]:
    """In front of `server`, with status pages. All tests of a module share it: do not end it."""
    flags = ("--share-upstream", "1", *FLAGS)
    proxy = Proxy(shared_server.url, *flags, event_loop=loop_name, forked=True)
    try:
        yield proxy.start()
    finally:
        proxy.remove()
