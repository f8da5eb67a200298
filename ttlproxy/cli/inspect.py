"""`ttlproxy inspect`: what Redis has about the deadlines of keys, for people or programs."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from ttlproxy.addresses import Upstream
from ttlproxy.admin.inspector import key_report, managed_keys
from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.cli.flags import DATABASE, JSON, positive, value
from ttlproxy.cli.output import left, say
from ttlproxy.cli.subcommand import OF_LOG, OF_UPSTREAM, Subcommand
from ttlproxy.config import Settings
from ttlproxy.core.text import counted
from ttlproxy.errors import SettingsError, UpstreamError
from ttlproxy.link import cause, located
from ttlproxy.process.embedded import Embedded

_DESCRIPTION: Final = """\
Shows what there is about a key: its elements with their deadlines, the earliest first, the rules
that match, and what waits for it. It asks Redis at --upstream, or the embedded one of a running
ttlproxy, with the proxy's own user, and reads no values."""
_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--match": value("PATTERN", "all keys with deadlines that match, in place of KEY, in quotes"),
    "--db": DATABASE,
    "--limit": value("N", "show so many keys, and elements of each, at most", positive, default=20),
    "--json": JSON,
}


async def _inspect(settings: Settings, own: argparse.Namespace) -> int:
    """Runs it; returns 1 if there is no such key. Raises TtlproxyError."""
    if len(own.words) + (own.match is not None) != 1:
        raise SettingsError(["inspect: give one KEY before the flags, or --match PATTERN"])
    try:
        server = await located(_upstream(settings), settings.connect_timeout)
    except OSError as trouble:
        raise UpstreamError(str(cause(trouble))) from trouble
    inquiry = Inquiry(settings, server, lambda: "")
    try:
        await inquiry.is_clustered()
        names = [os.fsencode(word) for word in own.words]
        if own.match is not None:
            names = await managed_keys(inquiry, own.db, os.fsencode(own.match), own.limit)
        found = [await key_report(inquiry, own.db, name, own.limit) for name in names]
    finally:
        await inquiry.close()
    if own.json:
        say(json.dumps({"keys": found}, indent=2))
    else:
        for each in found:
            say("\n".join(as_text(each)))
        if not found:
            say("no key with deadlines matches")
    return 0 if any(_is_something(each) for each in found) else 1


def _upstream(settings: Settings) -> Upstream:
    if settings.upstream is not None:
        return settings.upstream
    socket = Embedded.socket_in(settings.data_dir)
    if socket is None:
        raise SettingsError(["inspect: name the Redis with --upstream"])
    return Upstream.parse(f"unix://{quote(str(socket))}")


def _is_something(found: Mapping[str, Any]) -> bool:
    return found["type"] != "none" or bool(found["deferred"]) or bool(found["kept"])


def as_text(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines about a key."""
    if not _is_something(found):
        yield f"{found['key']}: there is no such key"
        return
    size = "" if found["size"] is None else f", {counted(found['size'], 'element')}"
    timed = counted(found["timed"], "has a deadline", "have a deadline")
    yield f"{found['key']}: {found['type']}{size}, of which {timed}"
    if found["key_ms_left"] is not None:
        yield f"  the key itself expires {left(found['key_ms_left'])}"
    width = max((len(row["name"]) for row in found["elements"]), default=0)
    for row in found["elements"]:
        cut = "..." if row["cut"] else ""
        yield f"  {row['name'] + cut:<{width}}  {left(row['ms_left'])}"
    if (more := found["timed"] - len(found["elements"])) > 0:
        yield f"  and {more} more: see --limit"
    for rule in found["rules"]:
        yield f"  rule  {rule['command']} {rule['pattern']} {rule['action']}"
    for row in found["deferred"]:
        yield f"  deferred  {row['command']}, {left(row['ms_left'])}, id {row['id']}"
    if found["kept"]:
        yield f"  {counted(found['kept'], 'element waits', 'elements wait')} for TAKE"
    if found["counted"]:
        yield f"  deliveries of {counted(found['counted'], 'element')} are counted"


SUBCOMMANDS: Final = {
    "inspect": Subcommand(_DESCRIPTION, _FLAGS, _inspect, (*OF_UPSTREAM, *OF_LOG), takes="[KEY]")
}
