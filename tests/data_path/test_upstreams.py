"""Where Redis may be, and how the proxy reaches it: TCP, TLS, unix sockets, passwords."""

from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection


def _works(port: int, *auth: str) -> None:
    """Deadlines, reaping and announcements: every kind of connection to Redis is used."""
    with Connection(port) as client:
        if auth:
            assert client.ask("PING").startswith(b"-NOAUTH")
            assert client.ask("AUTH", *auth) == b"+OK\r\n"
        client.ask("HSET", "h", "a", 1, "b", 2)
        assert client.ask("HPEXPIREFIELD", "h", "a", 20) == b":1\r\n"
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")
        assert client.ask("DEL", "h") == b":1\r\n"


def test_redis_on_a_unix_socket(start_server: StartServer, start_proxy: StartProxy) -> None:
    _works(start_proxy(f"unix://{start_server().socket_path}").port)


def test_clients_on_a_unix_socket(
    start_server: StartServer, tmp_path: Path, start_proxy: StartProxy
) -> None:
    path = tmp_path / "proxy.sock"
    proxy = start_proxy(start_server().url, "--listen", f"unix://{path}")
    with redis.Redis(unix_socket_path=str(path)) as client:
        client.hset("h", mapping={"a": "1"})
        assert client.execute_command("HEXPIREFIELD", "h", "a", 100) == 1
    proxy.terminate()
    assert proxy.wait() == 0
    assert not path.exists()


@pytest.mark.slow
def test_several_workers_serve_clients_on_a_unix_socket(
    start_server: StartServer, tmp_path: Path, start_proxy: StartProxy
) -> None:
    path = tmp_path / "proxy.sock"
    upstream = f"unix://{start_server().socket_path}"
    flags = ("--listen", f"unix://{path}", "--workers", "2", "--unix-socket-perm", "640")
    start_proxy(upstream, *flags)
    assert path.stat().st_mode & 0o777 == 0o640
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                redis.Redis(unix_socket_path=str(path), single_connection_client=True)
            )
            for _ in range(4)
        ]
        workers = {client.info("ttlproxy")["process_id"] for client in clients}
        assert len(workers) == 2
        for number, client in enumerate(clients):
            client.hset("h", f"f{number}", "v")
            assert client.execute_command("HPEXPIREFIELD", "h", f"f{number}", 20) == 1
        wait_until(lambda: not clients[0].exists("h"), "all of them gone")


@pytest.mark.parametrize("mode", ["600", "777", "0770"])
def test_a_unix_socket_has_the_permissions_that_are_asked_for(
    tmp_path: Path, serve: StartProxy, mode: str
) -> None:
    path = tmp_path / "proxy.sock"
    serve("--listen", f"unix://{path}", "--unix-socket-perm", mode)
    assert path.stat().st_mode & 0o777 == int(mode, 8)


def test_redis_with_a_password(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server("--requirepass", "se cret")
    proxy = start_proxy(f"redis://:se%20cret@127.0.0.1:{server.port}")
    _works(proxy.port, "se cret")
    assert "se cret" not in proxy.stderr


def test_a_user_of_its_own_with_the_password_in_a_file(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server("--requirepass", "app")
    with Connection(server.port) as direct:
        direct.ask("AUTH", "app")
        words = "ACL SETUSER proxy on >other ~* &* +@all"
        assert direct.ask(*words.split()) == b"+OK\r\n"
    secret = tmp_path / "secret"
    secret.write_text("other\n")
    flags = ("--upstream-user", "proxy", "--upstream-password-file", str(secret))
    _works(start_proxy(server.url, *flags).port, "app")


def test_a_wrong_password_is_logged_and_nobody_is_served(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--requirepass", "right")
    proxy = start_proxy(f"redis://:wrong@127.0.0.1:{server.port}")
    with Connection(proxy.port) as client:
        assert client.read_to_end().startswith(b"-ERR ttlproxy")
    assert "is unavailable" in proxy.stderr
    assert "wrong" not in proxy.stderr.lower().replace("wrongpass", "")
