"""Opens the proxy's own connections to Redis, with TLS, user and password.

Also computes the pauses before attempts to connect.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final, cast

import redis
from redis.asyncio import Redis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    DefaultParser,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ttlproxy.addresses import Upstream
from ttlproxy.core.counters import Dials
from ttlproxy.net.sockets import counted_dial, keep_own_alive, own_keepalive_options
from ttlproxy.net.tasks import drop, time_limit
from ttlproxy.net.tls import of_redis
from ttlproxy.wire import encode

_LIBRARY = (
    (b"CLIENT", b"SETINFO", b"LIB-NAME", b"redis-py"),
    (b"CLIENT", b"SETINFO", b"LIB-VER", redis.__version__.encode()),
)


class _Credentials(CredentialProvider):
    """User and password, read from their files for each connection."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        user, password = self._upstream.credentials()
        return (user, password or "") if user else (password or "",)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


def nothing() -> None:
    pass


class _Parser(DefaultParser):  # type: ignore[misc,valid-type]
    """redis-py's parser, on hiredis, which also returns replies that have arrived already."""

    def on_connect(self, connection: AbstractConnection) -> None:
        super().on_connect(connection)
        self._empty = self._reader.gets()  # what hiredis returns if there is no reply

    def come(self, most: int) -> list[object]:
        """Returns the replies that have arrived, at most `most`. Raises redis-py's ConnectionError
        if Redis says that it cannot serve."""
        found: list[object] = []
        gets, empty = self._reader.gets, self._empty
        while len(found) < most and (reply := gets()) is not empty:
            if isinstance(reply, ConnectionError):
                raise reply
            found.append(reply)
        return found


class OwnConnection(AbstractConnection):
    """A connection of redis-py that notices a reset, also where uvloop raises RuntimeError.

    Its limit for connecting is `limit_s`. It calls `opened` each time it is opened, and `heard` for
    each reply, and counts in `dials` what it opens.
    """

    def __init__(
        self,
        *,
        limit_s: float,
        dials: Dials,
        heard: Callable[[], None] = nothing,
        opened: Callable[[], None] = nothing,
        **settings: Any,
    ) -> None:
        super().__init__(**settings, parser_class=_Parser)
        self.socket_connect_timeout = None
        self._limit_s = limit_s
        self._dials = dials
        self._heard = heard
        self._opened = opened

    async def _connect(self) -> None:
        with counted_dial(self._dials):
            async with time_limit(self._limit_s):
                await super()._connect()  # type: ignore[no-untyped-call,safe-super]
        self._opened()

    async def read_response(self, *words: Any, **settings: Any) -> Any:
        reply = await super().read_response(*words, **settings)
        self._heard()
        return reply

    async def read_replies(self, count: int, on_reply: Callable[[], None]) -> list[object]:
        """Reads `count` replies, with Redis's errors as exceptions; calls `on_reply` for each.

        Replies that have arrived are taken together: redis-py takes 2 us for each even then. Raises
        redis-py's ConnectionError or TimeoutError.
        """
        found: list[object] = []
        while len(found) < count:
            try:
                found.append(await self.read_response())
            except ResponseError as refusal:
                found.append(refusal)
            on_reply()
            try:
                come = cast(_Parser, self._parser).come(count - len(found))
            except BaseException:
                await self.disconnect(nowait=True)
                raise
            found += come
            for _ in come:
                self._heard()
                on_reply()
        return found

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        """Limits the write without a task: redis-py's `wait_for` makes one, and on CPython 3.11 it
        loses a cancellation that comes at the moment when the write is done."""
        if not self.is_connected:
            await self.connect()  # type: ignore[no-untyped-call]
        limit_s, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await super().send_packed_command(command, check_health)
        except TimeoutError:
            raise RedisTimeoutError("Timeout writing to socket") from None
        except RuntimeError as closed:  # its transport cannot be written to any more
            await self.disconnect(nowait=True)
            raise ConnectionError(str(closed)) from closed
        finally:
            self.socket_timeout = limit_s


class _TcpConnection(OwnConnection, Connection):
    """redis-py's TCP connection, with these changes."""


class _UnixConnection(OwnConnection, UnixDomainSocketConnection):
    """redis-py's connection to a unix socket, with these changes."""


class _TlsConnection(_TcpConnection, SSLConnection):
    """A TCP connection over TLS, with our context: redis-py's checks no other name than the
    host's."""

    def __init__(self, *, upstream: Upstream, **settings: Any) -> None:
        super().__init__(**settings)
        self._upstream = upstream

    def _connection_arguments(self) -> Mapping[str, object]:
        return {
            **super()._connection_arguments(),
            "ssl": of_redis(self._upstream),
            "server_hostname": self._upstream.server_name,
        }


async def _greet(connection: AbstractConnection, *, more: Sequence[tuple[bytes, ...]] = ()) -> None:
    """Logs in and sets the names of connection and library, in one packet; redis-py takes three.

    `more`: further requests, which older servers may refuse, as they may refuse SETINFO.
    """
    connection._parser.on_connect(connection)
    needed: list[tuple[bytes, ...]] = [
        (b"CLIENT", b"SETNAME", (connection.client_name or "").encode())
    ]
    if connection.credential_provider:
        credentials = connection.credential_provider.get_credentials()
        needed.insert(0, (b"AUTH", *(each.encode() for each in credentials)))
    requests = [*needed, *_LIBRARY, *more]
    packet = b"".join(encode(words) for words in requests)
    await connection.send_packed_command(packet, check_health=False)
    for number in range(len(requests)):
        try:
            await connection.read_response()
        except ResponseError:
            if number < len(needed):
                raise


def client(
    upstream: Upstream,
    name: str,
    timeout_s: float,
    keepalive_s: int = 0,
    *,
    patient: bool = False,
    more: Sequence[tuple[bytes, ...]] = (),
    heard: Callable[[], None] = nothing,
    opened: Callable[[], None] = nothing,
    dials: Dials | None = None,
) -> Redis:
    """Returns a connection of the proxy's own, for one task: RESP2, bytes, no retries.

    `timeout_s` limits connecting and, unless the connection is `patient`, each reply. A patient one
    waits as long as its TCP connection lives: its user must notice when the server has vanished, as
    the link does. `more`: requests that follow the greeting, and that Redis may refuse. Each reply
    calls `heard`, each opening `opened`; `dials` counts openings and failures.
    """
    pool = ConnectionPool(
        **_way(upstream, keepalive_s),
        **_driver(),
        limit_s=timeout_s,
        dials=Dials() if dials is None else dials,
        heard=heard,
        opened=opened,
        credential_provider=_Credentials(upstream) if upstream.password else None,
        client_name=name,
        protocol=2,
        max_connections=1,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=partial(_greet, more=more),
        socket_timeout=None if patient else timeout_s,
    )
    return Redis.from_pool(pool)


@asynccontextmanager
async def connected(
    upstream: Upstream, name: str, timeout_s: float, **more: Any
) -> AsyncIterator[Redis]:
    """Yields a connection as `client` returns it, and closes it at the end."""
    redis = client(upstream, name, timeout_s, **more)
    try:
        yield redis
    finally:
        await close(redis)


@cache
def _driver() -> dict[str, Any]:
    """Keeps redis-py from reading its version from files for each connection, which would block the
    event loop for 1 ms."""
    try:
        from redis.driver_info import DriverInfo
    except ImportError:
        return {}
    return {"driver_info": DriverInfo()}


async def open_now(redis: Redis) -> None:
    """Opens the connection now: later, another server may have its address. Raises RedisError."""
    pool = redis.connection_pool
    await pool.release(await pool.get_connection())


async def close(*clients: Redis) -> None:
    """Closes their connections, even if the caller is cancelled meanwhile.

    redis-py closes each in a task of its own. Cancelled in the same turn of the event loop, such a
    task would never begin, and the connection would stay open until it is garbage-collected.
    """
    closing = asyncio.gather(*(each.aclose() for each in clients))
    closing.add_done_callback(drop)  # `shield` does not, if the caller is cancelled
    await asyncio.shield(closing)


def _way(upstream: Upstream, keepalive_s: int) -> dict[str, Any]:
    """The class of the connection, and its address."""
    if upstream.path:
        return {"connection_class": _UnixConnection, "path": upstream.path}
    way = {
        "host": upstream.host,
        "port": upstream.port,
        "socket_keepalive": bool(keepalive_s),
        "socket_keepalive_options": own_keepalive_options(keepalive_s),
    }
    if upstream.tls:
        return {**way, "connection_class": _TlsConnection, "upstream": upstream}
    return {**way, "connection_class": _TcpConnection}


def plain_socket(upstream: Upstream, timeout_s: float, keepalive_s: int = 0) -> socket.socket:
    """Returns a connected, blocking socket with a timeout, with TLS if that is set. Raises OSError,
    which names the address as redis-py's errors do."""
    try:
        connection = _dialled(upstream, timeout_s)
    except OSError as trouble:
        if trouble.errno is None:
            raise
        said = f"Error {trouble.errno} connecting to {upstream.address}. {trouble.strerror}."
        raise OSError(said) from trouble
    if upstream.path:
        return connection
    keep_own_alive(connection, keepalive_s)
    if not upstream.tls:
        return connection
    return of_redis(upstream).wrap_socket(connection, server_hostname=upstream.server_name)


def _dialled(upstream: Upstream, timeout_s: float) -> socket.socket:
    if not upstream.path:
        return socket.create_connection((upstream.host, upstream.port), timeout_s)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        connection.connect(upstream.path)
    except OSError:
        connection.close()
        raise
    return connection


_ENOUGH: Final = 64
# Three times the time that Redis spends on a proxy that connects (tests/bench/parts/fleet.py), and
# the longest pause: clients wait meanwhile, for hold_max.
_CONNECTING_S: Final = 0.003
_LONGEST_S: Final = 3.0


class Backoff:
    """Pauses that grow from failure to failure; half of each is random, also of the longest
    ones."""

    def __init__(self, cap: float, base: float) -> None:
        """`cap`: the longest pause, in seconds; `base`: half of the longest after one failure."""
        self._cap = cap
        self._base = base

    def compute(self, failures: int) -> float:
        """Returns the next pause in seconds, after `failures` failures in a row."""
        longest_s = min(self._cap, self._base * 2 ** min(failures, _ENOUGH))
        return random.uniform(longest_s / 2, longest_s)


def stagger_s(attached: int) -> float:
    """Returns seconds to wait, so that `attached` others do not connect at the same time."""
    return random.uniform(0, min(attached * _CONNECTING_S, _LONGEST_S))
