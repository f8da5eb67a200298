"""The header by which a load balancer names its client; and data that is no such header."""

import ipaddress
import itertools
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection, command, listens
from tests.support.requirements import absent
from tests.support.servers import Proxy
from ttlproxy.wire.proxy_protocol import LONGEST_LINE, Header, Malformed, parse

pytestmark = pytest.mark.any_server

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TLV = b"\x04\x00\x03abc"  # PP2_TYPE_NOOP


def second(command: int, kind: int, block: bytes) -> bytes:
    return SIGNATURE + bytes([command, kind]) + len(block).to_bytes(2) + block


def of_v4(source: str, port: int) -> bytes:
    host = ipaddress.IPv4Address(source).packed
    return host + bytes([10, 0, 0, 1]) + port.to_bytes(2) + (6380).to_bytes(2)


V6 = ipaddress.IPv6Address("2001:db8::1").packed * 2 + (56324).to_bytes(2) + (443).to_bytes(2)
UNIX = b"/run/app.sock".ljust(108, b"\0") + b"/run/proxy.sock".ljust(108, b"\0")
VALID = [
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n", "192.0.2.7:56324"),
    (b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", "[2001:db8::1]:65535"),
    (b"PROXY UNKNOWN\r\n", ""),
    (b"PROXY UNKNOWN ffff:f...f:ffff 65535\r\n", ""),
    (b"PROXY UNKNOWN " + b"x" * (LONGEST_LINE - 16) + b"\r\n", ""),
    (second(0x21, 0x11, of_v4("192.0.2.7", 56324)), "192.0.2.7:56324"),
    (second(0x21, 0x11, of_v4("192.0.2.7", 56324) + TLV * 3), "192.0.2.7:56324"),
    (second(0x21, 0x21, V6), "[2001:db8::1]:56324"),
    (second(0x21, 0x31, UNIX), "/run/app.sock"),
    (second(0x21, 0x31, b"/a\r\nERROR\xff".ljust(216, b"\0")), "/a\\r\\nERROR\\xff"),
    (second(0x21, 0x12, of_v4("192.0.2.7", 56324)), ""),
    (second(0x21, 0x00, b""), ""),
    (second(0x21, 0x00, TLV), ""),
    (second(0x20, 0x00, b""), ""),
    (second(0x20, 0x11, of_v4("192.0.2.7", 56324)), ""),
    (second(0x21, 0x21, V6 + b"\0" * (65535 - len(V6))), "[2001:db8::1]:56324"),
]
MALFORMED = [
    b"PING\r\n",
    b"proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
    command("PING"),
    b"\r\n\r\nPING\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 56324\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443 \r\n",
    b"PROXY TCP4  192.0.2.7 10.0.0.1 56324 443\r\n",
    b"PROXY TCP4 192.0.2.07 10.0.0.1 56324 443\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 056324 443\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 443\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 -1 443\r\n",
    b"PROXY TCP4 ::1 ::1 1 2\r\n",
    b"PROXY TCP6 192.0.2.7 10.0.0.1 1 2\r\n",
    b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
    b"PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n",
    b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n" + b" " * LONGEST_LINE,
    b"PROXY UNKNOWN " + b"x" * (LONGEST_LINE - 15) + b"\r\n",
    second(0x11, 0x11, of_v4("192.0.2.7", 1)),
    second(0x22, 0x11, of_v4("192.0.2.7", 1)),
    second(0x21, 0x41, of_v4("192.0.2.7", 1)),
    second(0x21, 0x13, of_v4("192.0.2.7", 1)),
    second(0x21, 0x11, of_v4("192.0.2.7", 1)[:-1]),
    second(0x21, 0x21, V6[:-1]),
]


@pytest.mark.parametrize(("header", "source"), VALID)
def test_a_header_tells_the_client_s_address(header: bytes, source: str) -> None:
    assert parse(header) == Header(len(header), source)
    assert parse(header + command("PING")) == Header(len(header), source)


@pytest.mark.parametrize(("header", "source"), VALID)
def test_no_part_of_a_header_is_one(header: bytes, source: str) -> None:
    for length in range(0, len(header), max(len(header) // 300, 1)):
        assert parse(header[:length]) is None


@pytest.mark.parametrize("data", MALFORMED)
def test_other_bytes_are_a_malformed_header(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


@given(data=st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: SIGNATURE + rest))
def test_any_bytes_are_a_header_or_malformed_or_incomplete(data: bytes) -> None:
    try:
        header = parse(data)
    except Malformed:
        return
    assert header is None or 0 < header.length <= len(data)


# Through the proxy.

Haproxy = Callable[[int, str], AbstractContextManager[int]]
# Their clients come from other machines, and Redis asks for no password.
BEHIND = ("--proxy-protocol", "yes", "--protected-mode", "no")
AT_DEBUG = (*BEHIND, "--log-level", "debug")


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.slow)], ids=["alone", "two workers"])
def behind(request: pytest.FixtureRequest, start_proxy: StartProxy, server: AnyServer) -> Proxy:
    """A proxy that requires the header."""
    return start_proxy(server.url, *AT_DEBUG, "--workers", str(request.param))


def _in_pieces(client: Connection, data: bytes, size: int) -> None:
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(data), size):
        client.send(data[start : start + size])


@both_loops
def test_requests_behind_a_header_are_served_however_they_are_cut(behind: Proxy) -> None:
    for (header, _), size in itertools.product(VALID, [1, 7, 1 << 17]):
        with Connection(behind.port) as client:
            _in_pieces(client, header[:400], size)
            client.send(header[400:])
            _in_pieces(client, command("ECHO", "a") + command("ECHO", "b"), size)
            assert client.read_many(2) == [b"$1\r\na\r\n", b"$1\r\nb\r\n"]


@both_loops
def test_the_address_in_the_header_stands_in_the_log(behind: Proxy) -> None:
    with Connection(behind.port) as client:
        client.send(VALID[0][0])
        assert client.ask("PING") == b"+PONG\r\n"
    wait_until(lambda: "from 192.0.2.7:56324: client" in behind.stderr, "its line")


def test_a_client_in_the_middle_of_a_header_does_not_keep_the_proxy_from_ending(
    behind: Proxy,
) -> None:
    with Connection(behind.port) as client:
        client.send(b"PROXY ")
        with Connection(behind.port) as other:
            other.send(VALID[0][0])
            assert other.ask("PING") == b"+PONG\r\n"
        behind.terminate()
        assert behind.wait() == 0
    assert not behind.faults


@pytest.fixture
def haproxy(tmp_path: Path) -> Haproxy:
    """haproxy(port, words): a context; its value is the port of an HAProxy in front of `port`."""
    binary = shutil.which("haproxy")
    if binary is None:
        absent("haproxy", "haproxy is not on the PATH")

    @contextmanager
    def run(port: int, words: str) -> Iterator[int]:
        listen = free_port()
        config = tmp_path / "haproxy.cfg"
        config.write_text(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
            f"listen l\n bind 127.0.0.1:{listen}\n server s 127.0.0.1:{port} {words}\n"
        )
        child = subprocess.Popen([binary, "-q", "-db", "-f", str(config)])
        try:
            wait_until(lambda: listens(listen), "haproxy listens")
            yield listen
        finally:
            child.terminate()
            child.wait()

    return run


@pytest.mark.parametrize("words", ["send-proxy", "send-proxy-v2", "send-proxy-v2-ssl"])
def test_haproxy_says_for_whom_it_connects(behind: Proxy, haproxy: Haproxy, words: str) -> None:
    with haproxy(behind.port, f"{words} check") as port, Connection(port) as client:
        address = "{}:{}".format(*client.socket.getsockname())
        assert client.ask("PING") == b"+PONG\r\n"
        client.close()
        wait_until(lambda: f"from {address}: client" in behind.stderr, "its line")
