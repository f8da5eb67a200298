"""The commands, a table for each data type.

`spec` says what a row is. `long_forms` and `elements` make the nine commands that every type has,
`writes` those that set deadlines while they write; `grammar`, `hash_grammar` and `options` read
their words, `repeats` knows them again, and `calls` makes the script calls. `limiters` has what
counts in plain strings, `dialects` the commands of other servers. `native` reads the server's own
table, `positions` says where keys stand; `rules` puts our tables over the server's and makes a
`rule` for each command.
Knows no Redis and no clock.
"""

from ttlproxy.commands.native import Native, grants, natives
from ttlproxy.commands.positions import KeySpec
from ttlproxy.commands.rule import ANY_KEY, NO_KEY, ONE_KEY, READ_KEY, Rule
from ttlproxy.commands.rules import Rules
from ttlproxy.commands.spec import Call, Override, Survey, Virtual

__all__ = [
    "ANY_KEY",
    "NO_KEY",
    "ONE_KEY",
    "READ_KEY",
    "Call",
    "KeySpec",
    "Native",
    "Override",
    "Rule",
    "Rules",
    "Survey",
    "Virtual",
    "grants",
    "natives",
]
