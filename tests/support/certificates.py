"""Certificates for tests, and a TLS client that can close its two directions separately."""

import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import trustme

RECEIVE_BYTES = 1 << 16


class Authority:
    """A certificate authority. Its certificate, and those that it issues, are files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._folder = folder
        self.file = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.file)

    def issue(self, *names: str, into: str = "", until_s: float | None = None) -> tuple[Path, Path]:
        """The files of a new certificate for these names and of its key; old files are replaced.
        `until_s`: the Unix time of its end."""
        end = None if until_s is None else datetime.fromtimestamp(until_s, UTC)
        issued = self._authority.issue_cert(*names, not_after=end)
        stem = into or names[0]
        cert, key = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        for path, blob in ((cert, issued.cert_chain_pems[0]), (key, issued.private_key_pem)):
            path.unlink(missing_ok=True)
            path.write_bytes(blob.bytes())
        return cert, key

    def trusted(self, shown: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A TLS context for a client; `shown` is the client's own certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        if shown is not None:
            context.load_cert_chain(*shown)
        return context


class TlsSocket(socket.socket):
    """Replaces a connected socket. Ending writes sends TLS's close_notify; TCP stays open."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, name: str) -> None:
        timeout_s = plain.gettimeout()
        super().__init__(fileno=plain.detach())
        self.settimeout(timeout_s)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        try:
            self._shake_hands()
        except BaseException:
            self.close()
            raise

    def _shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            else:
                self._flush()
                return

    def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
        while data:
            data = data[self.tls.write(data) :]
            self._flush()

    def recv(self, size: int, flags: int = 0) -> bytes:
        while True:
            try:
                return self.tls.read(size)
            except ssl.SSLWantReadError:
                self._receive()
            except ssl.SSLZeroReturnError:
                return b""

    def shutdown(self, how: int) -> None:
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        self._flush()

    def _receive(self) -> None:
        data = super().recv(RECEIVE_BYTES)
        if not data:
            raise EOFError("closed without a word of TLS")
        self._incoming.write(data)

    def _flush(self) -> None:
        if self._outgoing.pending:
            super().sendall(self._outgoing.read())
