"""Computes how many clients, and connections to masters, the limit of open files allows."""

from __future__ import annotations

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

# A client takes two: its own socket and the one to Redis.
_OF_CLIENT: Final = 2
# The most files of a process if the system sets no limit.
_PLENTY: Final = 1 << 20
# A limit below the default of max_clients is logged from this part on: a few less hinder nobody.
_WORTH_TELLING: Final = 0.9
# Files for everything else that a process opens; Redis reserves 32.
RESERVED: Final = 64


def room(limit: int, most: int, processes: int) -> int:
    """Returns how many of `most` clients fit, at least 1, if each process may open `limit`
    files."""
    return max(min(most, (limit - RESERVED) // _OF_CLIENT * processes), 1)


def beside_clients(clients: int, processes: int) -> int:
    """Raises the limit as far as possible; returns how many connections to masters of a Cluster
    each process may have besides its share of the clients, each of which needs at least one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _PLENTY if hard == resource.RLIM_INFINITY else min(hard, _PLENTY)
    if soft == resource.RLIM_INFINITY:
        limit = _PLENTY
    elif soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    else:
        limit = soft
    return max(limit - RESERVED - -(-clients // processes), 1)


def make_room(most: int, processes: int, chosen: bool) -> int:
    """Raises the limit as far as `most` clients need; returns how many clients fit.

    `chosen`: whether `most` was set by the user, who is warned if fewer fit.
    """
    wanted = most * _OF_CLIENT + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return most
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    clients = room(max(soft, limit), most, processes)
    if clients < most * (1 if chosen else _WORTH_TELLING):
        log.log(
            logging.WARNING if chosen else logging.INFO,
            "max_clients is %d instead of %d: a process may open only %d files (ulimit -n)",
            *(clients, most, limit),
        )
    return clients
