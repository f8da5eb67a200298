"""A client that does not read what Redis itself gives up."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection

pytestmark = [pytest.mark.any_server, pytest.mark.long]

MIB = 1 << 20


@both_loops
def test_a_subscriber_slower_than_its_channel_is_ended_by_redis_and_costs_the_proxy_little(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server(*["--client-output-buffer-limit", "pubsub", "16mb", "0", "0"])
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as slow, Connection(proxy.port) as busy:
        slow.ask("SUBSCRIBE", "news")
        before = proxy.rss_bytes()
        proxy.forget_peak()
        # Valkey 9.1.2 does not count large messages towards a subscriber's limit.
        message = b"v" * (10_000 if server.name.startswith("valkey") else MIB)
        while busy.ask("PUBLISH", "news", message) == b":1\r\n":
            pass
        assert proxy.peak_bytes() - before < 8 * MIB
        one = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$%d\r\n%b\r\n" % (len(message), message)
        received = slow.read_to_end()
        assert received == (one * (len(received) // len(one) + 1))[: len(received)]
        wait_until(lambda: b"gone_clients_redis:" in busy.ask("INFO", "ttlproxy"), "it counts")
