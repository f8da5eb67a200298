"""Reads the server's COMMAND reply. Knows its shapes in Redis 6.2 and from 7.0 on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttlproxy.commands.spec import (
    CHANGED,
    FILLED,
    KNOWN,
    READ,
    REMOVED,
    REPLACED,
    KeySpec,
    Positions,
)

_ACCESSES = (READ, CHANGED, REMOVED, REPLACED)


@dataclass(frozen=True, slots=True)
class Native:
    """A row of the reply.

    name: in upper case; arity: as Redis counts it; subcommands: by their own names in upper case;
    categories: of ACLs, each with its `@`.
    """

    name: str
    arity: int
    flags: frozenset[str]
    positions: Positions = ()
    subcommands: Mapping[bytes, Native] = field(default_factory=dict)
    categories: frozenset[bytes] = frozenset()


def natives(reply: Iterable[Sequence[Any]]) -> Iterator[Native]:
    """Yields the rows of a COMMAND reply, which is in RESP2 and has bytes for strings."""
    for row in reply:
        yield _native(row)


def grants(table: Iterable[Native], name: str, subcommand: str = "") -> frozenset[bytes]:
    """Returns the names by which an ACL rule may grant a command or subcommand: its own, that of
    its command, and those of its categories."""
    found = frozenset([b"@all", name.lower().encode(), f"{name}|{subcommand}".lower().encode()])
    for native in table:
        if native.name == name:
            found |= native.subcommands.get(subcommand.encode(), native).categories
    return found


def _native(row: Sequence[Any]) -> Native:
    name: str = row[0].decode().upper()
    flags = frozenset(flag.decode() for flag in row[2])
    return Native(
        name=name,
        arity=row[1],
        flags=flags,
        positions=_positions(name, flags, row),
        subcommands={
            subcommand[0].upper().partition(b"|")[2]: _native(subcommand)
            for subcommand in (row[9] if len(row) > 9 else ())
        },
        categories=frozenset(row[6] if len(row) > 6 else ()),
    )


def _positions(name: str, flags: frozenset[str], row: Sequence[Any]) -> Positions:
    """Reads key specifications (Redis 7), or first key, last key and step (older)."""
    if len(row) > 8:
        described = [_described(dict(zip(spec[::2], spec[1::2], strict=True))) for spec in row[8]]
        whole = tuple(spec for specs in described if specs is not None for spec in specs)
        return whole if None not in described else KNOWN.get(name)
    if name in KNOWN or "movablekeys" in flags:
        return KNOWN.get(name)
    first, last, step = row[3:6]
    if not first:
        return ()
    access = CHANGED if "write" in flags else READ
    return (KeySpec(access, first, last - first if last >= 0 else last, step),)


def _described(spec: Mapping[bytes, Any]) -> Positions:
    """Reads one specification: () if it has no keys, None if it does not describe all of them."""
    flags = {flag.decode() for flag in spec[b"flags"]}
    if "not_key" in flags:
        return ()
    (_, begin_type, _, begin), (_, find_type, _, find) = spec[b"begin_search"], spec[b"find_keys"]
    if "incomplete" in flags or b"unknown" in (begin_type, find_type):
        return None
    access = next((access for access in _ACCESSES if access in flags), CHANGED)
    if "insert" in flags:
        access = FILLED  # also if it has OW: nothing was there before, as for SETNX
    begins = dict(zip(begin[::2], begin[1::2], strict=True))
    finds = dict(zip(find[::2], find[1::2], strict=True))
    found = KeySpec(
        access,
        index=begins[b"startfrom" if b"startfrom" in begins else b"index"],
        keyword=begins.get(b"keyword", b"").upper(),
        last=finds.get(b"lastkey", 0),
        step=finds[b"keystep"],
        limit=finds.get(b"limit", 0),
        count_at=finds.get(b"keynumidx", -1),
        first=finds.get(b"firstkey", 0),
    )
    return (found,)
