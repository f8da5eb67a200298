"""Addresses and credentials: of the proxy's own socket, and of the Redis behind it.

No error of this module repeats text that may contain a password.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import quote, unquote

REDIS_PORT = 6379
SENTINEL_PORT = 26379
# A server that listens on all addresses of IPv4 or IPv6 also has the machine's own. On `::` it gets
# no IPv4 connections: asyncio sets IPV6_V6ONLY.
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_PLAIN_SCHEMES = ("redis", "rediss")
_SENTINEL_SCHEMES = ("redis-sentinel", "rediss-sentinel")
# Options in URLs of redis-py and others, and what to use instead.
_OPTIONS: Final = {
    "ssl_cert_reqs": "certificates are always checked, see --upstream-tls-ca",
    "ssl_check_hostname": "names are always checked, see --upstream-tls-server-name",
    "ssl_ca_certs": "--upstream-tls-ca FILE",
    "ssl_certfile": "--upstream-tls-cert FILE",
    "ssl_keyfile": "--upstream-tls-key FILE",
    "username": "--upstream-user NAME",
    "password": "--upstream-password-file FILE",
    "db": "clients choose their database with SELECT",
    "protocol": "clients choose it with HELLO",
    "socket_connect_timeout": "--connect-timeout SECONDS",
    "socket_timeout": "--connect-timeout SECONDS",
    "timeout": "--connect-timeout SECONDS",
}
# sun_path of unix(7), without its last byte; on macOS it is 4 shorter.
_MOST_PATH: Final = 103 if sys.platform == "darwin" else 107
# urlsplit would not do: of several addresses it takes only the first in brackets (CPython 3.12).
_URL = re.compile(
    r"(?P<scheme>[A-Za-z-]+)://(?P<where>[^/?#]*)(?P<path>[^?#]*)"
    r"(?P<query>\?[^#]*)?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_PLACE = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[^\[\]:]+))(?::(?P<port>[^:]*))?")


class Address(NamedTuple):
    """The address of a server: a name or a number, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the text that `str` returns."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listen:
    """The address for clients: host and port (0: any free one), or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `host:port`, `[v6]:port` or `unix:///path`; a ValueError says what is wrong."""
        if text.startswith("unix://"):
            return cls(path=_absolute(unquote(text.removeprefix("unix://"))))
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not host or not _is_port(port):
            raise ValueError(
                f"{text!r} is not host:port, [v6]:port or unix:///path{_hint(host, port)}"
            )
        return cls(host=host, port=int(port))

    @property
    def local(self) -> Self:
        """The address at which programs on this machine find it."""
        return replace(self, host=_LOCAL.get(self.host, self.host))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return bool(self.path) or self.host == "localhost" or is_loopback(self.host)

    def __str__(self) -> str:
        where = str(Address(self.host, self.port))
        return f"unix://{quote(self.path)}" if self.path else where


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with one line. It is read at the start and, if it is a regular file, at each use."""

    path: Path
    at_start: str = field(repr=False)

    def read(self) -> str:
        """Returns its content now; if it cannot be read, its content at the start."""
        if not self.path.is_file():  # it is a pipe, or gone
            return self.at_start
        try:
            return line_of(self.path)
        except ValueError:
            return self.at_start


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels that know where the master is; `service`: its name there.

    user, password: the proxy's own at the Sentinels, as of the start
    tls: whether they use TLS; tls_ca and so on: None means the value for the servers
    """

    addresses: tuple[Address, ...]
    service: str
    user_file: SecretFile | None = None
    password_file: SecretFile | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Redis behind the proxy: `host` and `port`, or `path`; TLS and credentials.

    others: further addresses, if several servers are named: one of them is the master
    sentinels: these are asked for host and port, if the URL does not name them
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
    others: tuple[Address, ...] = ()
    sentinels: Sentinels | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Reads `redis://`, `rediss://` or `unix://`, as redis-cli's -u, with several hosts if
        needed; `redis-sentinel://` or `rediss-sentinel://` with #NAME. A ValueError says what is
        wrong.

        Errors quote no part of the URL: a password that is not percent-encoded can end up anywhere
        in it.
        """
        parts = _URL.fullmatch(url)
        scheme = parts["scheme"].lower() if parts else ""
        if parts is None or scheme not in ("unix", *_PLAIN_SCHEMES, *_SENTINEL_SCHEMES):
            raise ValueError(
                "the URL must begin with redis://, rediss://, redis-sentinel://,"
                " rediss-sentinel:// or unix://"
            )
        login, _, where = parts["where"].rpartition("@")
        name, _, word = login.partition(":")
        user, password = unquote(name) or None, unquote(word) or None
        fragment, has_sentinels = parts["fragment"], scheme in _SENTINEL_SCHEMES
        if parts["path"].startswith("//") and scheme != "unix":
            raise ValueError("the URL contains :// twice: all its addresses must be of one kind")
        if options := _known_options(parts["query"] or ""):
            raise ValueError(f"options of a URL are flags here: {options}")
        if parts["query"] or (fragment is not None and not has_sentinels):
            raise ValueError(
                "the URL contains ? or #: options are flags here, and in a user name or password"
                " both must be percent-encoded"
            )
        if scheme == "unix":
            if where:
                raise ValueError("the URL of a unix socket needs three slashes: unix:///path")
            return cls(path=_absolute(unquote(parts["path"])), user=user, password=password)
        addresses = _addresses(where, SENTINEL_PORT if has_sentinels else REDIS_PORT)
        if parts["path"] not in ("", "/", "/0"):
            raise ValueError(
                "the URL must not name a database other than 0: clients choose their database"
                " with SELECT"
            )
        tls = scheme.startswith("rediss")
        if has_sentinels:
            if not fragment:
                raise ValueError("the URL of Sentinels must end with # and the name of the master")
            sentinels = Sentinels(addresses, unquote(fragment), tls=tls)
            return cls(port=0, tls=tls, user=user, password=password, sentinels=sentinels)
        first, *others = addresses
        return cls(*first, tls=tls, user=user, password=password, others=tuple(others))

    def credentials(self) -> tuple[str | None, str | None]:
        """Returns the current user and password; their files are read again."""
        user = self.user_file.read() if self.user_file else self.user
        return user, self.password_file.read() if self.password_file else self.password

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The servers that the URL names; empty for Sentinels and for a unix socket."""
        return (Address(self.host, self.port), *self.others) if self.host else ()

    @property
    def wants_master(self) -> bool:
        """Whether it names several servers, and only the master is served."""
        return bool(self.others) or self.sentinels is not None

    def at(self, address: Address, number: str = "") -> Upstream:
        """Returns one server; `number`: the numeric address of its host, if that is known.

        With TLS, its certificate must still be for the host.
        """
        name = self.tls_server_name or address.host
        return replace(
            self,
            host=number or address.host,
            port=address.port,
            path="",
            tls_server_name=name if self.tls else None,
            others=(),
            sentinels=None,
        )

    def at_sentinel(self, address: Address) -> Upstream:
        """Returns one of the Sentinels, with the proxy's own credentials there."""
        own = self.sentinels
        assert own is not None
        shown = own if own.tls_cert else self
        name = own.tls_server_name or self.tls_server_name or address.host
        return replace(
            self.at(address),
            tls=own.tls,
            tls_ca=own.tls_ca or self.tls_ca,
            tls_cert=shown.tls_cert,
            tls_key=shown.tls_key,
            tls_server_name=name if own.tls else None,
            user_file=own.user_file,
            password_file=own.password_file,
            user=own.user,
            password=own.password,
        )

    @property
    def server_name(self) -> str:
        """The name that Redis's certificate must have."""
        return self.tls_server_name or self.host

    @property
    def address(self) -> str:
        """The one server, without scheme and user."""
        return self.path or str(Address(self.host, self.port))

    @property
    def shown(self) -> str:
        """The URL for people and logs, without the password."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        if self.path:
            return f"unix://{user}{quote(self.path)}"
        scheme, sentinels = f"redis{'s' * self.tls}", self.sentinels
        if sentinels is None:
            return f"{scheme}://{user}{_listed(self.addresses)}"
        name = quote(sentinels.service, safe="")
        return f"{scheme}-sentinel://{user}{_listed(sentinels.addresses)}/0#{name}"


def is_loopback(host: str) -> bool:
    """Whether it is a numeric address of this machine's loopback interface."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _addresses(text: str, port: int) -> tuple[Address, ...]:
    """Reads `host`, `host:port` or `[v6]:port`, with commas between them; `port`: the default."""
    return tuple(_address(place, port) for place in text.split(","))


def _address(text: str, port: int) -> Address:
    found = _PLACE.fullmatch(text)
    port_said = (found and found["port"]) or ""
    if port_said.isascii() and port_said.isdigit() and not _is_port(port_said):
        raise ValueError("the URL names a port above 65535")
    if found is None or (found["port"] and not _is_port(found["port"])):
        raise ValueError(
            "the host or the port of the URL cannot be read"
            " (are special characters of the password percent-encoded?)"
            if text
            else "the URL must name a host"
        )
    number = int(found["port"] or port)
    if number == 0:
        raise ValueError("the URL must name a port other than 0")
    return Address((found["v6"] or found["host"]).lower(), number)


def _listed(addresses: tuple[Address, ...]) -> str:
    return ",".join(map(str, addresses))


def _hint(host: str, port: str) -> str:
    """Returns the text to add to an error about an address to listen on."""
    if port.isascii() and port.isdigit() and int(port) > 65535:
        return ": the highest port is 65535"
    if not host and _is_port(port):
        return f"; for clients on this machine: 127.0.0.1:{port}, for all: 0.0.0.0:{port}"
    return ""


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def _known_options(query: str) -> str:
    """Returns the text in place of a redis-py URL's options; their values, and unknown ones, may be
    parts of a password."""
    names = [part.partition("=")[0] for part in query.removeprefix("?").split("&")]
    return "; ".join(f"{name}: {_OPTIONS[name]}" for name in names if name in _OPTIONS)


def _absolute(path: str) -> str:
    if len(os.fsencode(path)) > _MOST_PATH:
        raise ValueError(f"the path of a unix socket has at most {_MOST_PATH} bytes")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("a unix socket needs an absolute path: unix:///path")
    return path


def line_of(path: Path) -> str:
    """Returns the content of a file without its trailing newline. Raises ValueError."""
    try:
        secret = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8") from None
    if not secret:
        raise ValueError("the file is empty")
    return secret
