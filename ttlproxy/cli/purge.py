"""`ttlproxy purge` on the command line."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from typing import Final

from ttlproxy.cli.flags import switch
from ttlproxy.cli.output import ADD_APPLY, say
from ttlproxy.cli.subcommand import OF_LOG, OF_UPSTREAM, Subcommand
from ttlproxy.config import Settings
from ttlproxy.errors import SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.purge import PurgeOptions, purged
from ttlproxy.process.app import find_upstream

_NAME_IT: Final = (
    "purge: name the Redis with --upstream, or the directory of an embedded one with --data-dir"
)


async def _purge(settings: Settings, own: argparse.Namespace) -> int:
    """Raises SettingsError if no server to purge is named."""
    if settings.upstream is None and "data_dir" not in settings.given:
        raise SettingsError([_NAME_IT])
    async with AsyncExitStack() as stack:
        upstream, _ = await find_upstream(settings, stack)
        how = PurgeOptions(own.force, is_dry=not own.apply)
        await purged(settings, upstream, how, Progress(say))
    if not own.apply:
        say(ADD_APPLY)
    return 0


SUBCOMMANDS: Final = {
    "purge": Subcommand(
        """\
Removes everything that ttlproxy stores in the upstream, in every database. Your elements stay,
without their deadlines. Elements that wait for TAKE stay too. Without --apply it only looks. It
refuses while proxies are connected. If it is interrupted, start it again. Settings are given as to
ttlproxy itself: as flags, in the environment or in a file.""",
        {
            "--apply": switch("remove; otherwise it only says what it would remove"),
            "--force": switch(
                "purge even while proxies are connected, and remove elements that wait for TAKE"
            ),
        },
        _purge,
        (*OF_UPSTREAM, *OF_LOG),
    )
}
