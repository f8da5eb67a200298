"""The connections to Redis in its CLIENT LIST: of programs, and of other proxies.

Names and users are what users have written, so they are left out if the inspector is off.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ttlproxy.admin.redis_queries import Answer, Inquiry
from ttlproxy.core.text import shown
from ttlproxy.errors import Unanswered
from ttlproxy.link.connecting.known_server import listed_clients, push_name

# Redis lists this many connections in about 2 ms; more of them are only counted.
_MOST: Final = 1000
_GROUPS: Final = 50
_HOSTS: Final = 3
_CONNECTED: Final = re.compile(rb"^connected_clients:(\d+)", re.MULTILINE)
_OURS: Final = b"ttlproxy:"

_Connection = Mapping[bytes, bytes]
"""The fields of a line of CLIENT LIST."""


async def connected(inquiry: Inquiry, prefix: str, *, names: bool) -> Answer:
    """Returns a JSON object: `connections` at the server, or at one of several masters; `programs`,
    null if there are too many connections; `proxies` with this prefix. Raises Unanswered."""
    (info,) = await inquiry.ask([(0, (b"INFO", b"clients"))])
    found = _CONNECTED.search(info)
    if found is None:
        raise Unanswered("Redis does not say how many clients are connected")
    connections = int(found[1])
    # Proxies subscribe. So they are found even if a list of all connections would be too long.
    lists = await _listed(inquiry, b"pubsub")
    own = push_name(prefix.encode())
    proxies = [_host(each) for each in lists if each.get(b"name") == own]
    return {
        "connections": connections,
        "programs": (
            _programs([*await _listed(inquiry, b"normal"), *lists])
            if names and connections <= _MOST
            else None
        ),
        "proxies": {"all": len(proxies), "hosts": sorted(set(proxies)) if names else []},
    }


async def _listed(inquiry: Inquiry, kind: bytes) -> Sequence[_Connection]:
    (text,) = await inquiry.ask([(0, (b"CLIENT", b"LIST", b"TYPE", kind))])
    return listed_clients(text)


def _programs(lists: Iterable[_Connection]) -> dict[str, Any]:
    """Groups connections with the same name, user and library, the largest group first."""
    groups = defaultdict[tuple[str, str, str], list[str]](list)
    for each in lists:
        if not each.get(b"name", b"").startswith(_OURS):
            groups[_program(each)].append(_host(each))
    rows = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return {
        "all": len(rows),
        "rows": [
            {
                "name": name,
                "user": user,
                "library": library,
                "connections": len(hosts),
                "hosts": (different := sorted(set(hosts)))[:_HOSTS],
                "more_hosts": len(different[_HOSTS:]),
            }
            for (name, user, library), hosts in rows[:_GROUPS]
        ],
    }


def _program(each: _Connection) -> tuple[str, str, str]:
    """Returns (name, user, library with version); empty if a client or the server does not say
    it."""
    library = b" ".join(filter(None, (each.get(b"lib-name", b""), each.get(b"lib-ver", b""))))
    return shown(each.get(b"name", b"")), shown(each.get(b"user", b"")), shown(library)


def _host(each: _Connection) -> str:
    """Returns the host of a connection; of a unix socket its path."""
    return shown(each.get(b"addr", b"").rpartition(b":")[0])
