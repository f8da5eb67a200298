"""Where clients connect, and the Redis behind the proxy: addresses and credentials.

No error of this module repeats text that may contain a password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote, urlsplit

REDIS_PORT = 6379


@dataclass(frozen=True, slots=True)
class Listen:
    """Where clients connect: a host and a port (0: any free one), or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`host:port`, `[v6]:port` or `unix:///path`; a ValueError says what is wrong."""
        if text.startswith("unix://"):
            return cls(path=_absolute(unquote(text.removeprefix("unix://"))))
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not host or not _is_port(port):
            raise ValueError(f"{text!r} is not host:port, [v6]:port or unix:///path")
        return cls(host=host, port=int(port))

    def __str__(self) -> str:
        return f"unix://{quote(self.path)}" if self.path else _host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with one line. It is read at the start and, if it is a regular file, at each use."""

    path: Path
    at_start: str = field(repr=False)

    def read(self) -> str:
        """Its content now; if it cannot be read, its content at the start."""
        if not self.path.is_file():  # it is a pipe, or gone
            return self.at_start
        try:
            return line_of(self.path)
        except ValueError:
            return self.at_start


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Redis behind the proxy: `host` and `port`, or `path`; TLS and credentials.

    user, password: as of the start; `credentials` returns the current ones
    """

    host: str = ""
    port: int = REDIS_PORT
    path: str = ""
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    user_file: SecretFile | None = None
    password_file: SecretFile | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """`redis://`, `rediss://` or `unix://`, as redis-cli's -u; a ValueError says what is wrong.

        Errors quote no part of the URL: a password that is not percent-encoded can end up anywhere
        in it.
        """
        try:
            parts = urlsplit(url)
            port = REDIS_PORT if parts.port is None else parts.port
        except ValueError:
            raise ValueError(
                "the host or the port of the URL cannot be read"
                " (are special characters of the password percent-encoded?)"
            ) from None
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError("the URL must begin with redis://, rediss:// or unix://")
        if parts.query or parts.fragment:
            raise ValueError(
                "the URL contains ? or #: if it is part of a user name or password,"
                " percent-encode it"
            )
        user = unquote(parts.username or "") or None
        password = unquote(parts.password or "") or None
        if parts.scheme == "unix":
            if parts.hostname:
                raise ValueError("the URL of a unix socket needs three slashes: unix:///path")
            return cls(path=_absolute(unquote(parts.path)), user=user, password=password)
        if not parts.hostname or port == 0:
            raise ValueError("the URL must name a host, and a port other than 0")
        if parts.path not in ("", "/", "/0"):
            raise ValueError(
                "the URL must not name a database other than 0: clients choose their database"
                " with SELECT"
            )
        tls = parts.scheme == "rediss"
        return cls(host=parts.hostname, port=port, tls=tls, user=user, password=password)

    def credentials(self) -> tuple[str | None, str | None]:
        """The current user and password; their files are read again."""
        user = self.user_file.read() if self.user_file else self.user
        return user, self.password_file.read() if self.password_file else self.password

    @property
    def server_name(self) -> str:
        """The name that Redis's certificate must have."""
        return self.tls_server_name or self.host

    @property
    def shown(self) -> str:
        """The URL for people and logs, without the password."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        if self.path:
            return f"unix://{user}{quote(self.path)}"
        return f"redis{'s' * self.tls}://{user}{_host_port(self.host, self.port)}"


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def _absolute(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("a unix socket needs an absolute path: unix:///path")
    return path


def line_of(path: Path) -> str:
    """The content of a file without its trailing newline. Raises ValueError."""
    try:
        secret = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8") from None
    if not secret:
        raise ValueError("the file is empty")
    return secret
