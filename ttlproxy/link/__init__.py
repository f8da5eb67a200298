"""The proxy's own connections to Redis: load and call scripts, receive pushes, reap, reconnect.

Its packages, each of which may import only those below it:

    masters     a link and a reaper for each master
    life        the link itself: from one connection to Redis to the next
    knowledge   what is known of keys
    reaper      finds what is due and removes it
    server      what is known of a server, and what we put there
    shared      what the link, the reaper and all sessions share
    connecting  how a server is found, asked and heard

Knows the proxy's own scripts and the registry. Knows no client's connection.

A coroutine that takes `redis` asks over that connection, and raises redis-py's ConnectionError or
TimeoutError if it is lost; its docstring names other errors.
"""

from ttlproxy.link.connecting.connections import Backoff, client
from ttlproxy.link.connecting.discovery import located
from ttlproxy.link.connecting.failures import Asked, cause, is_wrong_type, passes, reason
from ttlproxy.link.connecting.known_server import ServerClock, attached, other_prefixes
from ttlproxy.link.connecting.pipeline import KEYS_PER_CALL, answered, run, valid
from ttlproxy.link.connecting.pushes import announcing
from ttlproxy.link.connecting.reachability import Role, mismatch
from ttlproxy.link.connecting.sentinels import Sentinel, SentinelGroup
from ttlproxy.link.life.link import Link, ServerStatus
from ttlproxy.link.life.list_waiters import ListWaiters
from ttlproxy.link.masters.masters import Masters
from ttlproxy.link.masters.several_nodes import NodeOfSeveral, close_all, several_masters
from ttlproxy.link.server.compatibility import (
    LAYOUT,
    OLDEST,
    check_layout,
    check_old_layout,
    check_slots,
    is_node,
    said_by,
)
from ttlproxy.link.shared.context import Context
from ttlproxy.link.shared.schedule_queries import DUE, ScheduleQueries
from ttlproxy.link.shared.slot_schedules import SlotSchedules

__all__ = [
    "DUE",
    "KEYS_PER_CALL",
    "LAYOUT",
    "OLDEST",
    "Asked",
    "Backoff",
    "Context",
    "Link",
    "ListWaiters",
    "Masters",
    "NodeOfSeveral",
    "Role",
    "ScheduleQueries",
    "Sentinel",
    "SentinelGroup",
    "ServerClock",
    "ServerStatus",
    "SlotSchedules",
    "announcing",
    "answered",
    "attached",
    "cause",
    "check_layout",
    "check_old_layout",
    "check_slots",
    "client",
    "close_all",
    "is_node",
    "is_wrong_type",
    "located",
    "mismatch",
    "other_prefixes",
    "passes",
    "reason",
    "run",
    "said_by",
    "several_masters",
    "valid",
]
