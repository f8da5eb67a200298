"""The commands: what the proxy answers itself, what it rewrites, and what it passes on.

`router` puts our tables over the server's own and makes a route for each command. `model` says what
a command is, `grammar` reads its words, `families` makes the nine commands that every type has.
The tables are in `types`, `features` and `dialects`; `docs` has what COMMAND, ACL CAT and INFO say.

Knows what a request means. Knows no client, no socket, no clock and no Redis connection.
"""

from ttlproxy.commands.model.command_reply import Native, grants, natives
from ttlproxy.commands.model.key_positions import KeySpec
from ttlproxy.commands.model.route import (
    ANY_KEY,
    FIRST_ALONE,
    KEPT_KEY,
    NO_KEY,
    ONE_KEY,
    READ_KEY,
    Route,
)
from ttlproxy.commands.model.spec import Call, Direct, OnWrite, Override, Survey, Virtual
from ttlproxy.commands.router import SCRIPTED, Router

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
