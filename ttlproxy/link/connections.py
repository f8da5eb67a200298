"""How the proxy's own connections are opened: where Redis is, and as whom."""

from __future__ import annotations

import socket
import ssl

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ttlproxy.config import Upstream


def tls_context(upstream: Upstream) -> ssl.SSLContext | None:
    """The TLS settings for `rediss://`; None for a plain connection."""
    if not upstream.tls:
        return None
    return ssl.create_default_context(cafile=upstream.tls_ca and str(upstream.tls_ca))


def client(upstream: Upstream, name: str, timeout_s: float) -> Redis:
    """One connection of the proxy's own, for one task; retries nothing by itself. RESP2, bytes."""
    where: dict[str, object] = (
        {"unix_socket_path": upstream.path}
        if upstream.path
        else {"host": upstream.host, "port": upstream.port}
    )
    if upstream.tls:
        where |= {"ssl": True, "ssl_ca_certs": upstream.tls_ca and str(upstream.tls_ca)}
    return Redis(
        **where,  # type: ignore[arg-type]
        username=upstream.user,
        password=upstream.password,
        client_name=name,
        protocol=2,
        max_connections=1,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_keepalive=True,
    )


def plain_socket(upstream: Upstream, timeout_s: float) -> socket.socket:
    """A connected socket, blocking with a timeout; TLS is up where it is asked for."""
    if upstream.path:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout_s)
        try:
            connection.connect(upstream.path)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((upstream.host, upstream.port), timeout_s)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    context = tls_context(upstream)
    return context.wrap_socket(connection, server_hostname=upstream.host) if context else connection
