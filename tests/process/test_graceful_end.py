"""A proxy ends under load, and another one runs: clients move there, and each request is carried
out once. A request without a reply was not carried out, so the client can send it again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command

pytestmark = [pytest.mark.any_server, pytest.mark.long]

CLIENTS = 16
ENOUGH = 50


class Counting(threading.Thread):
    """A client that increments a key, one request at a time, and never skips one.

    answered: requests with a reply; sent_again: those that got none from the first proxy
    """

    def __init__(self, ports: list[int], key: str) -> None:
        super().__init__()
        self._ports = ports
        self._request = command("INCR", key)
        self.answered = 0
        self.sent_again = 0
        self.moved = False
        self.stop = False
        self.trouble = ""

    def run(self) -> None:
        for port in self._ports:
            with closing(Connection(port)) as client:
                if self._talk(client):
                    return
            self.moved = True
            self.sent_again += 1

    def _talk(self, client: Connection) -> bool:
        """Sends requests; False if the connection ends first."""
        while not self.stop:
            try:
                client.send(self._request)
                reply = client.read()
            except (EOFError, ConnectionError):
                return False
            self.answered += 1
            if reply != b":%d\r\n" % self.answered:
                self.trouble = f"{reply!r} after {self.answered} requests"
                return True
        return True


@pytest.fixture
def counting() -> Iterator[list[Counting]]:
    threads: list[Counting] = []
    yield threads
    for thread in threads:
        thread.stop = True
        thread.join()


@pytest.mark.slow
@both_loops
@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_is_lost_and_none_is_carried_out_twice(
    start_server: StartServer, start_proxy: StartProxy, counting: list[Counting], workers: int
) -> None:
    server = start_server()
    ending = start_proxy(server.url, "--workers", str(workers))
    other = start_proxy(server.url)
    counting += [Counting([ending.port, other.port], f"k{number}") for number in range(CLIENTS)]
    for thread in counting:
        thread.start()
    wait_until(lambda: min(each.answered for each in counting) > ENOUGH, "load on each connection")
    ending.terminate()
    assert ending.wait() == 0
    wait_until(lambda: all(each.moved for each in counting), "all are with the other proxy")
    before = [each.answered for each in counting]
    wait_until(
        lambda: all(
            each.answered > had + ENOUGH for each, had in zip(counting, before, strict=True)
        ),
        "load on the other proxy",
    )
    for thread in counting:
        thread.stop = True
        thread.join()
    assert [each.trouble for each in counting] == [""] * CLIENTS
    with Connection(server.port) as direct:
        for number, thread in enumerate(counting):
            count = b"%d" % thread.answered
            assert direct.ask("GET", f"k{number}") == b"$%d\r\n%b\r\n" % (len(count), count)
    assert "cut off" not in ending.stderr
