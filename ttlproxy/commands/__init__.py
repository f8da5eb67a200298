"""The commands, a table for each data type.

`spec` says what a row is, `elements` makes the nine commands every type has, `grammar` reads their
words, `rules` puts the tables over the server's own. Knows no Redis and no clock.
"""

from ttlproxy.commands.rules import ANY_KEY, NO_KEY, ONE_KEY, Native, Rule, Rules
from ttlproxy.commands.spec import Call, Override, Virtual

__all__ = [
    "ANY_KEY",
    "NO_KEY",
    "ONE_KEY",
    "Call",
    "Native",
    "Override",
    "Rule",
    "Rules",
    "Virtual",
]
