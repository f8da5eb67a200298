"""`ttlproxy rights` on the command line."""

from __future__ import annotations

import argparse
import os
from typing import Final

from ttlproxy.cli.flags import switch, value
from ttlproxy.cli.output import say
from ttlproxy.cli.subcommand import Subcommand
from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.errors import SettingsError
from ttlproxy.operations.client_rights import UnfitPatternError, as_typed


async def _rights(settings: Settings, own: argparse.Namespace) -> int:
    """Prints the rules; uses only the prefix of the settings."""
    keys = Keys(settings.prefix.encode(), clustered=own.cluster)
    try:
        typed = as_typed(keys, map(os.fsencode, own.match))
    except UnfitPatternError as unfit:
        raise SettingsError([str(unfit)]) from None
    say(typed.decode())
    return 0


SUBCOMMANDS: Final = {
    "rights": Subcommand(
        """\
Prints the ACL SETUSER command for a user who may use the keys that match --match, with their
deadlines, and no other keys. Type it into redis-cli, connected to the upstream. No server is asked;
--prefix must be that of the proxies.""",
        {
            "--match": value(
                "PATTERN",
                "the keys that the user may use; may be given again",
                action="append",
                required=True,
            ),
            "--cluster": switch("the upstream is a Redis Cluster"),
        },
        _rights,
        ("prefix",),
    )
}
