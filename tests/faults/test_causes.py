"""Why Redis cannot be used: the doctor and one line of the log name the cause and the cure."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.certificates import Authority
from tests.support.containers import AnyServer
from tests.support.doctor import examine
from tests.support.processes import CLOSED_PORT, wait_until
from tests.support.redis_client import Client

pytestmark = pytest.mark.any_server

_HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
_LIMIT = ("--connect-timeout", "1")


@contextmanager
def _answering(reply: bytes) -> Iterator[int]:
    """The port of a server that is no Redis: it answers each connection so, or never."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        clients: list[socket.socket] = []

        def answer() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:  # the test is over
                    return
                clients.append(client)
                with suppress(OSError):  # the other end may have gone
                    if reply and client.recv(4096):
                        client.sendall(reply)

        thread = Thread(target=answer)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for client in clients:
                client.close()


class Refused(NamedTuple):
    """what, cure: of the log and the doctor; url: with the port of the server that is not served;
    reply: of one that is no Redis; user: an ACL rule of a user `weak`"""

    url: str
    what: str
    cure: str
    reply: bytes | None = None
    user: str = ""


_REFUSED = [
    pytest.param(
        Refused("rediss://127.0.0.1:{}", "the server does not use TLS", "to a redis:// URL"),
        id="TLS to a plain server",
    ),
    pytest.param(
        Refused("redis://:bad@127.0.0.1:{}", "Redis has no password", "take the password away"),
        id="a password that Redis has not",
    ),
    pytest.param(
        Refused(
            "redis://weak:pw@127.0.0.1:{}",
            "Redis refuses requests of the proxy's own user",
            "ACL SETUSER weak ",
            user="on >pw ~* &* +@connection",
        ),
        id="an ACL user without rights",
    ),
    pytest.param(
        Refused(f"redis://127.0.0.1:{CLOSED_PORT}", "nothing listens at 127.0.0.1:1", "runs"),
        id="refused",
    ),
    pytest.param(
        Refused("redis://nosuch.invalid:{}", "the name nosuch.invalid is not found", "DNS"),
        id="a name that is not found",
    ),
    pytest.param(
        Refused("unix:///nowhere/redis.sock", "there is no socket at /nowhere", "unixsocket"),
        id="no socket",
    ),
    pytest.param(
        Refused("redis://127.0.0.1:{}", "it is no Redis", "check host and port", _HTTP),
        id="another protocol",
    ),
    pytest.param(
        Refused("rediss://127.0.0.1:{}", "does not speak TLS", "host and port", _HTTP),
        id="another protocol, with TLS",
    ),
    pytest.param(
        Refused(
            "redis://127.0.0.1:{}",
            "Redis is loading its data",
            "wait",
            b"-LOADING Redis is loading the dataset in memory\r\n" * 5,
        ),
        id="loading",
    ),
]


@pytest.mark.parametrize("refused", _REFUSED)
def test_the_cause_and_the_cure_are_named(
    server: AnyServer, direct: Client, refused: Refused
) -> None:
    """Log and doctor have the same words for them."""
    if refused.user:
        direct.ask(*f"ACL SETUSER weak {refused.user}".split())
    with ExitStack() as stack:
        answers = refused.reply is not None
        port = stack.enter_context(_answering(refused.reply or b"")) if answers else server.port
        (found,) = examine(refused.url.format(port), connect_timeout=1)
    direct.ask("ACL", "DELUSER", "weak")
    assert refused.what in found.what
    assert refused.cure in found.fix


def test_the_log_names_them_in_one_line(start_proxy: StartProxy) -> None:
    url = f"redis://127.0.0.1:{CLOSED_PORT}"
    _is_told(start_proxy, url, f"nothing listens at 127.0.0.1:{CLOSED_PORT}", "runs")


def _is_told(start_proxy: StartProxy, url: str, what: str, cure: str, *flags: str) -> None:
    """In one line of the log, soon."""
    proxy = start_proxy(url, *_LIMIT, *flags)
    wait_until(lambda: "is unavailable: " in proxy.stderr, "it is told")
    line = next(line for line in proxy.stderr.splitlines() if "is unavailable: " in line)
    assert what in line
    assert cure in line
    assert "Errno" not in line
    assert "Error 1" not in line


def test_a_server_that_never_answers_is_named(start_proxy: StartProxy) -> None:
    with _answering(b"") as port:
        url = f"redis://127.0.0.1:{port}"
        _is_told(start_proxy, url, "accepts connections, but does not answer", "hangs")


@pytest.mark.parametrize(
    ("flags", "what", "cure"),
    [
        ((), "from an authority that is not trusted here", "upstream_tls_ca"),
        (
            ("--upstream-tls-ca", "{ca}", "--upstream-tls-server-name", "else"),
            "certificate is not valid for 'else'",
            "upstream_tls_server_name",
        ),
    ],
    ids=["unknown authority", "another name"],
)
def test_a_certificate_that_is_not_accepted_is_named(
    start_server: StartServer,
    start_proxy: StartProxy,
    tmp_path: Path,
    flags: tuple[str, ...],
    what: str,
    cure: str,
) -> None:
    """The server with TLS is another proxy."""
    url, authority = _with_tls(start_server, start_proxy, tmp_path)
    given = [flag.format(ca=authority.file) for flag in flags]
    _is_told(start_proxy, url.replace("redis:", "rediss:"), what, cure, *given)


def test_a_plain_connection_to_a_server_with_tls_is_named(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    url, _ = _with_tls(start_server, start_proxy, tmp_path)
    (found,) = examine(url, connect_timeout=1)
    assert "the server uses TLS" in found.what
    assert "to a rediss:// URL" in found.fix


def _with_tls(
    start_server: StartServer, start_proxy: StartProxy, folder: Path
) -> tuple[str, Authority]:
    authority = Authority(folder)
    cert, key = authority.issue("127.0.0.1")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    return f"redis://127.0.0.1:{start_proxy(start_server().url, *flags).port}", authority
