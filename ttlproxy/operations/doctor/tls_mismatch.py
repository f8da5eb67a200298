"""Whether a server that does not answer speaks TLS where that is not expected, or the other way
round: each side then waits for the other, or closes, and no error says why."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from ttlproxy.addresses import Upstream

# The server answers at once, if it does; the doctor has waited already.
_PATIENCE_S: Final = 2.0


async def mismatch(upstream: Upstream) -> str:
    """What is wrong with the URL's scheme; empty where it is not that, or cannot be told."""
    if upstream.path:
        return ""
    with suppress(OSError, TimeoutError, EOFError):
        async with asyncio.timeout(_PATIENCE_S):
            if upstream.tls and await _answers_plainly(upstream):
                return "there is no TLS: it answers without, as with redis://"
            if not upstream.tls and await _answers_tls(upstream):
                return "it speaks TLS: name it with rediss://"
    return ""


async def _answers_plainly(upstream: Upstream) -> bool:
    reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    try:
        writer.write(b"PING\r\n")
        return await reader.readexactly(1) in (b"+", b"-")
    finally:
        writer.close()


async def _answers_tls(upstream: Upstream) -> bool:
    """Whoever it is: nothing is sent that would need trust."""
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
    """A handshake's or an alert's, of any version (RFC 8446, 5.1)."""
    return header[:1] in (b"\x15", b"\x16") and header[1:2] == b"\x03"
