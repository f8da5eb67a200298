"""Finds whether a server that does not answer uses TLS and should not, by the settings, or the
reverse: then each side waits for the other, or closes, and no error says why."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

from ttlproxy.addresses import Upstream
from ttlproxy.link.connecting.causes import may_be_tls

# If the server answers, it does so at once; the caller has waited before.
_PATIENCE_S: Final = 2.0
Role: TypeAlias = Literal["redis", "behind", "sentinel"]
# How to say that it uses TLS, and that it does not.
_MEND: Final[Mapping[Role, tuple[str, str]]] = {
    "redis": ("set --upstream to a rediss:// URL", "set --upstream to a redis:// URL"),
    "behind": (
        "set --upstream to a rediss-sentinel:// URL",
        "set --upstream to a redis-sentinel:// URL, and --sentinel-tls",
    ),
    "sentinel": ("set --sentinel-tls yes", "set --sentinel-tls no"),
}


async def mismatch(upstream: Upstream, role: Role) -> str:
    """The fault in the settings of TLS; empty if they are right or nothing is known.

    role: of the server: "behind" Sentinels or a Sentinel itself
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
    """Looks once for each trouble in a row whether TLS is its cause."""

    def __init__(self, role: Role) -> None:
        self._role: Role = role
        self._trouble = self._found = ""

    async def cause(self, upstream: Upstream, trouble: Exception) -> str:
        """The fault in the settings of TLS; empty if they are right or nothing is known."""
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
        return _begins_record(await reader.readexactly(3))
    finally:
        writer.close()


def _begins_record(header: bytes) -> bool:
    """Whether a TLS handshake or alert record begins, of any version (RFC 8446, 5.1)."""
    return header[:1] in (b"\x15", b"\x16") and header[1:2] == b"\x03"
