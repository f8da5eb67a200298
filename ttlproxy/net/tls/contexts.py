"""SSL contexts: what the settings and their files say of certificates. Knows no connection.

A context is made anew once its files have changed, for the connections that come then; those that
are there keep what they have.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NoReturn

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import CertificateError

log = logging.getLogger(__name__)

# Seconds between two looks at the files, at a connection's start.
_LOOK_S: Final = 1.0
# A file of this name has the certificate for any name one label longer than the rest.
_ANY_LABEL: Final = "_"

Stamp = tuple[Path, int, int, int]


class Contexts:
    """The context for new connections."""

    def __init__(
        self, make: Callable[[], ssl.SSLContext], files: Callable[[], Iterable[Path]]
    ) -> None:
        """Raises CertificateError where none can be made of the files."""
        self._make = make
        self._files = files
        self._stamps = self._look()
        self._looked_s = time.monotonic()
        try:
            self._current = make()
        except (OSError, ValueError) as trouble:  # ssl.SSLError is an OSError
            raise CertificateError(_said(trouble)) from trouble

    def current(self) -> ssl.SSLContext:
        """Of the files as they are now, or were a second ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            if self._look() != self._stamps:
                self._reload()
        return self._current

    def _reload(self) -> None:
        """Reads the files again. What cannot be used is logged, and all stays as it was."""
        self._stamps = self._look()
        try:
            self._current = self._make()
        except (OSError, ValueError) as trouble:
            log.error("the new certificates are not used: %s", _said(trouble))
        else:
            log.info("the certificates have been read again")

    def _look(self) -> list[Stamp]:
        """What shows that a file has changed, also where a link to it was turned."""
        stamps = []
        for path in self._files():
            try:
                found = path.stat()
            except OSError:
                stamps.append((path, 0, 0, 0))
            else:
                stamps.append((path, found.st_ino, found.st_mtime_ns, found.st_size))
        return stamps


def for_clients(settings: Settings) -> Contexts | None:
    """Of connections from clients; None where those are plain. Raises CertificateError."""
    if settings.tls_cert is None:
        return None

    def files() -> list[Path]:
        named = [settings.tls_cert, settings.tls_key, settings.tls_ca]
        return [*filter(None, named), *_of_names(settings.tls_names)]

    return Contexts(lambda: of_clients(settings), files)


def of_clients(settings: Settings) -> ssl.SSLContext:
    """A server's context. Raises OSError, ssl.SSLError among them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    assert settings.tls_cert
    _load(context, settings.tls_cert, settings.tls_key)
    if settings.tls_ca is not None:
        context.load_verify_locations(settings.tls_ca)
        optional = settings.tls_auth_clients == "optional"
        context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    others = {}
    for path in _of_names(settings.tls_names):
        if path.suffix == ".crt":
            others[path.stem.lower()] = other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            _load(other, path, path.with_suffix(".key"))
            if settings.tls_ca is not None:  # OpenSSL looks for it in the context chosen by name
                other.load_verify_locations(settings.tls_ca)
    if others:
        context.sni_callback = _chooser(others)
    return context


def for_redis(upstream: Upstream) -> Contexts | None:
    """Of connections to Redis; None where those are plain. Raises CertificateError."""
    if not upstream.tls:
        return None
    named = [upstream.tls_ca, upstream.tls_cert, upstream.tls_key]
    return Contexts(lambda: of_redis(upstream), lambda: filter(None, named))


def of_redis(upstream: Upstream) -> ssl.SSLContext:
    """A client's context, which trusts the given authorities, or else the system's."""
    context = ssl.create_default_context(cafile=upstream.tls_ca and str(upstream.tls_ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if upstream.tls_cert is not None:
        _load(context, upstream.tls_cert, upstream.tls_key)
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    """The key stands in a file of its own, or in the certificate's."""
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except OSError as trouble:
        raise OSError(f"{cert}: {_said(trouble)}") from trouble


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted, which is not supported")


def _of_names(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.[ck][re][ty]")) if folder is not None else []


def _chooser(
    others: dict[str, ssl.SSLContext],
) -> Callable[[ssl.SSLObject | ssl.SSLSocket, str, ssl.SSLContext], None]:
    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str, _: ssl.SSLContext) -> None:
        """Who asks for no name, or for none of these, has the first certificate."""
        name = (name or "").lower()
        wildcard = f"{_ANY_LABEL}.{name.partition('.')[2]}"
        if (other := others.get(name) or others.get(wildcard)) is not None:
            connection.context = other

    return choose


def _said(trouble: Exception) -> str:
    """Without OpenSSL's numbers of its own source lines."""
    reason = getattr(trouble, "reason", None) or getattr(trouble, "strerror", None)
    return str(reason or trouble)
