"""Protected mode: while Redis asks for no password, only clients on this machine are served."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.certificates import Authority, TlsSocket
from tests.support.cluster import Cluster
from tests.support.doctor import examine, of
from tests.support.processes import free_range, wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Binary, Proxy, Server
from ttlproxy.errors import DENIED

pytestmark = pytest.mark.any_server

EVERYWHERE = ("--listen", "0.0.0.0:0")
HEADER = b"PROXY TCP4 %b 192.0.2.1 4711 6379\r\n"


@pytest.fixture(scope="module")
def elsewhere() -> str:
    """An address of this machine that is not its loopback's: clients there count as strangers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        try:
            unused.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but those of its loopback")
        return str(unused.getsockname()[0])


def _is_served(proxy: Proxy, host: str, *words: str) -> bool:
    with Connection(proxy.port, host=host) as client:
        return client.ask(*(words or ("PING",))).startswith(b"+")


@pytest.mark.parametrize("more", ["--workers 2", "--share-upstream 1"])
def test_a_client_of_another_machine_is_refused_while_redis_asks_for_no_password(
    start_proxy: StartProxy, server: Server, elsewhere: str, more: str
) -> None:
    proxy = start_proxy(server.url, *EVERYWHERE, *more.split())
    with Connection(proxy.port, host=elsewhere) as stranger:
        assert stranger.read_to_end() == DENIED
    assert _is_served(proxy, "127.0.0.1")
    assert "WARNING" in proxy.stderr
    assert (
        "only clients on this machine are served, because Redis asks for no passw" in proxy.stderr
    )


def test_each_listening_address_is_protected(
    start_proxy: StartProxy, binary: Binary, elsewhere: str
) -> None:
    with Cluster(binary, nodes=2, masters=2) as cluster:
        listen = ("--listen", f"0.0.0.0:{free_range(3)}", "--cluster-view", "nodes")
        proxy = start_proxy(cluster.nodes[0].url, *listen)
        for port in range(proxy.port, proxy.port + 3):
            with Connection(port, host=elsewhere) as stranger:
                assert stranger.read_to_end() == DENIED
            with Connection(port) as client:
                assert client.ask("PING") == b"+PONG\r\n"
        assert "only clients on this machine are served" in proxy.stderr
        for node in cluster.nodes:
            assert node.ask("CONFIG", "SET", "requirepass", "word") == b"OK"
        wait_until(lambda: _is_served(proxy, elsewhere, "AUTH", "word"), "a password is asked for")


def test_a_unix_socket_is_no_other_machine(
    start_proxy: StartProxy, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "proxy.sock"
    start_proxy(server.url, "--listen", f"unix://{path}", "--proxy-protocol", "yes")
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect(str(path))
        client.sendall(b"PROXY UNKNOWN\r\nPING\r\n")
        assert client.recv(100) == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("words", "login"),
    [
        ("CONFIG SET requirepass word", ("AUTH", "word")),
        ("ACL SETUSER default off", ("AUTH", "app", "word")),
    ],
)
def test_a_client_of_another_machine_is_served_as_soon_as_redis_asks_for_a_password(
    start_proxy: StartProxy,
    start_server: StartServer,
    elsewhere: str,
    words: str,
    login: tuple[str, ...],
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "SETUSER", "app", "on", ">word", "~*", "+@all")
        proxy = start_proxy(server.url.replace("//", "//app:word@"), *EVERYWHERE)
        assert not _is_served(proxy, elsewhere, *login)
        direct.ask(*words.split())
        wait_until(lambda: _is_served(proxy, elsewhere, *login), "it is served")
        with Connection(proxy.port, host=elsewhere) as client:
            assert client.ask("GET", "k").startswith(b"-NOAUTH")
        direct.ask("ACL", "SETUSER", "default", "on", "nopass")
        wait_until(lambda: not _is_served(proxy, elsewhere, *login), "it is refused again")


def test_the_user_of_the_proxy_need_not_see_other_users(
    start_proxy: StartProxy, start_server: StartServer, elsewhere: str
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all", "-acl")
        direct.ask("CONFIG", "SET", "requirepass", "word")
    proxy = start_proxy(server.url.replace("//", "//app:word@"), *EVERYWHERE)
    assert _is_served(proxy, elsewhere, "AUTH", "word")
    assert "only clients on this machine" not in proxy.stderr


def test_protected_mode_can_be_switched_while_the_proxy_runs(
    start_proxy: StartProxy, server: Server, elsewhere: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('protected_mode = "no"\n')
    proxy = start_proxy(server.url, *EVERYWHERE, "--config", str(file))
    assert _is_served(proxy, elsewhere)
    assert "only clients on this machine" not in proxy.stderr
    file.write_text('protected_mode = "yes"\n')
    os.kill(proxy.pid, signal.SIGHUP)
    wait_until(lambda: not _is_served(proxy, elsewhere), "it is refused")


def test_both_the_load_balancer_and_its_client_must_be_on_this_machine(
    start_proxy: StartProxy, server: Server, elsewhere: str
) -> None:
    proxy = start_proxy(server.url, *EVERYWHERE, "--proxy-protocol", "yes")
    for host, source, answer in (
        ("127.0.0.1", b"127.0.0.1", b"+PONG\r\n+OK\r\n"),
        ("127.0.0.1", b"192.0.2.7", DENIED),
        (elsewhere, b"127.0.0.1", DENIED),  # anybody may say so
    ):
        with Connection(proxy.port, host=host) as client:
            client.send(HEADER % source + b"PING\r\nQUIT\r\n")
            assert client.read_to_end() == answer


@pytest.mark.parametrize(("asks", "is_served"), [("optional", False), ("yes", True)])
def test_only_a_certificate_that_all_must_show_counts_as_a_login(
    start_proxy: StartProxy,
    server: Server,
    elsewhere: str,
    tmp_path: Path,
    asks: str,
    is_served: bool,
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost", into="proxy")
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    certified = ("--tls-ca", str(authority.file), "--tls-auth-clients", asks)
    proxy = start_proxy(server.url, *EVERYWHERE, *tls, *certified)
    context = authority.trusted(authority.issue("client"))

    def wrapped(plain: socket.socket) -> TlsSocket:
        return TlsSocket(plain, context, "localhost")

    with Connection(proxy.port, wrapped=wrapped, host=elsewhere) as client:
        client.send(b"PING\r\nQUIT\r\n")
        assert client.read_to_end() == (b"+PONG\r\n+OK\r\n" if is_served else DENIED)


@pytest.mark.parametrize(
    ("listen", "mode", "word", "severity", "what"),
    [
        (
            "0.0.0.0:1",
            "yes",
            "",
            "warning",
            "only clients on this machine are served: Redis asks for no password",
        ),
        ("0.0.0.0:1", "no", "", "info", "everybody who can reach 0.0.0.0:1 may use Redis"),
        ("0.0.0.0:1", "no", "word", "ok", "Redis asks clients for a password"),
        ("[::1]:1", "yes", "", "ok", "only this machine can reach [::1]:1"),
        ("unix:///x", "no", "", "ok", "only this machine can reach unix:///x"),
    ],
)
def test_the_doctor_says_who_is_served(
    server: Server,
    start_server: StartServer,
    listen: str,
    mode: str,
    word: str,
    severity: str,
    what: str,
) -> None:
    server = start_server("--requirepass", word) if word else server
    url = server.url.replace("//", f"//:{word}@")
    found = examine(url, only=["protected-mode"], listen=listen, protected_mode=mode)
    finding = of("protected-mode", found)
    assert (str(finding.severity), finding.what) == (severity, what)
