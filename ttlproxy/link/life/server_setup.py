"""The beginning of a life of the link: finds out whether the server is fit, and what it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from redis.asyncio import Redis

from ttlproxy.commands import Router, grants
from ttlproxy.core.permissions import COUNTING
from ttlproxy.link.connecting.connections import stagger_s
from ttlproxy.link.connecting.known_server import INFO, Identity, fields
from ttlproxy.link.connecting.pipeline import ask, error, run, valid
from ttlproxy.link.server import compatibility
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.server.command_table import families_of
from ttlproxy.link.server.script_cache import AT_FIRST
from ttlproxy.scripts import written_commands

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link

# Makes a proxy that starts count as attached, so that many that start at once know of each other.
# No key is tracked, because none is read.
_COUNTED = (b"CLIENT", b"TRACKING", b"ON", b"OPTIN")
_NOT_COUNTED = (b"CLIENT", b"TRACKING", b"OFF")


class ServerSetup:
    """Fills the context with what it learns of a server."""

    def __init__(self, link: Link) -> None:
        self._context = link.context
        self._server = link.server
        self._acl = link.acl
        self._scripts = link.scripts
        self._shared_state = link.shared_state
        self._commands = link.commands

    async def prepare(self, redis: Redis) -> None:
        """Learns what the server can do and whether we may use it.

        If the server is known, only its role and scripts may have changed. Raises UnfitUpstream,
        UpstreamError, and redis-py's errors.
        """
        self._acl.begin_life()
        starts = self._server.identity is None
        asked = (_COUNTED, INFO) if starts else (INFO,)
        *_, info = await run(redis, [(0, words) for words in asked])
        if refusal := error(info):  # a command that is missing does not pass, so it is reported
            await compatibility.check_commands(redis)
            compatibility.check_greeting(refusal)
        said = fields(valid(info))
        compatibility.check_server(said)
        found = Identity.of(said)
        if starts:
            await asyncio.sleep(stagger_s(max(found.attached - 1, 0)))
        if self._server.is_new(found):
            await self._meet(redis, said, valid(info))
        elif self._context.keys.clustered and found.is_master:
            await self._check_slots(redis)
        self._server.met(found)
        self._context.fleet.attached = max(found.attached, 1)
        await self._scripts.begin(redis)
        if starts:
            await run(redis, [(0, _NOT_COUNTED)])

    async def _check_slots(self, redis: Redis) -> None:
        await compatibility.check_slots(redis, all_of_them=not self._context.is_one_of_several)

    async def _meet(self, redis: Redis, said: Mapping[str, str], info: bytes) -> None:
        """Learns about a new server; `info`: its reply to INFO, `said`: the fields of that."""
        clustered = compatibility.is_clustered(said)
        if clustered:
            await self._check_slots(redis)
        self._context.set_clustered(clustered)
        asked = await ask(
            redis,
            {
                "others": [compatibility.PROXY_CHANNELS],
                "state": self._shared_state.first_questions(),
                "stored": self._commands.questions(),
                "settings": compatibility.SETTINGS,
                "scripts": AT_FIRST,
                "users": [Acl.USERS],
            },
        )
        # Before anything is written; it is asked again once others can see this proxy.
        compatibility.check_other_proxies(
            compatibility.proxy_channel(self._context), asked["others"][0]
        )
        self._shared_state.adopt(asked["state"])
        found = await self._commands.learn(redis, info, asked["stored"])
        compatibility.warn(asked["settings"])
        forms = compatibility.forms(said)
        self._context.router = Router(found, self._acl.categories, forms, clustered)
        self._context.command_families = families_of(found)
        counting = [grants(found, name) for name in COUNTING]
        known = {native.name for native in found}
        written = [grants(found, name) for name in written_commands(known)]
        self._context.rights.suit(grants(found, "ACL", "CAT"), counting, written)
        self._scripts.start_anew(said, (native.name for native in found), asked["scripts"])
        self._acl.take_users(asked["users"][0])
