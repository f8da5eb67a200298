"""Commands for redis-cli, as an operator pastes them into a shell. Knows no server."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

from ttlproxy.addresses import Listen, Upstream

_ESCAPED: Final = {ord("'"): "\\'", ord("\\"): "\\\\"}


def to_redis(upstream: Upstream) -> list[str]:
    """Returns redis-cli for the server itself; the operator logs in."""
    return _start(upstream.host, upstream.port, upstream.path, tls=upstream.tls)


def to_proxy(listen: Listen, *, tls: bool) -> list[str]:
    """Returns redis-cli for the proxy that listens there, on the proxy's machine; PORT: any free
    port."""
    return _start(listen.local.host, listen.port, listen.path, tls=tls)


def typed(start: Sequence[str], db: int, words: Sequence[bytes]) -> str:
    """Returns a line for a shell; empty if a word has a byte 0, which no program can be given."""
    if any(b"\0" in word for word in words):
        return ""
    database = ["-n", str(db)] if db else []
    return " ".join([*map(quote, (*start, *database)), *map(_quoted, words)])


def _start(host: str, port: int, path: str, *, tls: bool) -> list[str]:
    where = ["-s", path] if path else ["-h", host, "-p", str(port or "PORT")]
    return ["redis-cli", *where, *(["--tls"] if tls else [])]


def _quoted(word: bytes) -> str:
    """Quotes one word. Text that is not printable is written as in C, which POSIX has since 2024;
    bash, ksh and zsh have had it for long."""
    text = word.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return quote(text)
    return f"$'{''.join(map(_letter, text))}'"


def _letter(letter: str) -> str:
    if letter.isprintable():
        return _ESCAPED.get(ord(letter), letter)
    # Three octal digits: after \x more digits that follow would be taken as part of the number.
    return "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogateescape"))
