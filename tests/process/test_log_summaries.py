"""An event of many clients is logged once and then counted: nothing is left out, in few lines."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.certificates import Authority
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.servers import Proxy
from ttlproxy.net import log_summaries
from ttlproxy.net.log_summaries import LineCount, Summaries

log = logging.getLogger("a log")
MORE = re.compile(r"(\d+) more in a second: ")


def test_the_first_of_each_kind_is_told_and_the_others_are_counted() -> None:
    tally = LineCount()
    assert tally.is_first("refused", "a")
    assert not tally.is_first("refused", "a")
    assert tally.is_first("closed", "a")
    assert not tally.is_first("refused", "b")
    assert not tally.is_first("refused", "b")
    assert tally.end() == {"refused": {"a": 1, "b": 2}}


def test_what_goes_on_is_counted_on_and_what_has_ended_begins_anew() -> None:
    tally = LineCount()
    tally.is_first("refused", "a")
    tally.is_first("refused", "a")
    assert tally.end() == {"refused": {"a": 1}}
    assert not tally.is_first("refused", "a"), "it went on in that second"
    assert tally.end() == {"refused": {"a": 1}}
    assert tally.end() == {}
    assert tally.is_first("refused", "a")


def test_neither_kinds_nor_addresses_grow_without_bounds() -> None:
    tally = LineCount()
    logged = [tally.is_first(f"reason {number}", "a") for number in range(10_000)]
    for number in range(10_000):
        logged.append(tally.is_first("reason 0", f"address {number}"))
    counts = tally.end()
    assert logged.count(True) + sum(count.total() for count in counts.values()) == 20_000
    assert logged.count(True) < 100
    assert max(map(len, counts.values())) < 1000


async def test_a_summary_says_how_many_and_from_where(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    many = Summaries(log)
    for port in range(10):
        many.note(logging.INFO, "refused", f"10.0.0.1:{port}", client=port)
    for host in range(2, 9):
        many.note(logging.INFO, "refused", f"[::{host}]:1")
    many.note(logging.DEBUG, "refused", "10.0.0.9:1")
    many.note(logging.WARNING, "not accepted")
    many.note(logging.WARNING, "not accepted")
    log_summaries.flush_all()
    log_summaries.flush_all()
    first, _, summary, other = caplog.records
    assert first.getMessage() == "refused, from 10.0.0.1:0"
    assert first.__dict__["client"] == 0
    assert summary.getMessage() == (
        "16 more in a second: refused, from 10.0.0.1 (9), [::2] (1), [::3] (1), [::4] (1),"
        " [::5] (1), 3 other addresses"
    )
    assert summary.__dict__["count"] == 16
    assert summary.__dict__["addresses"]["10.0.0.1"] == 9
    assert other.getMessage() == "1 more in a second: not accepted"
    assert other.levelno == logging.WARNING


async def test_a_summary_comes_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    many, logged = Summaries(log), asyncio.Event()

    def hear(record: logging.LogRecord) -> bool:
        if "more" in record.msg:
            logged.set()
        return True

    log.addFilter(hear)
    many.note(logging.INFO, "refused", "a unix socket")
    many.note(logging.INFO, "refused", "a unix socket")
    try:
        await logged.wait()
    finally:
        log.removeFilter(hear)
    assert "1 more in a second: refused, from a unix socket (1)" in caplog.text


def _logged(proxy: Proxy, what: str) -> int:
    """How many clients the log reports, one by one or as a number."""
    lines = [line for line in proxy.stderr.splitlines() if what in line]
    return sum(int(found[1]) if (found := MORE.search(line)) else 1 for line in lines)


def _refused(proxy: Proxy, count: int) -> None:
    """Connects so many clients at once to a proxy without Redis."""
    opened = [Connection(proxy.port) for _ in range(count)]
    for client in opened:
        assert b"no connection to Redis" in client.read_to_end()
        client.close()


@pytest.fixture
def forlorn(start_proxy: StartProxy) -> Proxy:
    """A proxy without a Redis."""
    return start_proxy(f"redis://127.0.0.1:{free_port()}", "--hold-max", "0.1")


@pytest.mark.any_server
def test_clients_that_are_refused_are_a_line_a_second(forlorn: Proxy) -> None:
    proxy = forlorn
    _refused(proxy, 300)
    wait_until(lambda: _logged(proxy, "refused: ") == 300, "all are told of")
    lines = [line for line in proxy.stderr.splitlines() if "refused: " in line]
    assert len(lines) < 100
    assert all("from 127.0.0.1" in line for line in lines)


@pytest.mark.any_server
def test_what_a_last_second_had_is_told_at_the_end(forlorn: Proxy) -> None:
    _refused(forlorn, 20)
    forlorn.terminate()
    assert forlorn.wait() == 0
    assert _logged(forlorn, "refused: ") == 20


@pytest.mark.any_server
def test_probes_of_a_tls_port_are_a_line_a_second_with_their_address(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    cert, key = Authority(tmp_path).issue("localhost")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    proxy = start_proxy(start_server().url, *flags)
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", proxy.port), 30) as probe:
            probe.sendall(b"GET / HTTP/1.1\r\n\r\n")
            probe.recv(1000)
    wait_until(lambda: _logged(proxy, "a client is refused: [SSL") == 100, "all are told of")
    lines = [line for line in proxy.stderr.splitlines() if "a client is refused" in line]
    assert len(lines) < 50
    assert all(", from 127.0.0.1" in line for line in lines)
