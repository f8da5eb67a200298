"""Finds the address at which a server can be reached, and why it cannot be.

Names become numeric addresses: every connection of ours goes to a numeric one. A Cluster tells
where its nodes are. A server that is silent may still accept connections. Or only one side uses
TLS: then each waits for the other, or closes, and no error says why.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

from redis.exceptions import RedisError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.core.topology import ClusterNode
from ttlproxy.link.connecting.failures import may_be_tls
from ttlproxy.link.connecting.known_server import INFO, Identity, fields
from ttlproxy.link.connecting.pipeline import ask_once, error, valid
from ttlproxy.net.sockets import is_number, numbers
from ttlproxy.net.tasks import time_limit


async def accepts(upstream: Upstream, timeout_s: float) -> bool:
    """Whether a new connection is accepted; the kernel does so even if the server is stopped.

    A host that has vanished accepts none, although connections to it look alive.
    """
    try:
        async with time_limit(timeout_s):
            if upstream.path:
                _, writer = await asyncio.open_unix_connection(upstream.path)
            else:
                _, writer = await asyncio.open_connection(upstream.host, upstream.port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


async def identity(upstream: Upstream, timeout_s: float) -> Identity:
    """Returns the server that a new connection reaches. Raises redis-py's RedisError, or
    OSError."""
    (reply,) = await ask_once(upstream, "ttlproxy:probe", timeout_s, INFO, patient=True)
    return Identity.of(fields(valid(reply)))


async def met(upstream: Upstream, timeout_s: float) -> Identity | None:
    """Returns the identity of the server there; None if no server answers in time."""
    try:
        return await identity(upstream, timeout_s)
    except (RedisError, OSError):
        return None


async def resolved(upstream: Upstream, timeout_s: float) -> Upstream:
    """Returns the server with a numeric address: the first of its addresses that accepts
    connections.

    Raises OSError if the name is not found.
    """
    if upstream.path or is_number(upstream.host):
        return upstream
    address = Address(upstream.host, upstream.port)
    found = await numbers_in_time(address, timeout_s)
    for number in found[:-1]:
        server = upstream.at(address, number)
        if await accepts(server, timeout_s):
            return server
    return upstream.at(address, found[-1])


async def numbers_in_time(address: Address, timeout_s: float) -> list[str]:
    """Returns the numeric addresses of a host now. Raises OSError."""
    try:
        async with time_limit(timeout_s):
            return await numbers(*address)
    except TimeoutError:
        raise OSError(f"the name {address.host} is not found in time") from None


# The host of the node that was reached through a unix socket.
_HERE: Final = "127.0.0.1"
# The endpoint in CLUSTER SLOTS of a node that should announce a host name, and does not.
_NONE: Final = "?"


async def endpoints(
    server: Upstream, nodes: Iterable[ClusterNode], timeout_s: float
) -> dict[str, Address]:
    """Returns the addresses of these nodes, by their ids; `server` has named them.

    CLUSTER SLOTS has the ones that clients are to use: see cluster-preferred-endpoint-type.
    """
    preferred = await _preferred(server, timeout_s)
    asked = Address(server.host or _HERE, server.port)
    return {node.id: _endpoint(node, preferred, asked, tls=server.tls) for node in nodes}


async def _preferred(server: Upstream, timeout_s: float) -> Mapping[str, str]:
    """Returns the hosts in CLUSTER SLOTS, by the nodes' ids; empty for the host of `server`."""
    try:
        (reply,) = await ask_once(server, "ttlproxy:slots", timeout_s, (b"CLUSTER", b"SLOTS"))
    except (RedisError, OSError):
        return {}
    if error(reply):  # we may not ask
        return {}
    told = [node for _, _, *nodes in valid(reply) for node in nodes]
    return {name.decode(): (host or b"").decode() for host, _, name, *_ in told}


def _endpoint(
    node: ClusterNode, preferred: Mapping[str, str], asked: Address, *, tls: bool
) -> Address:
    """Takes a host name with TLS if nothing is preferred, because certificates are for names."""
    own = (node.hostname if tls else "") or node.host
    host = preferred.get(node.id, own)
    port = asked.port if node.myself and not node.port else node.port
    return Address((node.host if host == _NONE else host) or asked.host, port)


# If the server answers, it does so at once; the caller has waited before.
_PATIENCE_S: Final = 2.0
Role: TypeAlias = Literal["redis", "behind", "sentinel"]
# What to set if the server uses TLS, and if it does not.
_MEND: Final[Mapping[Role, tuple[str, str]]] = {
    "redis": ("set --upstream to a rediss:// URL", "set --upstream to a redis:// URL"),
    "behind": (
        "set --upstream to a rediss-sentinel:// URL",
        "set --upstream to a redis-sentinel:// URL, and --sentinel-tls",
    ),
    "sentinel": ("set --sentinel-tls yes", "set --sentinel-tls no"),
}


async def mismatch(upstream: Upstream, role: Role) -> str:
    """Returns the fault in the settings of TLS; empty if they are right or nothing is known.

    role: what the server is: a Redis, one "behind" Sentinels, or a Sentinel
    """
    if upstream.path:
        return ""
    with_tls, without_tls = _MEND[role]
    with suppress(OSError, TimeoutError, EOFError):
        async with asyncio.timeout(_PATIENCE_S):
            if upstream.tls and await _answers_plainly(upstream):
                return f"the server does not use TLS: {without_tls}"
            if not upstream.tls and await _answers_tls(upstream):
                return f"the server uses TLS: {with_tls}"
    return ""


class TlsDoubt:
    """Checks whether TLS is the cause of a trouble: once while the same trouble lasts."""

    def __init__(self, role: Role) -> None:
        self._role: Role = role
        self._trouble = self._found = ""

    async def cause(self, upstream: Upstream, trouble: Exception) -> str:
        """Returns the fault in the settings of TLS; empty if they are right or nothing is known."""
        if not may_be_tls(trouble):
            return ""
        if str(trouble) != self._trouble:
            self._trouble, self._found = str(trouble), await mismatch(upstream, self._role)
        return self._found


async def _answers_plainly(upstream: Upstream) -> bool:
    reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    try:
        writer.write(b"PING\r\n")
        return await reader.readexactly(1) in (b"+", b"-")
    finally:
        writer.close()


async def _answers_tls(upstream: Upstream) -> bool:
    """Checks no certificate, because it sends nothing secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    try:
        writer.write(outgoing.read())
        header = await reader.readexactly(3)
        # A TLS handshake or alert record begins, of any version (RFC 8446, 5.1).
        return header[:1] in (b"\x15", b"\x16") and header[1:2] == b"\x03"
    finally:
        writer.close()
