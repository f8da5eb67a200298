"""Text for people: counts with their nouns; and bytes as text that a person can read and type, and
back, with other bytes as \\x00."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(\\))")


def counted(count: int, one: str, many: str = "") -> str:
    """The count with its noun: "1 key", "2 keys"; `many` if the plural does not only add an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def shown(name: bytes) -> str:
    r"""Returns the name as text, with `\` and each byte that is no printable UTF-8 escaped."""
    letters = name.decode("utf-8", "surrogateescape")
    return "".join(map(_letter, letters))


def typed(text: str) -> bytes:
    """Returns the name that `shown` shows as `text`; other characters mean themselves."""
    plain, at = b"", 0
    for found in _ESCAPE.finditer(text):
        plain += text[at : found.start()].encode() + (bytes.fromhex(found[1] or "5c"))
        at = found.end()
    return plain + text[at:].encode()


def _letter(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if letter.isprintable():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
