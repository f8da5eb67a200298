"""The table of clients, for operators: counts of all, and a row for each of some.

Made when somebody looks. It walks over all clients, a few at a time, so that none of them waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from heapq import nlargest, nsmallest
from itertools import chain
from typing import Any, Final, Protocol

from ttlproxy.proxy.client_log import ClientLog

# Clients that are looked at without a pause, for about 0.1 ms.
_TOGETHER: Final = 100
# Rows of clients with the largest buffers, and of the oldest clients.
_EACH: Final = 25


class Listed(Protocol):
    """A client, as it is seen here."""

    client_log: ClientLog

    @property
    def state(self) -> str:
        """Its state, in words of a closed set."""

    @property
    def database(self) -> int | None:
        """The logical database that it is believed to be in; None if that is not known."""

    @property
    def user(self) -> bytes:
        """The user that it is logged in as; empty if it is not, or is not connected yet."""

    @property
    def introduced(self) -> Mapping[bytes, bytes]:
        """Its words about itself, as `session.sharing.introduction` gives it."""

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""

    @property
    def buffered(self) -> int:
        """Bytes that are kept for it, in both directions."""


async def client_table(clients: Collection[Listed]) -> dict[str, Any]:
    """A JSON object: how many clients there are, how many in each state, the bytes kept for all,
    and rows: those with the largest buffers first, then the oldest."""
    states, kept = Counter[str](), 0
    largest = list[tuple[int, int, Listed]]()  # bytes, the negative number
    oldest = list[tuple[int, Listed]]()
    everybody = list(clients)
    for at in range(0, len(everybody), _TOGETHER):
        some = everybody[at : at + _TOGETHER]
        states.update(client.state for client in some)
        numbered = [(client.client_log.number, client) for client in some]
        loaded = [(bytes_, -number, each) for number, each in numbered if (bytes_ := each.buffered)]
        kept += sum(bytes_ for bytes_, *_ in loaded)
        largest = nlargest(_EACH, chain(largest, loaded), key=lambda load: load[:2])
        oldest = nsmallest(_EACH, chain(oldest, numbered), key=lambda known: known[0])
        await asyncio.sleep(0)
    shown = dict.fromkeys([*(each for *_, each in largest), *(each for _, each in oldest)])
    return {
        "all": len(everybody),
        "states": dict(states),
        "buffered": kept,
        "rows": [_row(client) for client in shown if client in clients],
    }


def _row(client: Listed) -> dict[str, Any]:
    log = client.client_log
    return {
        "number": log.number,
        "address": log.peer,
        **_introduced(client.user, client.introduced),
        "age_s": log.age_s,
        "state": client.state,
        "db": client.database,
        "unread": client.unread,
        "buffered": client.buffered,
    }


def _introduced(user: bytes, said: Mapping[bytes, bytes]) -> dict[str, str]:
    """Its name, user and library with version, as hexadecimal numbers; empty if not known."""
    name, *library = (said.get(what, b"") for what in (b"SETNAME", b"LIB-NAME", b"LIB-VER"))
    words = {"name": name, "user": user, "library": b" ".join(filter(None, library))}
    return {what: word.hex() for what, word in words.items()}
