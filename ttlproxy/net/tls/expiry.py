"""When the certificates of a PEM file end. Checks no signature and knows no connection.

The ssl module tells it only of certificates that a peer has shown, so DER is read here: RFC 5280,
4.1 and 4.1.2.5.
"""

from __future__ import annotations

import calendar
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION: Final = 0xA0
# Before the validity: serial number, signature algorithm and issuer.
_BEFORE_VALIDITY: Final = 3
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


class _Item(NamedTuple):
    tag: int
    content: bytes


def ends(path: Path) -> list[float]:
    """The Unix times, in s, at which the certificates of a file end, in the order of the file.

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
    """The values of a DER sequence."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:  # the long form: how many bytes the length has
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        yield _Item(tag, data[at : at + length])
        at += length
