"""The commands: what the proxy answers itself, what it rewrites, and what it passes on.

`router` puts our tables over the server's own and makes a `route` for each command. `spec` says
what a command is as data, `parsing` and `options` read its words, `calls` makes its script call,
and `element_commands` makes the nine commands that every type has. The tables are in `types`,
`features` and `dialects`; `introspection` answers COMMAND and ACL CAT, `proxy_info` INFO and
TTLPROXY.

Knows what a request means. Knows no client, no socket, no clock and no Redis connection.
"""

from ttlproxy.commands.command_reply import Native, grants, natives
from ttlproxy.commands.route import (
    ANY_KEY,
    FIRST_ALONE,
    KEPT_KEY,
    NO_KEY,
    ONE_KEY,
    READ_KEY,
    Route,
)
from ttlproxy.commands.router import SCRIPTED, Router
from ttlproxy.commands.spec import Call, Direct, KeySpec, OnWrite, Override, Survey, Virtual

__all__ = [
    "ANY_KEY",
    "FIRST_ALONE",
    "KEPT_KEY",
    "NO_KEY",
    "ONE_KEY",
    "READ_KEY",
    "SCRIPTED",
    "Call",
    "Direct",
    "KeySpec",
    "Native",
    "OnWrite",
    "Override",
    "Route",
    "Router",
    "Survey",
    "Virtual",
    "grants",
    "natives",
]
