"""The proxy's own connections to Redis: load and call scripts, receive pushes, reap, reconnect.

`link` builds the parts and leads them from one life to the next; `serving` says whether clients are
served. A life begins with `server_setup`. In it `heartbeat` looks at Redis: the server's role
(`known_server`), users (`acl`), scripts (`script_cache`), the registry (`registry_loader`), and
what must be mended (`upkeep`). `announcements` keeps the push connection open. `holds` keeps
sessions waiting while `reap_requests` reaps for them. `reaper` reaps what is due, when its `agenda`
says so; both call the `reap_script`. `list_waiters` waits for items of lists, `refusals` counts
what Redis refuses, and `context` has what the link, the reaper and all sessions share.

Knows the proxy's own scripts and the registry. Knows no client's connection.
"""

from ttlproxy.link.backoff import Backoff
from ttlproxy.link.compatibility import LAYOUT, OLDEST, TRIAL, check_slots, is_node
from ttlproxy.link.connections import client
from ttlproxy.link.context import Context
from ttlproxy.link.discovery import located
from ttlproxy.link.link import Link, Node
from ttlproxy.link.list_waiters import ListWaiters
from ttlproxy.link.masters import Masters
from ttlproxy.link.pipeline import KEYS_PER_CALL, run, valid
from ttlproxy.link.proxy_count import attached
from ttlproxy.link.pushes import announcing
from ttlproxy.link.refusals import is_wrong_type, passes, reason
from ttlproxy.link.schedule_queries import DUE, ScheduleQueries
from ttlproxy.link.sentinels import Sentinel, Sentinels
from ttlproxy.link.server_clock import ServerClock
from ttlproxy.link.several_nodes import NodeOfSeveral, close_all, several_masters
from ttlproxy.link.single_calls import answered
from ttlproxy.link.slot_schedules import SlotSchedules
from ttlproxy.link.tls_mismatch import Role, mismatch

__all__ = [
    "DUE",
    "KEYS_PER_CALL",
    "LAYOUT",
    "OLDEST",
    "TRIAL",
    "Backoff",
    "Context",
    "Link",
    "ListWaiters",
    "Masters",
    "Node",
    "NodeOfSeveral",
    "Role",
    "ScheduleQueries",
    "Sentinel",
    "Sentinels",
    "ServerClock",
    "SlotSchedules",
    "announcing",
    "answered",
    "attached",
    "check_slots",
    "client",
    "close_all",
    "is_node",
    "is_wrong_type",
    "located",
    "mismatch",
    "passes",
    "reason",
    "run",
    "several_masters",
    "valid",
]
