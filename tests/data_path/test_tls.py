"""TLS to clients and to Redis: the same conversations, and which certificates are accepted."""

import socket
import ssl
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, families, metric, pages
from tests.support.certificates import Authority, TlsSocket
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection, command, listens
from tests.support.relay import Gate, Relay
from tests.support.requirements import absent
from tests.support.server_queries import calls, connections, unnamed
from tests.support.servers import Proxy, Server, unshared
from tests.support.worker_counts import alone_or_with
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.errors import CertificateError, SettingsError
from ttlproxy.net.tls import for_clients, for_redis
from ttlproxy.net.tls.contexts import certificate_ends

pytestmark = pytest.mark.any_server

MIB = 1 << 20
LOCAL = ("localhost", "127.0.0.1")

SOON_S, LATER_S, IN_2060_S = 2_000_000_000, 2_000_086_400, 2_840_140_800

Connect = Callable[..., Connection]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def flags(authority: Authority) -> list[str]:
    """The flags of a proxy that clients reach over TLS."""
    cert, key = authority.issue(*LOCAL, into="proxy")
    return ["--tls-cert", str(cert), "--tls-key", str(key)]


@pytest.fixture
def serve(start_proxy: StartProxy, server: AnyServer, flags: list[str]) -> StartProxy:
    """serve(*arguments) starts such a proxy in front of `server`."""
    return partial(start_proxy, server.url, *flags)


@pytest.fixture
def connect(authority: Authority) -> Iterator[Connect]:
    """connect(proxy, name, certificate) opens a connection over TLS."""
    opened = []

    def connect(
        proxy: Proxy, name: str = "localhost", shown: tuple[Path, Path] | None = None
    ) -> Connection:
        context = authority.trusted(shown)
        opened.append(Connection(proxy.port, wrapped=lambda plain: TlsSocket(plain, context, name)))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def _behind_tls(
    start_server: StartServer, authority: Authority, *config: str
) -> tuple[Server, str]:
    """A Redis that is reached over TLS, and its URL."""
    cert, key = authority.issue(*LOCAL, into="redis")
    port = free_port()
    files = [
        *("--tls-cert-file", str(cert), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(authority.file)),
    ]
    try:
        server = start_server("--tls-port", str(port), *files, *config)
    except RuntimeError as trouble:
        absent("tls", f"this server has no TLS: {str(trouble).splitlines()[-1]}")
    return server, f"rediss://127.0.0.1:{port}"


@both_loops
@alone_or_with(2)
def test_commands_and_large_values_pass_by_tls(
    serve: StartProxy, connect: Connect, workers: int
) -> None:
    client = connect(serve("--workers", str(workers)))
    value = bytes(range(256)) * (4 * MIB // 256)
    assert client.ask("SET", "k", value) == b"+OK\r\n"
    assert client.ask("GET", "k") == b"$%d\r\n%b\r\n" % (len(value), value)
    assert client.ask("HSET", "h", "a", 1, "b", 2) == b":2\r\n"
    assert client.ask("HPEXPIREFIELD", "h", "a", 20) == b":1\r\n"
    wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")
    client.send(command("GET", "k") * 8 + command("QUIT"))
    reply = b"$%d\r\n%b\r\n" % (len(value), value)
    assert client.read_to_end() == reply * 8 + b"+OK\r\n"


@both_loops
def test_a_client_that_sends_no_more_gets_the_replies_that_it_is_owed(
    serve: StartProxy, connect: Connect
) -> None:
    """asyncio's own TLS would end both directions at once."""
    client = connect(serve())
    value = b"v" * MIB
    client.ask("SET", "k", value)
    client.send(command("GET", "k") * 32)
    client.half_close()
    assert client.read_to_end() == (b"$%d\r\n%b\r\n" % (MIB, value)) * 32


@both_loops
def test_a_client_that_ends_in_one_packet_with_a_request_that_has_to_wait_gets_its_reply(
    serve: StartProxy, connect: Connect
) -> None:
    """Over plain TCP the end is read only when nothing is held any more."""
    client = connect(serve())
    assert client.ask("PING") == b"+PONG\r\n"
    assert isinstance(client.socket, TlsSocket)
    looked_at = command("CONFIG", "SET", "notify-keyspace-events", "")
    client.socket.tls.write(looked_at + command("PING"))
    client.half_close()  # sends all
    assert client.read_to_end() == b"+OK\r\n+PONG\r\n"


@both_loops
def test_sigterm_ends_a_tls_connection_after_what_is_owed(
    serve: StartProxy, server: AnyServer, connect: Connect
) -> None:
    proxy = serve()
    client = connect(proxy)
    value = b"v" * MIB
    client.ask("SET", "k", value)
    client.ask("CONFIG", "RESETSTAT")
    client.send(command("GET", "k") * 8)
    wait_until(lambda: calls(server.port, "get") == 8, "all requests at Redis")
    proxy.terminate()
    assert client.read_to_end() == (b"$%d\r\n%b\r\n" % (MIB, value)) * 8
    client.close()
    assert proxy.wait() == 0
    assert not proxy.faults


@unshared
def test_replies_that_nobody_reads_do_not_pile_up_in_tls(
    serve: StartProxy, server: AnyServer, connect: Connect
) -> None:
    proxy = serve()
    lazy, busy = connect(proxy), connect(proxy)
    value = b"v" * MIB
    busy.ask("SET", "k", value)
    busy.ask("CONFIG", "RESETSTAT")
    before = proxy.rss_bytes()
    lazy.send(command("GET", "k") * 100)
    wait_until(lambda: calls(server.port, "get") == 100, "Redis has answered")
    for _ in range(1000):  # as many passes of the proxy's loop
        busy.ask("PING")
    assert proxy.rss_bytes() - before < 24 * MIB
    assert lazy.read_many(100) == [b"$%d\r\n%b\r\n" % (MIB, value)] * 100


def test_a_client_that_leaves_before_tls_is_up_is_no_event(
    start_proxy: StartProxy, start_server: StartServer, flags: list[str]
) -> None:
    proxy = start_proxy(start_server().url, *flags, *FLAGS)
    with Connection(proxy.port) as probe:
        probe.half_close()
        assert probe.read_to_end() == b""
    with Connection(proxy.port) as plain:
        plain.send(command("PING"))
        assert b"PONG" not in plain.read_to_end()
    wait_until(lambda: "a client is refused: [SSL" in proxy.stderr, "the second")
    assert proxy.stderr.count("a client is refused") == 1
    assert metric(pages(proxy), "ttlproxy_tls_handshakes_failed_total") == 1


def test_tls_1_1_is_refused(serve: StartProxy, authority: Authority) -> None:
    proxy = serve()
    context = authority.trusted()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", proxy.port)) as plain,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


@both_loops
@pytest.mark.parametrize(("mode", "may_lack"), [("yes", False), ("optional", True)])
def test_clients_show_certificates_of_the_authority_or_none_where_they_may_lack_one(
    serve: StartProxy,
    connect: Connect,
    authority: Authority,
    tmp_path: Path,
    mode: str,
    may_lack: bool,
) -> None:
    ca = ("--tls-ca", str(authority.file), "--tls-auth-clients", mode)
    proxy = serve(*ca)
    (tmp_path / "other").mkdir()
    unknown = Authority(tmp_path / "other").issue("client")
    for shown, is_served in ((authority.issue("client"), True), (unknown, False), (None, may_lack)):
        refused = pytest.raises((ssl.SSLError, EOFError, ConnectionResetError))
        with nullcontext() if is_served else refused:
            assert connect(proxy, shown=shown).ask("PING") == b"+PONG\r\n"


def _names(authority: Authority, folder: Path, *names: str) -> Path:
    """A folder for --tls-names, with the certificates of these names."""
    found = folder / "names"
    found.mkdir()
    for name in names:
        for path in authority.issue(name, into="issued"):
            path.rename(found / f"{name.replace('*', '_')}{path.suffix}")
    return found


def test_clients_show_certificates_by_whatever_name_they_ask(
    serve: StartProxy, connect: Connect, authority: Authority, tmp_path: Path
) -> None:
    names = _names(authority, tmp_path, "cache.example.org")
    by_certificate = ("--tls-ca", str(authority.file), "--tls-auth-clients", "yes")
    proxy = serve(*by_certificate, "--tls-names", str(names))
    shown = authority.issue("client")
    for name in ("localhost", "cache.example.org"):
        assert connect(proxy, name, shown).ask("PING") == b"+PONG\r\n"
        with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
            connect(proxy, name).ask("PING")


@both_loops
def test_each_server_name_has_its_certificate(
    serve: StartProxy, connect: Connect, authority: Authority, tmp_path: Path
) -> None:
    names = _names(authority, tmp_path, "cache.example.org", "*.example.net")
    proxy = serve("--tls-names", str(names))
    for name in ("localhost", "cache.example.org", "CACHE.example.org", "a.example.net"):
        assert connect(proxy, name).ask("PING") == b"+PONG\r\n"
    for name in ("example.net", "elsewhere.org"):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(proxy, name)


@pytest.mark.slow
@both_loops
def test_a_renewed_certificate_serves_new_connections_and_old_ones_live_on(
    serve: StartProxy, connect: Connect, authority: Authority, tmp_path: Path
) -> None:
    proxy = serve("--workers", "2")
    old = connect(proxy)
    (tmp_path / "proxy.key").write_text("half a key")

    def refused() -> bool:
        assert connect(proxy).ask("PING") == b"+PONG\r\n"
        return "the new certificates are not used" in proxy.stderr

    wait_until(refused, "what cannot be used is not")
    authority.issue("renewed.example.org", into="proxy")

    def renewed() -> bool:
        try:
            return connect(proxy, "renewed.example.org").ask("PING") == b"+PONG\r\n"
        except ssl.SSLCertVerificationError:
            return False

    wait_until(renewed, "the new certificate")
    assert old.ask("PING") == b"+PONG\r\n"


@pytest.mark.slow
def test_metrics_say_when_certificates_end(
    serve: StartProxy, connect: Connect, authority: Authority, tmp_path: Path
) -> None:
    names = tmp_path / "names"
    names.mkdir()
    other = Authority(names)
    other.issue("other.example.org", until_s=SOON_S)
    authority.issue(*LOCAL, into="proxy", until_s=LATER_S)
    more = ["--tls-names", str(names), "--tls-ca", str(authority.file), "--workers", "2"]
    proxy = serve(*more, "--tls-auth-clients", "optional", *FLAGS)
    name = "ttlproxy_certificate_expires_timestamp_seconds"

    def are(certificate_s: int) -> bool:
        samples = families(pages(proxy))[name].samples
        found = {sample.labels["certificate"]: sample.value for sample in samples}
        return found == {"listener_certificate": certificate_s, "listener_ca": _end_s(authority)}

    wait_until(lambda: are(SOON_S), "the first that ends")
    other.issue("other.example.org", until_s=IN_2060_S)

    def renewed() -> bool:
        assert connect(proxy).ask("PING") == b"+PONG\r\n"
        return are(LATER_S)

    wait_until(renewed, "the end of the renewed ones")


def _end_s(authority: Authority) -> int:
    (found,) = authority.trusted().get_ca_certs()
    return ssl.cert_time_to_seconds(str(found["notAfter"]))


def test_the_end_of_certificates_for_redis_is_known(authority: Authority) -> None:
    """Also after 2050, when certificates write years with four digits."""
    cert, key = authority.issue("client", until_s=IN_2060_S)
    upstream = Upstream("redis", 6379, tls=True, tls_cert=cert, tls_key=key)
    for ca, more in ((None, {}), (authority.file, {"ca": _end_s(authority)})):
        tls = for_redis(replace(upstream, tls_ca=ca))
        assert tls is not None
        assert tls.expires_s == {"certificate": IN_2060_S, **more}


def test_a_file_that_is_no_certificate_is_told(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    for der in (b"", b"\x30", b"\x30\x03\x02\x01\x01", bytes(100)):
        wrong.write_text(ssl.DER_cert_to_PEM_cert(der))
        with pytest.raises(ValueError, match="certificate"):
            certificate_ends(wrong)


@pytest.mark.slow
def test_a_proxy_header_comes_before_tls(serve: StartProxy, authority: Authority) -> None:
    proxy = serve(
        *("--proxy-protocol", "yes", "--protected-mode", "no"),
        *("--log-level", "debug", "--workers", "2"),
    )

    def wrapped(plain: socket.socket) -> socket.socket:
        plain.sendall(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n")
        return TlsSocket(plain, authority.trusted(), "localhost")

    with Connection(proxy.port, wrapped=wrapped) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        client.half_close()
        assert client.read_to_end() == b""
    wait_until(lambda: "192.0.2.7:56324" in proxy.stderr, "its address in the log")


# To Redis.


def _serves(proxy: Proxy) -> bool:
    """Uses all kinds of connections to Redis: the client's, link's, pushes' and reaper's."""
    with Connection(proxy.port) as client:
        client.ask("HSET", "h", "a", 1, "b", 2)
        if client.ask("HPEXPIREFIELD", "h", "a", 20) != b":1\r\n":
            return False
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")
        return client.ask("DEL", "h") == b":1\r\n"


def _is_refused(proxy: Proxy) -> bool:
    with Connection(proxy.port) as client:
        return client.read_to_end().startswith(b"-ERR ttlproxy")


@both_loops
def test_redis_is_shown_a_certificate(
    start_server: StartServer, start_proxy: StartProxy, authority: Authority
) -> None:
    _, url = _behind_tls(start_server, authority)
    cert, key = map(str, authority.issue("proxy"))
    trusting = ("--upstream-tls-ca", str(authority.file))
    assert _is_refused(start_proxy(url, *trusting))
    shown = ("--upstream-tls-cert", cert, "--upstream-tls-key", key)
    assert _serves(start_proxy(url, *trusting, *shown))


def test_redis_s_certificate_may_be_for_another_name(
    start_server: StartServer, start_proxy: StartProxy, authority: Authority
) -> None:
    _, url = _behind_tls(start_server, authority, "--tls-auth-clients", "no")
    trusting = ("--upstream-tls-ca", str(authority.file), "--upstream-tls-server-name")
    assert _serves(start_proxy(url, *trusting, "localhost"))
    assert _is_refused(start_proxy(url, *trusting, "elsewhere.org"))
    assert _is_refused(start_proxy(url)), "an authority nobody trusts"


@both_loops
def test_owed_replies_arrive_whole_also_from_a_redis_behind_tls(
    start_server: StartServer, start_proxy: StartProxy, authority: Authority
) -> None:
    server, url = _behind_tls(start_server, authority, "--tls-auth-clients", "no")
    proxy = start_proxy(url, "--upstream-tls-ca", str(authority.file))
    value = b"v" * MIB
    with Connection(proxy.port) as client:
        client.ask("SET", "k", value)
        client.send(command("GET", "k") * 32)
        client.half_close()
        assert client.read_to_end() == (b"$%d\r\n%b\r\n" % (MIB, value)) * 32
    with Connection(proxy.port) as client:
        client.send(command("CLIENT", "REPLY", "OFF") + command("SET", "done", 1))
        with Connection(server.port) as direct:
            wait_until(lambda: direct.ask("EXISTS", "done") == b":1\r\n", "its SET")
        client.half_close()
        assert client.read_to_end() == b""


# What is refused at start.


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tls-key", "{key}"], "needs tls_cert too"),
        (["--tls-ca", "{key}"], "needs tls_cert too"),
        (["--tls-cert", "{cert}", "--tls-ca", "{cert}"], "need both"),
        (["--tls-cert", "{cert}", "--tls-auth-clients", "yes"], "need both"),
        (["--tls-cert", "/nowhere"], "cannot read the file"),
        (["--tls-cert", "{cert}", "--tls-names", "/nowhere"], "no such directory"),
        (["--upstream", "redis://h", "--upstream-tls-cert", "{cert}"], "need a rediss:// URL"),
        (["--upstream", "rediss://h", "--upstream-tls-key", "{key}"], "needs upstream_tls_cert"),
    ],
)
def test_settings_of_tls_that_do_not_go_together_are_refused(
    authority: Authority, words: list[str], problem: str
) -> None:
    cert, key = authority.issue(*LOCAL)
    with pytest.raises(SettingsError, match=problem):
        load([word.format(cert=cert, key=key) for word in words])


def test_a_key_of_another_certificate_is_refused(authority: Authority) -> None:
    cert, _ = authority.issue(*LOCAL)
    _, key = authority.issue("elsewhere.org")
    with pytest.raises(CertificateError, match="the key is that of another certificate"):
        for_clients(load(["--tls-cert", str(cert), "--tls-key", str(key)]))


def test_files_that_have_no_certificate_or_no_key_are_named(
    authority: Authority, tmp_path: Path
) -> None:
    cert, key = authority.issue(*LOCAL)
    text = tmp_path / "text"
    text.write_text("no certificate")
    trust = ["--tls-auth-clients", "yes", "--tls-ca"]
    for words, named, lacks in (
        ([text], text, "no certificate"),
        ([cert], cert, "no private key"),
        ([cert, "--tls-key", cert], cert, "no private key"),
        ([cert, "--tls-key", key, *trust, text], text, "no certificate"),
    ):
        with pytest.raises(CertificateError, match=f"{named}: it contains {lacks}"):
            for_clients(load(["--tls-cert", *map(str, words)]))
    upstream = load(["--upstream", "rediss://h", "--upstream-tls-ca", str(text)]).upstream
    assert upstream is not None
    with pytest.raises(CertificateError, match=f"{text}: it contains no certificate"):
        for_redis(upstream)


def test_files_for_the_sentinels_are_tried_at_the_start(authority: Authority) -> None:
    cert, _ = authority.issue(*LOCAL)
    _, key = authority.issue("elsewhere.org")
    shown = ["--sentinel-tls-cert", str(cert), "--sentinel-tls-key", str(key)]
    upstream = load(["--upstream", "rediss-sentinel://s#m", *shown]).upstream
    assert upstream is not None
    with pytest.raises(CertificateError, match="the key is that of another certificate"):
        for_redis(upstream)


@both_loops
def test_replies_from_before_redis_closes_arrive_by_tls(
    start_server: StartServer, start_proxy: StartProxy, authority: Authority
) -> None:
    """Redis leaves bytes unread, so that the proxy's next write fails."""
    _, url = _behind_tls(start_server, authority, "--tls-auth-clients", "no")
    proxy = start_proxy(url, "--upstream-tls-ca", str(authority.file))
    more = command("SET", "after", "v" * 1000) * 1000
    for _ in range(20):
        with Connection(proxy.port) as client:
            number = client.ask("CLIENT", "ID")[1:-2]
            kill = command("CLIENT", "KILL", "ID", number, "SKIPME", "no")
            client.send(command("PING") * 50 + kill + more)
            assert client.read_to_end() == b"+PONG\r\n" * 50 + b":1\r\n"


class _Connecting(NamedTuple):
    """A client that has sent a request, and has no connection to Redis before `gate.release()`."""

    server: Server
    proxy: Proxy
    gate: Gate
    client: Connection


@pytest.fixture
def connecting(
    start_proxy: StartProxy, start_server: StartServer, authority: Authority
) -> Iterator[_Connecting]:
    server, url = _behind_tls(start_server, authority, "--tls-auth-clients", "no")
    gate = Gate(b"\x16\x03\x01")  # how a TLS handshake begins: RFC 8446, 5.1
    with Relay(int(url.rpartition(":")[2]), 1 << 16, on_request=gate) as relay, gate:
        ca = ("--upstream-tls-ca", str(authority.file))
        flags = (*ca, "--log-level", "debug", "--connect-timeout", "30")
        proxy = start_proxy(f"rediss://127.0.0.1:{relay.port}", *flags)
        with Connection(server.port) as direct:
            assert direct.ask("SET", "k", "v") == b"+OK\r\n"
        own = {f"ttlproxy:{name}" for name in ("link", "reaps", "pushes", "reaper")}
        wait_until(lambda: own <= {each["name"] for each in connections(server.port)}, "its own")
        with Connection(proxy.port) as first:  # served when the others know of this proxy
            assert first.ask("GET", "k") == b"$1\r\nv\r\n"
        wait_until(lambda: unnamed(server.port) == 1, "nothing but this look")
        gate.arm()
        with Connection(proxy.port) as client:
            client.send(command("GET", "k"))
            assert gate.held.wait(30)
            yield _Connecting(server, proxy, gate, client)
        gate.release()
        proxy.stop()


@unshared
def test_a_client_without_a_connection_to_redis_yet_is_served_though_the_proxy_stops(
    connecting: _Connecting,
) -> None:
    _, proxy, gate, client = connecting
    proxy.terminate()
    wait_until(lambda: not listens(proxy.port), "nobody is accepted any more")
    gate.release()
    assert client.read_to_end() == b"$1\r\nv\r\n"
    assert proxy.wait() == 0


@unshared
def test_a_client_that_leaves_before_it_has_a_connection_to_redis_leaves_none(
    connecting: _Connecting,
) -> None:
    server, proxy, gate, client = connecting
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    wait_until(lambda: "client 2: closed" in proxy.stderr, "the proxy knows that it has left")
    gate.release()
    with Connection(proxy.port) as other:
        assert other.ask("GET", "k") == b"$1\r\nv\r\n"
        wait_until(lambda: unnamed(server.port) == 2, "that of the other one, and this look")


@unshared
def test_a_client_whose_server_is_replaced_while_it_connects_is_closed(
    connecting: _Connecting,
) -> None:
    """The connection that it waits for is one to the old server."""
    server, proxy, gate, client = connecting
    with Connection(server.port) as direct:
        assert direct.ask("REPLICAOF", "127.0.0.1", free_port()) == b"+OK\r\n"
        wait_until(lambda: "no longer a master" in proxy.stderr, "the proxy has noticed")
        with Connection(proxy.port) as other:
            assert other.ask("GET", "k") == b"$1\r\nv\r\n"
        gate.release()
        assert client.read_to_end() == b""
        assert direct.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
