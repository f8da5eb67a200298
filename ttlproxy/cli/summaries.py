"""A line about each subcommand, for the --help of ttlproxy.

`subcommands` has the rest, and is imported only where one is run: a proxy would keep 2 MB for it.
"""

from typing import Final

SUMMARIES: Final = {
    "adopt": "gives a deadline to elements that are there and have none",
    "completion": "prints the completion for bash, zsh or fish",
    "doctor": "checks the upstream, and prints how to fix what is wrong",
    "export": "gives deadlines to a server or a layout without ttlproxy",
    "healthcheck": "asks a running proxy whether it is healthy",
    "import": "takes over deadlines from another server, Redisson, or sorted sets",
    "inspect": "shows deadlines of keys, the rules that match, and what waits",
    "purge": "removes everything that ttlproxy stores in the upstream",
    "rights": "prints the ACL rules for a user who may use some keys only",
    "top": "shows a running proxy, live in the terminal",
}
