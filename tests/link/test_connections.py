"""The proxy's own connections: how they log in, how long they wait, and what they reach."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.conftest import StartServer
from tests.link.conftest import until
from tests.support.certificates import Authority
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT, free_port, wait_until
from tests.support.redis_client import Client
from tests.support.requirements import absent
from tests.support.server_queries import clients, connections, info
from tests.support.servers import Server
from ttlproxy.addresses import SecretFile, Upstream
from ttlproxy.core.counters import DIALS_FAILED, Dials
from ttlproxy.link import client
from ttlproxy.link.connecting.connections import close, open_now, plain_socket
from ttlproxy.link.connecting.failures import cause
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.connecting.reachability import accepts, identity, met
from ttlproxy.net.sockets import dial_failure

LIMIT_S = 30.0
SHORT_S = 0.05
Connect = Callable[..., Redis]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """`connect(upstream, timeout_s, ...)` is a connection that is closed at the end."""
    made = list[Redis]()

    def make(upstream: Upstream, timeout_s: float = LIMIT_S, *more: Any, **options: Any) -> Redis:
        made.append(client(upstream, "ttlproxy:test", timeout_s, *more, **options))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
def upstream(server: AnyServer) -> Upstream:
    return Upstream.parse(server.url)


@pytest.fixture
def by_path(server: AnyServer) -> Upstream:
    """The same server by its unix socket."""
    if not isinstance(server, Server):
        pytest.skip("the server of a container has no unix socket here")
    return Upstream.parse(f"unix://{server.socket_path}")


@pytest.fixture
def silent() -> Iterator[Upstream]:
    """Accepts connections, and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield Upstream(host="127.0.0.1", port=listener.getsockname()[1])


@pytest.fixture
async def without_tls() -> AsyncIterator[Upstream]:
    """Answers whatever comes, and not in TLS."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"-ERR unknown command\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield Upstream(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])


@pytest.fixture
def silent_path(tmp_path: Path) -> Iterator[Upstream]:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "silent"))
        listener.listen()
        yield Upstream(path=str(tmp_path / "silent"))


@pytest.fixture
def nowhere() -> Upstream:
    return Upstream(host="127.0.0.1", port=CLOSED_PORT)


@pytest.fixture
def at_redis(direct: Client) -> Iterator[Client]:
    """Redis has a user `narrow` with the password `word`."""
    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all")
    yield direct
    direct.ask("ACL", "DELUSER", "narrow")


async def _user(redis: Redis) -> object:
    return await redis.execute_command("ACL", "WHOAMI")


async def test_redis_shows_what_each_connection_is_for(
    connect: Connect, upstream: Upstream, by_path: Upstream, server: AnyServer
) -> None:
    for each in (upstream, by_path):
        await connect(each).ping()
    ours = [each for each in connections(server.port) if each["name"] == "ttlproxy:test"]
    assert [each["db"] for each in ours] == ["0", "0"]


async def test_only_the_first_connection_reads_the_version_of_redis_py(
    connect: Connect, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its package's files are read by the event loop itself."""
    await connect(upstream).ping()
    monkeypatch.delattr(metadata, "version")
    assert await connect(upstream).ping()


async def test_it_logs_in_as_the_url_says(
    connect: Connect, upstream: Upstream, at_redis: Client
) -> None:
    as_narrow = replace(upstream, user="narrow", password="word")
    assert await _user(connect(as_narrow)) == b"narrow"
    assert await _user(connect(upstream)) == b"default"
    with pytest.raises(AuthenticationError, match="without any password configured"):
        await _user(connect(replace(upstream, password="any")))
    with pytest.raises(AuthenticationError, match="invalid"):
        await _user(connect(replace(as_narrow, password="other")))


async def test_each_connection_reads_the_password_anew(
    connect: Connect, upstream: Upstream, at_redis: Client, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    path.write_text("word")
    file = SecretFile(path, "word")
    redis = connect(replace(upstream, user="narrow", password="word", password_file=file))
    assert await _user(redis) == b"narrow"
    at_redis.ask("ACL", "SETUSER", "narrow", "resetpass", ">new")
    path.write_text("new")
    at_redis.ask("CLIENT", "KILL", "USER", "narrow")
    with pytest.raises(RedisConnectionError):
        await _user(redis)
    assert await _user(redis) == b"narrow"


async def test_a_request_is_sent_once(connect: Connect) -> None:
    came = list[bytes]()

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"INCR\r\n":
                came.append(line)
                break
            if line == b"SETNAME\r\n" or line == b"SETINFO\r\n":
                writer.write(b"+OK\r\n")
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(RedisConnectionError):
            await connect(Upstream(host="127.0.0.1", port=port)).execute_command("INCR", "k")
    assert len(came) == 1


async def test_one_connection_is_for_one_task(connect: Connect, upstream: Upstream) -> None:
    redis = connect(upstream)
    await redis.ping()
    taken = await redis.connection_pool.get_connection()
    with pytest.raises(RedisConnectionError, match="Too many connections"):
        await redis.ping()
    await redis.connection_pool.release(taken)


async def test_only_a_patient_connection_waits_for_a_reply_as_long_as_it_takes(
    connect: Connect, upstream: Upstream, by_path: Upstream, direct: Client
) -> None:
    for each in (upstream, by_path):
        patient, other = connect(each, SHORT_S, patient=True), connect(each, SHORT_S)
        await patient.ping()
        await other.ping()
        direct.ask("CLIENT", "PAUSE", 4 * round(SHORT_S * 1000), "ALL")
        waiting = asyncio.ensure_future(patient.ping())
        with pytest.raises(RedisTimeoutError):
            await other.ping()
        await waiting


async def test_a_connection_that_the_other_side_does_not_finish_is_given_up(
    silent: Upstream, silent_path: Upstream
) -> None:
    for each in (silent, silent_path):
        with closing(plain_socket(each, SHORT_S)) as connected, pytest.raises(TimeoutError):
            connected.recv(1)
        assert await accepts(each, LIMIT_S)
        with pytest.raises((TimeoutError, RedisTimeoutError)):
            await identity(each, SHORT_S)
        assert await met(each, SHORT_S) is None


async def test_a_cancellation_is_not_lost_at_whatever_moment_it_comes(
    connect: Connect, upstream: Upstream
) -> None:
    redis = connect(upstream)
    for turns in range(10):
        await redis.ping()
        waiting = asyncio.create_task(run(redis, [(0, (b"BLPOP", b"l", 1))]))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled(), turns


async def test_a_write_that_is_not_read_is_given_up(connect: Connect) -> None:
    ended = asyncio.Event()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while b"SETNAME" not in await reader.read(1000):
            pass
        writer.write(b"+OK\r\n" * 3)
        await ended.wait()
        writer.close()

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        redis = connect(Upstream("127.0.0.1", port), LIMIT_S)
        await open_now(redis)
        (connection,) = redis.connection_pool._available_connections
        connection.socket_timeout = SHORT_S
        with pytest.raises(RedisTimeoutError, match="writing"):
            await run(redis, [(0, (b"SET", b"k", bytes(30_000_000)))])
        assert not connection.is_connected
        ended.set()


async def test_an_address_where_nothing_listens_is_told(nowhere: Upstream, tmp_path: Path) -> None:
    missing = Upstream(path=str(tmp_path / "none"))
    for each, what in ((nowhere, "nothing listens at"), (missing, "there is no socket at")):
        with pytest.raises(OSError, match=r"refused|No such file") as refused:
            plain_socket(each, LIMIT_S)
        assert str(cause(refused.value)).startswith(f"{what} {each.address}")
        assert not await accepts(each, LIMIT_S)
        assert await met(each, LIMIT_S) is None


async def test_attempts_to_connect_are_counted_by_what_became_of_them(
    connect: Connect,
    upstream: Upstream,
    by_path: Upstream,
    nowhere: Upstream,
    silent: Upstream,
    without_tls: Upstream,
) -> None:
    dials = Dials()
    for each in (upstream, by_path):
        await connect(each, dials=dials).ping()
    fails: tuple[tuple[Upstream, float], ...] = (
        (nowhere, LIMIT_S),
        (replace(without_tls, tls=True), LIMIT_S),
        (replace(silent, tls=True), SHORT_S),
        (replace(upstream, host="nowhere.invalid"), LIMIT_S),
        (Upstream(path="/nowhere"), LIMIT_S),
    )
    for wrong, limit_s in fails:
        with pytest.raises((RedisConnectionError, RedisTimeoutError)):
            await connect(wrong, limit_s, dials=dials).ping()
    assert dials.opened == 2
    assert dials.failed == dict.fromkeys(DIALS_FAILED, 1)


async def test_a_name_whose_addresses_all_refuse_is_refused() -> None:
    """asyncio raises a bare OSError then."""
    at_both = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] too")
    assert dial_failure(at_both) == "refused"


async def test_a_look_leaves_no_connection_behind(
    upstream: Upstream, by_path: Upstream, server: AnyServer, direct: Client
) -> None:
    run_id = info(server.port, "server")["run_id"]
    direct.ask("PING")
    before = clients(server.port)
    for each in (upstream, by_path):
        assert await accepts(each, LIMIT_S)
        found = await identity(each, LIMIT_S)
        assert found.run_id == run_id
        assert found.is_master
        assert await met(each, LIMIT_S) == found
    await asyncio.to_thread(wait_until, lambda: clients(server.port) == before, "all closed")


@pytest.mark.parametrize("seconds", [0, 7])
async def test_silent_peers_are_probed_if_that_is_set(
    connect: Connect, upstream: Upstream, by_path: Upstream, seconds: int
) -> None:
    with closing(plain_socket(upstream, LIMIT_S, seconds)) as connected:
        assert _probed_after_s(connected) == seconds
    plain_socket(by_path, LIMIT_S, seconds).close()
    pool = connect(upstream, LIMIT_S, seconds).connection_pool
    connection = await pool.get_connection()
    assert _probed_after_s(connection._writer.get_extra_info("socket")) == seconds
    await pool.release(connection)


def _probed_after_s(connected: Any) -> int:
    if not connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
        return 0
    return int(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))


@pytest.mark.any_server
async def test_a_server_behind_tls_must_have_the_name_that_is_set(
    connect: Connect, start_server: StartServer, tmp_path: Path
) -> None:
    authority, port = Authority(tmp_path), free_port()
    cert, key = authority.issue("redis.example", into="redis")
    files = [
        *("--tls-cert-file", str(cert), "--tls-key-file", str(key)),
        *("--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", "no"),
    ]
    try:
        start_server("--tls-port", str(port), *files)
    except RuntimeError as trouble:
        absent("tls", f"this server has no TLS: {str(trouble).splitlines()[-1]}")
    right = Upstream("127.0.0.1", port, tls=True, tls_ca=authority.file)
    right = replace(right, tls_server_name="redis.example")
    wrong = replace(right, tls_server_name=None)
    assert await connect(right).ping()
    with closing(plain_socket(right, LIMIT_S)) as connected:
        connected.sendall(b"PING\r\n")
        assert connected.recv(100) == b"+PONG\r\n"
    with pytest.raises(RedisConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        await connect(wrong).ping()
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        plain_socket(wrong, LIMIT_S)


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_request_on_a_connection_that_was_just_reset_is_lost_and_the_next_is_not(
    upstream: Upstream, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Event loops tell it in ways of their own: see CPython's and uvloop's transports."""

    async def main() -> None:
        redis = client(upstream, "ttlproxy:test", LIMIT_S)
        connection = await redis.connection_pool.get_connection()
        connection._writer.transport.abort()
        with pytest.raises(RedisConnectionError):
            await connection.send_packed_command(b"PING\r\n")
        assert not connection.is_connected
        await redis.connection_pool.release(connection)
        assert await redis.ping()
        await redis.aclose()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


async def test_connections_are_closed_even_if_their_user_is_cancelled_meanwhile(
    server: AnyServer, upstream: Upstream
) -> None:
    both = [client(upstream, "ttlproxy:closing", LIMIT_S) for _ in range(2)]
    for each in both:
        await each.ping()
    closing_both = asyncio.create_task(close(*both))
    await asyncio.sleep(0)  # it has begun
    closing_both.cancel()
    await asyncio.wait({closing_both})
    assert closing_both.cancelled()

    def is_closed() -> bool:
        return not any(each["name"] == "ttlproxy:closing" for each in connections(server.port))

    await until(is_closed)


async def test_a_failure_of_a_close_that_nobody_waits_for_any_more_is_not_reported() -> None:
    """As at the end of the process, which cancels what still closes connections."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    is_cut = asyncio.Event()

    class Cut(Redis):
        async def aclose(self, close_connection_pool: bool | None = None) -> None:
            await is_cut.wait()
            raise OSError("cut off")

    unwaited = asyncio.create_task(close(Cut()))
    await asyncio.sleep(0)  # it has begun
    unwaited.cancel()
    await asyncio.wait({unwaited})
    del unwaited
    is_cut.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert reported == []
