"""The commands, a table for each data type.

`spec` says what a row is, `elements` makes the nine commands every type has, `grammar` reads their
words; `native` reads the server's own table, `positions` says where keys stand, `rules` puts our
tables over the server's. Knows no Redis and no clock.
"""

from ttlproxy.commands.native import Native, natives
from ttlproxy.commands.positions import KeySpec
from ttlproxy.commands.rules import ANY_KEY, NO_KEY, ONE_KEY, Rule, Rules
from ttlproxy.commands.spec import Call, Override, Survey, Virtual

__all__ = [
    "ANY_KEY",
    "NO_KEY",
    "ONE_KEY",
    "Call",
    "KeySpec",
    "Native",
    "Override",
    "Rule",
    "Rules",
    "Survey",
    "Virtual",
    "natives",
]
