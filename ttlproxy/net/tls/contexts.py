"""SSL contexts, made from the settings and the certificate files. Knows no connection.

When the files have changed, a new context is made for new connections; existing ones keep theirs.

The ssl module tells only of certificates that a peer has shown when they end, so DER is read here:
RFC 5280, section 4.1. No signature is checked.
"""

from __future__ import annotations

import calendar
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import CertificateError

log = logging.getLogger(__name__)

# The files are checked when a connection starts, but not more often than this.
_LOOK_S: Final = 1.0
# A file `_.example.org.crt` has the certificate for all names one label longer than example.org.
_ANY_LABEL: Final = "_"

# What each kind of PEM file contains; there are several kinds of keys.
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
# OpenSSL's reasons, for people.
_SHOWN: Final = {
    "KEY_VALUES_MISMATCH": "the key is that of another certificate",
    "EE_KEY_TOO_SMALL": "its key is too short for this OpenSSL",
    "CA_MD_TOO_WEAK": "its signature is too weak for this OpenSSL",
}

Stamp = tuple[Path, int, int, int]


class Contexts:
    """The context for new connections.

    expires_s: the Unix time at which what is in use ends, by "certificate" and "ca", if there are
    such files; replaced, never changed
    """

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Callable[[], Iterable[Path]],
        certificates: Callable[[], Iterable[Path]] = tuple,
        ca: Path | None = None,
    ) -> None:
        """`certificates`, `ca`: the files whose end is reported.

        Raises CertificateError if no context can be made from the files.
        """
        self._make = make
        self._files = files
        self._certificates = certificates
        self._ca = ca
        self._stamps = self._look()
        self._looked_s = time.monotonic()
        try:
            self._current = make()
        except (OSError, ValueError) as trouble:  # ssl.SSLError is an OSError
            raise CertificateError(_said(trouble)) from trouble
        self.expires_s = self._expire()

    def current(self) -> ssl.SSLContext:
        """Returns the context for the files as they are now, or were up to a second ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            if self._look() != self._stamps:
                self._reload()
        return self._current

    def _reload(self) -> None:
        """Reads the files again. If they cannot be used, logs that and keeps the old context."""
        self._stamps = self._look()
        try:
            self._current = self._make()
        except (OSError, ValueError) as trouble:
            log.error("the new certificates are not used: %s", _said(trouble))
        else:
            self.expires_s = self._expire()
            log.info("the certificates have been reloaded")

    def _expire(self) -> dict[str, float]:
        """Returns when certificates end. All that are shown must be valid; of authorities the last
        one is enough."""
        shown = [end_s for path in self._certificates() for end_s in _ends(path)]
        trusted = _ends(self._ca) if self._ca is not None else []
        found = {"certificate": min(shown, default=None), "ca": max(trusted, default=None)}
        return {name: end_s for name, end_s in found.items() if end_s is not None}

    def _look(self) -> list[Stamp]:
        """Returns stamps that change with the files, also if a symbolic link points elsewhere."""
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
    """Returns contexts for connections from clients; None if they use no TLS. Raises
    CertificateError."""
    if settings.tls_cert is None:
        return None

    def files() -> list[Path]:
        named = [settings.tls_cert, settings.tls_key, settings.tls_ca]
        return [*filter(None, named), *_of_names(settings.tls_names)]

    def certificates() -> list[Path]:
        named = [path for path in _of_names(settings.tls_names) if path.suffix == ".crt"]
        return [*filter(None, [settings.tls_cert]), *named]

    return Contexts(lambda: of_clients(settings), files, certificates, settings.tls_ca)


def of_clients(settings: Settings) -> ssl.SSLContext:
    """Returns a server's context. Raises OSError (ssl.SSLError is one) and ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    assert settings.tls_cert
    _load(context, settings.tls_cert, settings.tls_key)
    if settings.tls_ca is not None:
        _trust(context, settings.tls_ca)
        optional = settings.tls_auth_clients == "optional"
        context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    others = {}
    for path in _of_names(settings.tls_names):
        if path.suffix == ".crt":
            others[path.stem.lower()] = other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            _load(other, path, path.with_suffix(".key"))
            if settings.tls_ca is not None:  # OpenSSL uses that of the context chosen by name
                _trust(other, settings.tls_ca)
    if others:
        context.sni_callback = _chooser(others)
    return context


def for_redis(upstream: Upstream) -> Contexts | None:
    """Returns contexts for connections to Redis; None if they use no TLS.

    Raises CertificateError, also for the files of the Sentinels.
    """
    if upstream.sentinels is not None:
        sentinel = upstream.at_sentinel(upstream.sentinels.addresses[0])
        if sentinel.tls:
            Contexts(lambda: of_redis(sentinel), tuple)
    if not upstream.tls:
        return None
    named = [upstream.tls_ca, upstream.tls_cert, upstream.tls_key]
    return Contexts(
        lambda: of_redis(upstream),
        lambda: filter(None, named),
        lambda: filter(None, [upstream.tls_cert]),
        upstream.tls_ca,
    )


def of_redis(upstream: Upstream) -> ssl.SSLContext:
    """Returns a client's context; it trusts the given authorities, or else those of the system."""
    try:
        context = ssl.create_default_context(cafile=upstream.tls_ca and str(upstream.tls_ca))
    except OSError as trouble:
        raise _unusable(upstream.tls_ca, trouble) from trouble
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if upstream.tls_cert is not None:
        _load(context, upstream.tls_cert, upstream.tls_key)
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    """Loads a certificate and its key, which is in its own file, or in the certificate's file."""

    def refuse() -> NoReturn:
        raise ValueError(f"{key or cert}: the key is encrypted, which is not supported")

    try:
        context.load_cert_chain(cert, key, password=refuse)
    except OSError as trouble:
        raise OSError(_why_not(cert, key) or f"{cert}: {_said(trouble)}") from trouble


def _why_not(cert: Path, key: Path | None) -> str:
    """Returns the fault of the files, which OpenSSL does not name; empty if it is not known."""
    if not _has(cert, _CERTIFICATE):
        return f"{cert}: it contains no certificate in PEM form"
    if key is None and not _has(cert, _KEY):
        return f"{cert}: it contains no private key: name the key's file, too"
    if key is not None and not _has(key, _KEY):
        return f"{key}: it contains no private key in PEM form"
    return ""


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    """Trusts the certificates of authorities in this file."""
    try:
        context.load_verify_locations(ca)
    except OSError as trouble:
        raise _unusable(ca, trouble) from trouble


def _unusable(ca: Path | None, trouble: OSError) -> OSError:
    """Returns the error for authorities that cannot be used; `ca`: their file, None for those of
    the system."""
    if ca is None or _has(ca, _CERTIFICATE):
        return OSError(f"{ca or 'the CA certificates of the system'}: {_said(trouble)}")
    return OSError(f"{ca}: it contains no certificate in PEM form")


def _has(path: Path, what: bytes) -> bool:
    try:
        return what in path.read_bytes()
    except OSError:  # then the error says so
        return True


def _ends(path: Path) -> list[float]:
    """Returns when the certificates of a file end; nothing if OpenSSL can read the file and we
    cannot."""
    try:
        return certificate_ends(path)
    except (OSError, ValueError) as trouble:
        log.warning("%s: it is not known when it ends: %s", path, trouble)
        return []


def _of_names(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.[ck][re][ty]")) if folder is not None else []


def _chooser(
    others: dict[str, ssl.SSLContext],
) -> Callable[[ssl.SSLObject | ssl.SSLSocket, str, ssl.SSLContext], None]:
    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str, _: ssl.SSLContext) -> None:
        """Chooses the certificate by name; for no name, or an unknown one, it is the main
        certificate."""
        name = (name or "").lower()
        wildcard = f"{_ANY_LABEL}.{name.partition('.')[2]}"
        if (other := others.get(name) or others.get(wildcard)) is not None:
            connection.context = other

    return choose


def _said(trouble: Exception) -> str:
    """Returns the error without OpenSSL's source line numbers."""
    reason = getattr(trouble, "reason", None) or getattr(trouble, "strerror", None)
    return _SHOWN.get(str(reason), str(reason or trouble))


_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION: Final = 0xA0
# Serial number, signature algorithm and issuer come before the validity.
_BEFORE_VALIDITY: Final = 3
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


class _Item(NamedTuple):
    tag: int
    content: bytes


def certificate_ends(path: Path) -> list[float]:
    """Returns the Unix times, in s, at which the certificates of a file end, in the order of the
    file.

    Raises OSError, and ValueError for what is no certificate.
    """
    found = _PEM.findall(path.read_text(errors="replace"))
    return [_end(ssl.PEM_cert_to_DER_cert(text)) for text in found]


def _end(certificate: bytes) -> float:
    try:
        signed = next(_items(next(_items(certificate)).content)).content
        parts = [item for item in _items(signed) if item.tag != _VERSION]
        _, not_after = _items(parts[_BEFORE_VALIDITY].content)
        text = not_after.content.decode()
        return calendar.timegm(time.strptime(text, _FORMATS[not_after.tag]))
    except (LookupError, StopIteration, ValueError) as trouble:
        raise ValueError("this is no certificate") from trouble


def _items(data: bytes) -> Iterator[_Item]:
    """Yields the values of a DER sequence."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:  # the long form: how many bytes the length has
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        yield _Item(tag, data[at : at + length])
        at += length
