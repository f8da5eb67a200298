"""Malformed requests get Redis's own error or silence, and the same end of the connection."""

from dataclasses import dataclass

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy, release

INLINE_LIMIT = 64 * 1024
PING, QUIT = command("PING", "before"), command("QUIT")


@dataclass(frozen=True)
class Abuse:
    name: str
    data: bytes
    closes: bool = True  # Redis replies and closes; False: it goes on
    more: bytes = b""  # what completes the request if Redis waits
    deaf: bool = False  # Redis searches for the line's end only up to a NUL, so it never finds it
    until: tuple[int, ...] = (99,)  # from this release on Redis waits for more
    not_by: str = ""  # a server that behaves the other way: it does not close, or does
    refused: bool = False  # by the proxy, as by Redis, in front of that server, too

    def closed_by(self, server: AnyServer) -> bool:
        return self.closes != (bool(self.not_by) and server.name.startswith(self.not_by))


ABUSES = [
    Abuse("an integer where a bulk belongs", b"*1\r\n:5\r\n"),
    Abuse("a status where a bulk belongs", b"*1\r\n+OK\r\n"),
    Abuse("an array inside an array", b"*2\r\n*1\r\n"),
    Abuse("a good bulk, then an integer", b"*2\r\n$3\r\nGET\r\n:5\r\n"),
    Abuse("a word for a count", b"*abc\r\n"),
    Abuse("no count at all", b"*\r\n"),
    Abuse("a count with a blank", b"* 1\r\n"),
    Abuse("a count with a plus", b"*+1\r\n"),
    Abuse("a count of minus nought", b"*-0\r\n"),
    Abuse("a count with a leading zero", b"*01\r\n"),
    Abuse("a fraction for a count", b"*1.0\r\n"),
    Abuse("a count of 2^31", b"*2147483648\r\n"),
    Abuse("a count of 2^64", b"*18446744073709551616\r\n"),
    Abuse("a negative bulk length", b"*1\r\n$-1\r\n"),
    Abuse("a word for a bulk length", b"*1\r\n$abc\r\n"),
    Abuse("no bulk length", b"*1\r\n$\r\n"),
    Abuse("a bulk length with a leading zero", b"*1\r\n$04\r\n"),
    Abuse("a bulk length above 512 MB", b"*1\r\n$536870913\r\n"),
    Abuse("a bulk length of 2^64", b"*1\r\n$18446744073709551616\r\n"),
    Abuse("a bulk's end missing, so that the next header is garbled", b"*2\r\n$3\r\nGETxx:1\r\n"),
    Abuse("an unbalanced double quote", b'SET a "b\r\n'),
    Abuse("an unbalanced single quote", b"SET a 'b\r\n"),
    Abuse("a quote with a tail", b'SET a "b"c\r\n', not_by="valkey", refused=True),
    Abuse("a line longer than 64 KiB", b"x" * (INLINE_LIMIT + 1)),
    Abuse("a count longer than 64 KiB", b"*" + b"1" * INLINE_LIMIT),
    Abuse("a bulk length longer than 64 KiB", b"*1\r\n$" + b"1" * INLINE_LIMIT, until=(8,)),
    Abuse("a status as a request", b"+OK\r\n", closes=False),
    Abuse("a bulk as a request", b"$5\r\n", closes=False),
    Abuse("an error as a request", b"-ERR no\r\n", closes=False),
    Abuse("a NUL byte in a line", b"PING\x00PONG a\r\n", closes=False, deaf=True),
    Abuse("a NUL byte as a line", b"\x00\r\n", closes=False, deaf=True),
    Abuse(
        "a wrong end after a bulk", b"*2\r\n$4\r\nECHOxx$3\r\nabcyy", closes=False, not_by="valkey"
    ),
    Abuse("a line end of one byte in an array", b"*1\r\n$4\r\nPING\r\n\n", closes=False),
    Abuse("a negative count", b"*-5\r\n", closes=False),
    Abuse("a count of nought", b"*0\r\n*-1\r\n" * 3, closes=False),
    Abuse("empty lines", b"\r\n\n\r\n", closes=False),
    Abuse("a carriage return inside a line", b"PING a\rb\r\n", closes=False),
    Abuse("escapes in a line", b'ECHO "\\x41\\n\\"\\q"\r\n', closes=False),
    Abuse("a single-quoted escape", b"ECHO 'it\\'s'\r\n", closes=False),
    Abuse("a name of no bytes", b"*1\r\n$0\r\n\r\n", closes=False),
    Abuse("an HTTP request", b"GET / HTTP/1.1\r\n", closes=False),
    Abuse("half a count", b"*", closes=False, more=b"1\r\n$4\r\nPING\r\n"),
    Abuse("half a line", b"PIN", closes=False, more=b"G\r\n"),
    Abuse("half a bulk", b"*1\r\n$4\r\nPI", closes=False, more=b"NG\r\n"),
    Abuse("a bulk without its end", b"*1\r\n$4\r\nPING", closes=False, more=b"\r\n"),
    Abuse("a line end cut in two", b"*1\r", closes=False, more=b"\n$4\r\nPING\r\n"),
]

each_abuse = pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)


def _told(port: int, abuse: Abuse, closes: bool) -> bytes:
    """The replies before, to and after the abuse, up to the end of the connection."""
    after = b"" if closes else abuse.more + command("PING", "after") + QUIT
    with Connection(port) as client:
        client.send(PING + abuse.data)
        answer = b""
        if abuse.more:
            answer = client.read()  # the first part has been read by now
        client.send(after)
        if abuse.deaf:
            client.half_close()
        return answer + client.read_to_end()


@pytest.mark.each_server
@each_abuse
def test_a_malformed_request_brings_the_same_error_and_the_same_end(
    plain: AnyServer, proxy: Proxy, abuse: Abuse
) -> None:
    if release(plain.name) >= abuse.until:
        pytest.skip("this release waits for more")
    closes = abuse.closed_by(plain)
    expected = _told(plain.port, abuse, closes)
    assert (b"-ERR Protocol error" in expected) == closes, "the table is wrong"
    if abuse.refused and not closes:
        assert b"-ERR Protocol error" in _told(proxy.port, abuse, closes=True)
        return
    assert _told(proxy.port, abuse, closes) == expected
    if not (closes or abuse.deaf):
        with Connection(proxy.port) as client:
            client.send(abuse.data + abuse.more + command("HTTLFIELD", "none", "f") + QUIT)
            assert client.read_to_end().endswith(b":-2\r\n+OK\r\n"), "virtual commands are known"


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n", b"", id="a TLS hello"),
        pytest.param(b"*1\r\n:5\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n", id="RESP"),
    ],
)
def test_an_error_in_the_first_bytes_of_a_connection_is_answered_alike(
    plain: AnyServer, proxy: Proxy, first: bytes, answer: bytes
) -> None:
    for port in (plain.port, proxy.port):
        with Connection(port) as client:
            client.send(first)
            client.half_close()
            assert client.read_to_end() == answer


@pytest.mark.parametrize("count", [1_048_576, 1_048_577, 2_147_483_647])
def test_an_announced_count_is_accepted_or_refused_as_the_server_does(
    plain: AnyServer, proxy: Proxy, count: int
) -> None:
    """6.2 refuses more than 2^20 words, 7.0 more than 2^31 - 1; it waits for accepted ones."""
    answers = []
    for port in (plain.port, proxy.port):
        with Connection(port) as client:
            client.send(PING + b"*%d\r\n" % count)
            client.half_close()
            answers.append(client.read_to_end())
    assert answers[1] == answers[0]
    assert answers[0].startswith(b"$6\r\nbefore\r\n")


def test_a_huge_announced_count_costs_the_proxy_no_memory(proxy: Proxy, server: AnyServer) -> None:
    with Connection(proxy.port) as client:
        client.ask("PING")
        before = proxy.rss_bytes()
        client.send(PING + b"*1048576\r\n" + b"$1\r\na\r\n" * 10)
        client.read()
        assert proxy.rss_bytes() - before < 4 << 20


def test_a_connection_that_broke_the_protocol_disturbs_no_other(proxy: Proxy) -> None:
    with Connection(proxy.port) as good, Connection(proxy.port) as bad:
        assert good.ask("SET", "a", "1") == b"+OK\r\n"
        bad.send(b"*abc\r\n")
        assert bad.read_to_end() == b"-ERR Protocol error: invalid multibulk length\r\n"
        assert good.ask("GET", "a") == b"$1\r\n1\r\n"
