"""A proxy that asks Sentinels for the master, through failovers of each kind."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.faults.conftest import StartSentinel, is_refused, sentinel_url
from tests.support.admin_pages import FLAGS, Pages, pages
from tests.support.command_line import ttlproxy
from tests.support.doctor import examine, of
from tests.support.processes import attempts, free_port, wait_until
from tests.support.raw_client import Connection, command
from tests.support.requirements import BINARIES
from tests.support.sentinels import Replicated, Sentinel, follow
from tests.support.server_queries import connections, until_blocked
from tests.support.servers import Binary, Proxy, Server
from tests.support.timed_clients import NAME, TimedClients
from ttlproxy.operations.doctor import Severity

pytestmark = pytest.mark.long

REFUSED = b"-ERR ttlproxy has no connection to Redis"
SOON = ("--hold-max", "0.1")
PATIENCE_S = 90


@pytest.fixture(scope="module")
def shared_replicated(version: str) -> Iterator[Replicated]:
    with Replicated(BINARIES[version]) as servers:
        yield servers


@pytest.fixture
def servers(shared_replicated: Replicated, binary: Binary) -> Replicated:
    """One master, two replicas and three Sentinels, at rest."""
    shared_replicated.until_calm()
    return shared_replicated


def _ours(server: Server) -> set[str]:
    """Connections of the proxy and of its clients at a server; "?" if it closes ours just now, as
    a Sentinel has it do with all."""
    try:
        names = {each["name"] for each in connections(server.port)}
    except (OSError, EOFError):
        return {"?"}
    return {name for name in names if name.startswith("ttlproxy:") or name == NAME}


def _until_left(servers: Replicated, master: Server) -> None:
    """Returns when no server but the master has a connection of the proxy."""
    for server in servers.servers:
        if server is not master:
            wait_until(lambda server=server: not _ours(server), "no session there")  # type: ignore[misc]


def _fail_over(servers: Replicated, proxy: Proxy, trouble: str) -> None:
    """While clients write and read; checks all that must hold then."""
    old = servers.until_calm()
    with ExitStack() as stack:
        idle = stack.enter_context(Connection(proxy.port))
        assert idle.ask("CLIENT", "SETNAME", NAME) == b"+OK\r\n"
        clients = stack.enter_context(TimedClients(proxy.port))
        if trouble == "asked":
            new = servers.fail_over(old)
        else:
            old.child.send_signal(signal.SIGKILL if trouble == "killed" else signal.SIGSTOP)
            new = servers.until_promoted(old)
        if trouble == "killed":
            old.wait()
        assert idle.read_to_end() == b""
        clients.until_served()
        servers.until_named(new)  # before that, they agree on the old one
        if trouble == "stopped":
            old.child.send_signal(signal.SIGCONT)
        if trouble != "killed":
            wait_until(lambda: not _ours(old), "no session at the old master")
        new = servers.until_calm()  # on a busy machine Sentinels may have failed over again
        clients.until_served()
        wait_until(lambda: "ttlproxy:pushes" in _ours(new), "the proxy at the new master")
    outcome = clients.examined(new.port)
    assert outcome.checked
    assert outcome.faults == []
    _until_left(servers, new)
    clients.until_gone(new.port)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["killed", "stopped", "asked"])
@pytest.mark.timeout(400)
def test_nothing_is_lost_or_late_through_failovers(
    servers: Replicated, start_proxy: StartProxy, trouble: str
) -> None:
    proxy = start_proxy(servers.url, *(("--workers", "2") if trouble == "stopped" else ()))
    for _ in range(2):
        _fail_over(servers, proxy, trouble)
    if trouble == "asked":  # else the old master's silence may be noticed first
        assert "the Sentinels name" in proxy.stderr
    assert str(servers.master.port) in proxy.stderr


def _until_served(proxy: Proxy, *words: str) -> None:
    """`words`: a request that is answered without an error then."""
    words = words or ("HSETEX", "h", "EX", "9", "FIELDS", "1", "a", "1")

    def is_served() -> bool:
        with Connection(proxy.port) as client:
            try:
                return not client.ask(*words).startswith(b"-")
            except (OSError, EOFError):
                return False

    wait_until(is_served, "a client that is served")


def test_the_sentinels_have_a_password_of_their_own(
    start_server: StartServer,
    start_sentinel: StartSentinel,
    start_proxy: StartProxy,
    tmp_path: Path,
) -> None:
    server, user = start_server("--requirepass", "of-redis"), "asker"
    rights = "+auth +hello +client +ping +subscribe +sentinel|master &*"
    login = f"user {user} on >of-sentinels {rights} +sentinel|get-master-addr-by-name"
    sentinel = start_sentinel(server.port, "sentinel auth-pass mymaster of-redis", login)
    with Connection(sentinel.port) as direct:
        assert direct.ask("ACL", "SETUSER", "default", "resetpass", ">w") == b"+OK\r\n"
    url = sentinel_url(sentinel.port).replace("://", "://:of-redis@")
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    flags = ["--sentinel-password-file", str(secret), "--sentinel-user", user]
    refusal = f"127.0.0.1:{sentinel.port}: the Sentinel refuses the user or the password"
    proxy = start_proxy(url, *flags, *SOON)
    is_refused(proxy, refusal, "sentinel_password")
    secret.write_text("of-sentinels\n")  # it is read again
    _until_served(proxy, "AUTH", "of-redis")
    assert "of-sentinels" not in proxy.stderr
    without = start_proxy(url, *SOON)
    is_refused(without, "the Sentinel requires a password; set sentinel_password")


def test_a_sentinel_named_as_a_redis_is_told_apart(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    sentinel = start_sentinel(start_server().port)
    with pytest.raises(RuntimeError, match="redis-sentinel://"):
        start_proxy(f"redis://127.0.0.1:{sentinel.port}")


def is_master(server: Server) -> bool:
    """Whether it is one now; a Sentinel ends all connections of a server that it promotes."""
    with suppress(OSError, EOFError), Connection(server.port) as direct:
        return b"master" in direct.ask("ROLE")
    return False


def test_a_promotion_that_sentinel_does_not_notice_is_noticed(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    """The Sentinel may not ask the replica for INFO; else it does so once a second."""
    master, replica = start_server(), start_server()
    for server in (master, replica):
        with Connection(server.port) as direct:
            direct.ask("ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all")
    follow(replica, master)
    sentinel = start_sentinel(master.port, "sentinel failover-timeout mymaster 600000")
    sentinel.ask("SET", "mymaster", "quorum", "1")
    proxy = start_proxy(sentinel_url(sentinel.port).replace("://", "://app:word@"))
    with Connection(proxy.port) as client:
        assert client.ask("AUTH", "app", "word") == b"+OK\r\n"
        for _ in attempts(PATIENCE_S, "a promotion"):
            with Connection(replica.port) as direct:
                direct.ask("ACL", "SETUSER", "default", "+info")
                wait_until(lambda: sentinel.knows(replica.port), "a replica that is fit", 60)
                direct.ask("ACL", "SETUSER", "default", "-info")
            sentinel.ask_to_fail_over()
            # A Sentinel that gets no processor for two seconds does nothing for half a minute, and
            # then the replica is no longer fit.
            wait_until(lambda: is_master(replica) or not sentinel.is_failing_over, "an end", 60)
            if is_master(replica):
                break
        assert client.read_to_end() == b""
    with Connection(proxy.port) as client:
        assert client.ask("AUTH", "app", "word") == b"+OK\r\n"
        assert b"tcp_port:%d\r\n" % replica.port in client.ask("INFO", "server")
    assert sentinel.master_port == master.port


def _name_another(sentinel: Sentinel, server: Server) -> None:
    """The Sentinel says from now on that this is the master; the former one lives on as it was."""
    sentinel.ask("REMOVE", "mymaster")
    sentinel.ask("MONITOR", "mymaster", "127.0.0.1", str(server.port), "1")


def test_all_sessions_end_when_the_sentinels_name_another_server(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    """The old one remains a master, and could serve for ever."""
    old, new = start_server(), start_server()
    sentinel = start_sentinel(old.port)
    proxy = start_proxy(sentinel_url(sentinel.port))
    with ExitStack() as stack:
        idle, listener, blocked, lent = (
            stack.enter_context(Connection(proxy.port)) for _ in range(4)
        )
        assert idle.ask("PING") == b"+PONG\r\n"
        listener.ask("SUBSCRIBE", "c")
        blocked.send(command("BLPOP", "nothing", 0))
        lent.send(command("LEASE", "jobs", "leased", "PX", 9000, "BLOCK", 0))
        until_blocked(old.port, 2)
        _name_another(sentinel, new)
        for client in (idle, listener, blocked, lent):
            assert client.read_to_end() == b""
    with Connection(proxy.port) as client:
        client.send(command("LEASE", "jobs", "leased", "PX", 9000, "BLOCK", 0))
        until_blocked(new.port, 1)
        with Connection(new.port) as direct:
            direct.ask("LPUSH", "jobs", "one")
        assert b"one" in client.read()
    wait_until(lambda: not _ours(old), "nothing of ours at the old server")


@pytest.mark.slow
def test_no_client_stays_with_another_server_than_the_proxy_itself(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    """Clients connect all the time while the master moves to and fro."""
    servers = [start_server(), start_server()]
    sentinel = start_sentinel(servers[0].port)
    proxy = start_proxy(sentinel_url(sentinel.port))
    over = threading.Event()
    clients: list[Connection] = []

    def connect_again_and_again() -> None:
        while not over.is_set():
            with suppress(OSError, EOFError):
                clients.append(Connection(proxy.port))
                clients[-1].ask("CLIENT", "SETNAME", NAME)

    with ExitStack() as stack:
        thread = threading.Thread(target=connect_again_and_again)
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        for turn in range(1, 6):
            target = servers[turn % 2]
            _name_another(sentinel, target)
            wait_until(lambda: NAME in _ours(target), "clients at the new server")  # noqa: B023
            wait_until(lambda: not _ours(servers[(turn + 1) % 2]), "none at the other")  # noqa: B023
    for client in clients:
        client.close()


def _upstreams(admin: Pages) -> set[str]:
    """The servers of all workers, as the metrics show them: ttlproxy_upstream_info is that of one
    worker."""
    text = admin.get("/metrics").text
    shown = re.findall(r'ttlproxy_upstream_info{address="(.*?)"} 1', text)
    return {*shown, *re.findall(r'ttlproxy_node_up{node="(.*?)"}', text)}


@pytest.mark.any_server
def test_operators_are_told_which_server_is_the_master(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    """By each of two workers."""
    old, new = start_server(), start_server()
    sentinel, away = start_sentinel(old.port), free_port()
    url = sentinel_url(sentinel.port, away)
    proxy = start_proxy(url, *FLAGS, "--workers", "2")
    admin = pages(proxy)
    for server in (old, new):
        _name_another(sentinel, server)
        named = {f"127.0.0.1:{server.port}"}
        wait_until(lambda named=named: _upstreams(admin) == named, "the address")  # type: ignore[misc]
        shown = json.loads(admin.get("/status.json").text)["upstream"]
        assert shown.endswith(f"#mymaster (127.0.0.1:{server.port})")
        assert admin.until("/readyz", 200)
        assert "error" not in json.loads(admin.get("/inspect.json").text)
    told = examine(url)
    found = of("sentinels", told)
    assert of("replicas", told).what == "the server has no replica that is connected to it"
    assert (found.severity, str(away) in found.what) == (Severity.WARNING, True)
    of("connection", examine(sentinel_url(away)))
    with Connection(proxy.port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1) == b":1\r\n"
    proxy.stop()
    purge = ttlproxy("purge", "--apply", "--upstream", url)
    assert (purge.returncode, purge.stdout[:11]) == (0, "database 0:")
    with Connection(new.port) as direct:
        assert direct.ask("KEYS", "*") == b"*1\r\n$1\r\nh\r\n"
