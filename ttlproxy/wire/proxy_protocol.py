"""The header in which a load balancer gives the address of its client. Knows bytes only.

The PROXY protocol, versions 1 and 2, as in HAProxy's doc/proxy-protocol.txt (2020/03/05).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

# The longest line of version 1, with its CRLF, in bytes.
LONGEST_LINE: Final = 107
_LINE: Final = b"PROXY "
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED: Final = 16  # bytes of version 2 before the addresses
_LOCAL, _PROXY = 0x20, 0x21
_STREAM: Final = 1
_MOST_PORT: Final = 65535


class Malformed(ValueError):  # noqa: N818 - the name says it
    """The bytes are not a valid header; the caller closes the connection."""


@dataclass(frozen=True, slots=True)
class Header:
    """length: in bytes; source: the client's address, empty if the header has none"""

    length: int
    source: str


def parse(data: bytes) -> Header | None:
    """The header that `data` begins with; None while it is incomplete. Raises Malformed."""
    if data.startswith(_SIGNATURE):
        return _second(data)
    if data.startswith(_LINE):
        return _first(data)
    if _SIGNATURE.startswith(data) or _LINE.startswith(data):
        return None
    raise Malformed("it does not begin with a PROXY header")


def _first(data: bytes) -> Header | None:
    """Version 1: a line of words."""
    end = data.find(b"\r\n", 0, LONGEST_LINE)
    if end < 0:
        if len(data) >= LONGEST_LINE:
            raise Malformed("its PROXY header line is too long")
        return None
    words = data[:end].split(b" ")
    if words[1] == b"UNKNOWN":
        return Header(end + 2, "")
    try:
        _, family, source, target, source_port, target_port = (word.decode() for word in words)
        sources = {"TCP4": _v4, "TCP6": _v6}[family]
        sources(target, _port(target_port))
        return Header(end + 2, sources(source, _port(source_port)))
    except (ValueError, KeyError):
        raise Malformed("its PROXY header line cannot be parsed") from None


def _port(word: str) -> int:
    port = int(word)
    if str(port) != word or not 0 <= port <= _MOST_PORT:
        raise ValueError(word)
    return port


def _v4(host: str | bytes, port: int) -> str:
    return f"{IPv4Address(host)}:{port}"


def _v6(host: str | bytes, port: int) -> str:
    address = IPv6Address(host)
    if address.scope_id is not None:
        raise ValueError(host)
    return f"[{address}]:{port}"


def _of_v4(block: bytes) -> str:
    return _v4(block[:4], int.from_bytes(block[8:10]))


def _of_v6(block: bytes) -> str:
    return _v6(block[:16], int.from_bytes(block[32:34]))


def _of_unix(block: bytes) -> str:
    """Escaped, because a path may have any bytes, and a log line must stay one line."""
    path = block[:108].partition(b"\0")[0]
    return path.decode("latin-1").encode("unicode_escape").decode("ascii")


# By address family: the size of both addresses in bytes, and how to read the first.
_FAMILIES: Final = {0: (0, None), 1: (12, _of_v4), 2: (36, _of_v6), 3: (216, _of_unix)}


def _second(data: bytes) -> Header | None:
    """Version 2: binary. Extensions after the addresses are skipped."""
    if len(data) < _FIXED:
        return None
    command, family, transport = data[12], data[13] >> 4, data[13] & 0x0F
    size, source = _FAMILIES.get(family, (0, None))
    length = int.from_bytes(data[14:16])
    if command not in (_LOCAL, _PROXY) or family not in _FAMILIES or transport > _STREAM + 1:
        raise Malformed("its PROXY header has an unknown kind")
    if command == _PROXY and length < size:
        raise Malformed("its PROXY header is shorter than its addresses")
    if len(data) < _FIXED + length:
        return None
    if command == _LOCAL or transport != _STREAM or source is None:
        return Header(_FIXED + length, "")
    return Header(_FIXED + length, source(data[_FIXED : _FIXED + size]))
