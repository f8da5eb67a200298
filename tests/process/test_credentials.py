"""The proxy's own user and password: from files that may change at run time; and never shown."""

import os
import re
import threading
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, pages
from tests.support.command_line import ttlproxy
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy, Server
from tests.support.worker_counts import alone_or_with

pytestmark = pytest.mark.any_server

RIGHTS = ("~*", "&*", "+@all")


def _set_user(server: Server, name: str, password: str) -> None:
    with Connection(server.port) as direct:
        words = ("ACL", "SETUSER", name, "on", "resetpass", f">{password}", *RIGHTS)
        assert direct.ask(*words) == b"+OK\r\n"


def _cut_off(server: Server, name: str) -> None:
    """Closes all of the proxy's own connections."""
    with Connection(server.port) as direct:
        assert direct.ask("CLIENT", "KILL", "USER", name).startswith(b":")


def _serves(proxy: Proxy) -> bool:
    """Uses scripts, reaping and announcements: each of the proxy's own connections."""
    with Connection(proxy.port) as client:
        client.send(command("HSET", "h", "a", 1, "b", 2))
        if client.read().startswith(b"-ERR ttlproxy"):
            return False
        assert client.ask("HPEXPIREFIELD", "h", "a", 20) == b":1\r\n"
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")
        return client.ask("DEL", "h") == b":1\r\n"


@both_loops
@alone_or_with(2)
def test_a_password_that_is_rotated_counts_from_the_next_connection(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path, workers: int
) -> None:
    server = start_server()
    secret = tmp_path / "secret"
    secret.write_text("before\n")
    _set_user(server, "proxy", "before")
    flags = ("--upstream-user", "proxy", "--upstream-password-file", str(secret))
    proxy = start_proxy(server.url, *flags, "--workers", str(workers))
    assert _serves(proxy)
    _set_user(server, "proxy", "after")
    secret.write_text("after\n")
    _cut_off(server, "proxy")
    wait_until(lambda: _serves(proxy), "it has logged in with the new password")


def test_user_and_password_may_change_together(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server()
    user, secret = tmp_path / "user", tmp_path / "secret"
    _set_user(server, "one", "first")
    _set_user(server, "two", "second")
    user.write_text("one\n")
    secret.write_text("first\n")
    flags = ("--upstream-user-file", str(user), "--upstream-password-file", str(secret))
    proxy = start_proxy(server.url, *flags)
    assert _serves(proxy)
    user.write_text("two\n")
    secret.write_text("second\n")
    with Connection(server.port) as direct:
        assert direct.ask("ACL", "DELUSER", "one") == b":1\r\n"
    wait_until(lambda: _serves(proxy), "it has logged in as the other user")


def test_a_password_may_come_through_a_pipe(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server()
    _set_user(server, "proxy", "once")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("once\n",))
    writer.start()
    flags = ("--upstream-user", "proxy", "--upstream-password-file", str(pipe))
    proxy = start_proxy(server.url, *flags)
    writer.join()
    _cut_off(server, "proxy")
    wait_until(lambda: _serves(proxy), "it has logged in again")


# No secret is shown.

SECRETS = {
    "the link's": "planted-link",
    "a client's": "planted-client",
    "a wrong one": "planted-wrong",
    "a new user's": "planted-user",
    "a setting of Redis's": "planted-config",
    "an element": "planted-element",
    "a value": "planted-value",
}
REQUESTS = [
    ("AUTH", "app", "planted-wrong"),
    ("AUTH", "app", "planted-client"),
    ("HELLO", "3", "AUTH", "app", "planted-wrong"),
    ("HELLO", "3", "AUTH", "app", "planted-client"),
    ("ACL", "SETUSER", "more", "on", ">planted-user", "+@all", "~*"),
    ("CONFIG", "SET", "masterauth", "planted-config"),
    ("HSET", "h", "planted-element", "planted-value"),
    ("HSETEX", "h", "PX", "20", "FIELDS", "1", "planted-element", "planted-value"),
    ("HEXPIREFIELD", "h", "planted-element", "planted-value"),
    ("MIGRATE", "127.0.0.1", "1", "h", "0", "1", "AUTH", "planted-client"),
    ("NOSUCH", "planted-client"),
    ("TTLPROXY", "planted-client"),
]


def _shown(proxy: Proxy) -> str:
    """All that the process and its pages show, except replies to a client's own requests."""
    admin = pages(proxy)
    found = re.findall(r"\S+", admin.get("/metrics").text)
    texts = [admin.get(path).text for path in ("/", "/livez", "/readyz", "/startup", "/nosuch")]
    with Connection(proxy.port) as client:
        client.send(command("AUTH", "app", "planted-client") + command("INFO", "ttlproxy"))
        client.read()
        section = client.read().decode()
    command_line = Path(f"/proc/{proxy.pid}/cmdline").read_text()
    return "\n".join([proxy.stderr, *found, *texts, section, command_line])


@both_loops
def test_no_secret_shows_in_logs_pages_or_the_list_of_processes(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server()
    _set_user(server, "link", "planted-link")
    _set_user(server, "app", "planted-client")
    secret = tmp_path / "secret"
    secret.write_text("planted-link")
    flags = ("--upstream-user", "link", "--upstream-password-file", str(secret))
    proxy = start_proxy(server.url, *flags, *FLAGS, "--log-level", "debug", forked=False)
    with Connection(proxy.port) as client:
        for words in REQUESTS:
            client.ask(*words)
        wait_until(lambda: client.ask("HLEN", "h") in (b":0\r\n",), "the element gone")
        client.send(b"*1\r\n$planted-wrong\r\n")  # Redis refuses it as a protocol error
        client.read_to_end()
    secret.write_text("planted-wrong")
    _cut_off(server, "link")
    wait_until(lambda: "is unavailable" in proxy.stderr, "Redis refuses the wrong password")
    secret.write_text("planted-link")
    wait_until(lambda: _serves_again(proxy), "the link is there again")
    shown = _shown(proxy)
    assert "ttlproxy_connections" in shown
    for whose, planted in SECRETS.items():
        assert planted not in shown, whose


def _serves_again(proxy: Proxy) -> bool:
    with Connection(proxy.port) as client:
        client.send(b"PING\r\n")
        return client.read() == b"+PONG\r\n"


def test_no_secret_shows_in_what_is_said_of_wrong_settings() -> None:
    wrong = [
        ["--upstream", "redis://u:planted@h:x"],
        ["--upstream", "redis://u:planted@h", "--upstream-password", "planted"],
        ["--upstream-pasword", "planted"],
        ["--upstream", "http://u:planted@h"],
    ]
    for words in wrong:
        ran = ttlproxy(*words)
        assert ran.returncode == 2
        assert "planted" not in ran.stdout + ran.stderr


PASSWORD_SETTING = "upstream_password"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://127.0.0.1:{port}", "requires a password"),
        ("redis://:planted-wrong@127.0.0.1:{port}", "refuses the user or the password"),
        ("redis://app:planted-wrong@127.0.0.1:{port}", "refuses the user or the password"),
    ],
)
def test_a_wrong_password_is_said_as_what_it_is(
    url: str, words: str, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--requirepass", "planted-right")
    proxy = start_proxy(url.format(port=server.port), *FLAGS)
    wait_until(lambda: "is unavailable" in proxy.stderr, "it is said")
    (line,) = [line for line in proxy.stderr.splitlines() if "is unavailable" in line]
    reason = pages(proxy).get("/readyz").text
    for text in (line, reason):
        assert words in text
        assert PASSWORD_SETTING in text
        assert "planted" not in text
    # The link tries again and again, and logs again only if the reason is another one.
    server.kill()
    wait_until(lambda: "nothing listens" in proxy.stderr, "the other reason")
    assert proxy.stderr.count(words) == 1


def test_a_right_that_the_proxys_user_lacks_is_named(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "link", "on", ">planted", "~*", "&*", "+@all", "-info")
    proxy = start_proxy(f"redis://link:planted@127.0.0.1:{server.port}", *FLAGS)
    reason = pages(proxy).get("/readyz").text
    assert "upstream_user" in reason
    assert "info" in reason
    assert "planted" not in reason
