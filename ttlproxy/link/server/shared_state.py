"""Shared state of the proxies of one server, beside deadlines: a secret, and the layout's version.

Both stand in a hash whose name no ACL pattern of keys under the prefix reaches. The first proxy
writes it, and the others adopt it; when it is gone, as after FLUSHALL, any of them writes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.link.connecting.pipeline import Words, run, valid
from ttlproxy.link.connecting.server_identity import Identity, fields
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.server.compatibility import LAYOUT, check_layout
from ttlproxy.link.server.migration import Migration
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

_LAYOUT = b"%d" % LAYOUT


class SharedState:
    """Keeps the layout's version in Redis, and the secret of `script_calls.signer` if no file has
    it."""

    def __init__(self, context: Context, is_paused: IsPaused) -> None:
        self._is_paused = is_paused
        self._is_ours = False  # the content is of our layout
        self._actions = context.actions
        self._rights = context.rights
        self._script_calls = context.script_calls
        self._refusals = context.refusals
        self._shares_secret = not context.has_own_secret

    def adopt(self, replies: Sequence[object]) -> bool:
        """Adopts the state of a new server, if it is whole; returns whether it is. `replies`: to
        `question`. Raises UnfitUpstream as `claim` does."""
        self._is_ours = False
        for reply in replies:
            if isinstance(reply, list):
                secret, layout = reply
                self._adopt(secret)
                check_layout(self._script_calls.keys.prefix, layout)
                self._is_ours = self._is_whole(secret, layout)
        return self._is_ours

    async def claim(self, redis: Redis) -> None:
        """Writes or adopts the state, before anybody is served.

        Raises UnfitUpstream if the layout is newer than ours. If Redis refuses the write, as a
        replica does, the proxy serves with a secret of its own.
        """
        self._is_ours = False
        if not self._script_calls.keys.are_home:
            return  # another master of the Cluster has it
        found = await self._written(redis, b"")
        if found is None:
            return
        check_layout(self._script_calls.keys.prefix, found)
        if not found and not await self._converted(redis):
            return
        self._is_ours = bool(found) or await self._written(redis, _LAYOUT) is not None

    async def _converted(self, redis: Redis) -> bool:
        """Converts an older layout; returns whether nothing of it is left."""
        if self._script_calls.keys.clustered:
            return True  # version 0.1 refused a Cluster
        try:
            (info,) = await run(redis, [(0, (b"INFO", b"keyspace"))])
            databases = Identity.of(fields(valid(info))).databases
            migration = Migration(self._script_calls, redis)
            # Version 0.1 did not know of clients with narrow rights.
            if self._rights.trusts_schedules or await migration.is_due(databases):
                await migration.convert(databases)
            return True
        except ReadOnlyError:
            return False
        except ResponseError as refusal:
            self._refusals.note("to migrate what version 0.1 has left", refusal)
            return False

    async def keep(self, redis: Redis) -> None:
        """Checks the state now. Raises redis-py's ConnectionError or TimeoutError."""
        for reply in await run(redis, [(0, words) for words in self.question()]):
            await self.learn(redis, reply)

    def question(self) -> list[Words]:
        """Asks for the state; nothing if another master of the Cluster has it."""
        keys = self._script_calls.keys
        name = keys.home(keys.state)
        return [(b"HMGET", name, b"secret", b"layout")] if keys.are_home else []

    async def learn(self, redis: Redis, reply: object) -> None:
        """Takes the reply, in each heartbeat: the state may be gone, or another proxy may have
        written it.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        if isinstance(reply, list):
            secret, layout = reply
            self._adopt(secret)
            if self._is_whole(secret, layout):
                return
        if await self._is_paused():
            return
        if self._is_ours:
            await self._written(redis, _LAYOUT)
        else:
            await self.claim(redis)

    def _is_whole(self, secret: bytes | None, layout: bytes | None) -> bool:
        return bool(layout and (secret or not self._shares_secret))

    async def _written(self, redis: Redis, layout: bytes) -> bytes | None:
        """Writes what is missing, and adopts what is there.

        Returns the layout, empty if there is none; None if Redis refuses.
        """
        signer = self._script_calls.signer
        secret = signer.secret if self._shares_secret else b""
        call = Call("state_keep", (), (secret, layout))
        try:
            found, known = valid(await answered(redis, self._script_calls, 0, call))
        except ReadOnlyError:
            return None
        except ResponseError as refusal:
            self._refusals.note("to store the secret of the proxies", refusal)
            return None
        self._adopt(found)
        return bytes(known)

    def _adopt(self, secret: bytes | None) -> None:
        """Takes the secret in Redis, if there is one. Rules that were verified with another one are
        read again: a replica may get rules, and the secret, with the data of another master."""
        signer = self._script_calls.signer
        if self._shares_secret and secret and secret != signer.secret:
            signer.adopt(secret)
            self._actions.forget_all()
