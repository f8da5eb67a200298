"""TLS between a socket and a protocol. Knows no Redis.

asyncio's own TLS closes a connection as soon as the peer has ended its direction, and bytes still
owed to the peer are lost. Here each direction ends on its own, as over plain TCP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from ttlproxy.net.sockets import undelivered

_HANDSHAKE_S: Final = 10.0
# The most bytes in one TLS record.
_RECORD: Final = 16 * 1024

Settled = Callable[[Exception | None, object], None]


class Tls(asyncio.Transport, asyncio.Protocol):
    """A socket's protocol for the event loop; the transport of `protocol`, once TLS is up."""

    __slots__ = (
        "_deliver",
        "_ended",
        "_incoming",
        "_outgoing",
        "_patience",
        "_peername",
        "_protocol",
        "_said_end",
        "_settled",
        "_ssl",
        "_transport",
        "_trouble",
        "_up",
    )

    def __init__(
        self,
        context: ssl.SSLContext,
        protocol: asyncio.Protocol,
        settled: Settled,
        *,
        server_side: bool,
        server_name: str | None = None,
    ) -> None:
        """`settled(trouble, peername)` is called once; `trouble` is None if TLS is up."""
        super().__init__()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side, server_hostname=server_name
        )
        self._settled = settled
        self._trouble: Exception = ConnectionError(
            "the connection was closed during the TLS handshake"
        )
        self._up = False
        self._ended = False  # the peer sends no more
        self._said_end = False  # the peer knows that we send no more
        self.set_protocol(protocol)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peername = transport.get_extra_info("peername")  # also when it is closed
        self._patience = asyncio.get_running_loop().call_later(_HANDSHAKE_S, self._lose_patience)
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if self._up or self._shake_hands():
            self._read()

    def eof_received(self) -> bool:
        if not self._up:
            return False
        return not self._transport.is_closing() if self._ended else self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._up and not self._ssl.server_side:
            self.data_received(undelivered(self._transport))
            exc = None  # all bytes have been delivered
        self._patience.cancel()
        if self._up:
            self._protocol.connection_lost(exc)
        else:
            self._settled(self._trouble, self._peername)
        self.set_protocol(asyncio.Protocol())  # breaks a reference cycle

    def pause_writing(self) -> None:
        if self._up:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._up:
            self._protocol.resume_writing()

    # Called by the protocol.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            done = self._ssl.write(data)
            while done < len(data):
                done += self._ssl.write(memoryview(data)[done:])
        except ssl.SSLError:  # the peer has ended the connection with an alert
            self.abort()
        else:
            self._transport.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._say_end()
        self._transport.write_eof()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._say_end()
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)
        self._deliver = self._protocol.data_received

    def _shake_hands(self) -> bool:
        """Goes on with the handshake; returns whether TLS is up."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as trouble:
            self._trouble = trouble
            self._flush()  # the alert, to the peer
            self._transport.close()
            return False
        self._flush()
        self._patience.cancel()
        self._up = True
        self._settled(None, self._peername)
        self._protocol.connection_made(self)
        return True

    def _lose_patience(self) -> None:
        self._trouble = TimeoutError("TLS handshake timed out")
        self._transport.abort()

    def _read(self) -> None:
        """Delivers all bytes that have arrived, in one piece."""
        read, incoming = self._ssl.read, self._incoming
        parts, ends = [], False
        try:
            while incoming.pending and not ends:
                part = read(_RECORD)
                ends = not part
                parts.append(part)
        except ssl.SSLWantReadError:  # part of a record
            pass
        except ssl.SSLError as trouble:
            if not isinstance(trouble, ssl.SSLZeroReturnError):
                self.abort()
                return
            ends = True
        self._flush()
        if data := parts[0] if len(parts) == 1 else b"".join(parts):
            self._deliver(data)
        if ends and not self._ended and not self._end():
            self.close()

    def _end(self) -> bool:
        """Notes that the peer sends no more; returns whether the connection stays open for our
        bytes."""
        self._ended = True
        return bool(self._protocol.eof_received())

    def _say_end(self) -> None:
        if self._up and not self._said_end:
            self._said_end = True
            with suppress(ssl.SSLError):  # raised because the peer has not ended its side yet
                self._ssl.unwrap()
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())


async def establish(
    context: ssl.SSLContext,
    protocol: asyncio.Protocol,
    host: str,
    port: int,
    server_name: str,
) -> None:
    """Connects a protocol over TLS. Raises OSError, ssl.SSLError among them."""
    loop = asyncio.get_running_loop()
    up: asyncio.Future[None] = loop.create_future()

    def settled(trouble: Exception | None, _: object) -> None:
        if not up.done():
            up.set_result(None) if trouble is None else up.set_exception(trouble)

    transport, _ = await loop.create_connection(
        lambda: Tls(context, protocol, settled, server_side=False, server_name=server_name),
        host,
        port,
    )
    try:
        await up
    except BaseException:  # also a cancellation: nobody else closes it
        transport.abort()
        raise
