"""Requests made from the COMMAND DOCS of a server. Knows no command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.redis_client import Client

KEYS = [b"k1", b"k2", b"k3", b"k4"]
ELEMENT = b"x"
# Values by the argument's name, then by its type; any other argument is ELEMENT.
_NAMED = {"timeout": b"0.01"}
_TYPED = {
    "integer": b"1",
    "double": b"1",
    "unix-time": b"4102444800",
    "pattern": b"*",
    "pure-token": b"",
}


def requests(client: Client) -> Iterator[list[bytes]]:
    """For each command and subcommand the shortest request, and one with all its options.

    The first key is KEYS[0], the next KEYS[1]; each count is one. There are none if the server has
    no COMMAND DOCS.
    """
    reply = client.ask("COMMAND", "DOCS")
    for name, entries in _pairs(reply if isinstance(reply, list) else []):
        subcommands = _pairs(dict(_pairs(entries)).get(b"subcommands", []))
        for full_name, found in [(name, entries), *subcommands]:
            words = full_name.upper().split(b"|")
            arguments = dict(_pairs(found)).get(b"arguments", [])
            yield from _distinct(
                [*words, *_words(arguments, whole, iter(KEYS))] for whole in (False, True)
            )


def _distinct(found: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    yield from map(list, dict.fromkeys(map(tuple, found)))


def _words(arguments: Sequence[list[Any]], whole: bool, keys: Iterator[bytes]) -> Iterator[bytes]:
    for argument in arguments:
        entries = dict(_pairs(argument))
        if whole or b"optional" not in entries.get(b"flags", []):
            if b"token" in entries:
                yield entries[b"token"]
            yield from _values(entries, whole, keys)


def _values(entries: dict[bytes, Any], whole: bool, keys: Iterator[bytes]) -> Iterator[bytes]:
    kind = entries[b"type"].decode()
    inner = entries.get(b"arguments", [])
    if kind == "oneof":
        yield from _words(inner[:1], whole, keys)
    elif kind == "block":
        yield from _words(inner, whole, keys)
    elif kind == "key":
        yield next(keys)
    else:
        word = _NAMED.get(entries[b"name"].decode(), _TYPED.get(kind, ELEMENT))
        yield from [word] if word else []


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
