"""Shared state of the proxies of one server, beside deadlines: a secret, and the layout's version.

Both stand in a hash whose name no ACL pattern of keys under the prefix reaches. It is there before
the first deadline, rule or deferred command, and while there are several proxies; when none of
these is left, it goes (scripts/state_drop.lua). So a server that nobody uses so has no key of ours.
The first proxy writes it, and the others adopt it; when it is gone, as after FLUSHALL, any of them
writes it again. A proxy that meets the layout of another version ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError, ResponseError

from ttlproxy import __version__
from ttlproxy.commands import Call
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link.connecting.pipeline import Words, run, valid
from ttlproxy.link.connecting.refusals import is_wrong_type
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.server.compatibility import LAYOUT, check_layout, check_old_layout
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

LAYOUT_NAME: Final = b"%d" % LAYOUT


class SharedState:
    """Keeps the layout's version in Redis, and the secret of `script_calls.signer` if no file has
    it. on_want: called when `keep` is to be called soon."""

    def __init__(self, context: Context, is_paused: IsPaused) -> None:
        self.on_want: Callable[[], None] = lambda: None
        self._is_paused = is_paused
        self._context = context
        self._actions = context.actions
        self._script_calls = context.script_calls
        self._refusals = context.refusals
        self._shares_secret = not context.has_own_secret
        self._wanted: asyncio.Future[None] | None = None  # a session waits for the state

    def first_questions(self) -> list[Words]:
        """What a new server is asked: the state, and whether it has a layout from before it."""
        keys = self._script_calls.keys
        return [*self.question(), (b"GET", keys.home(keys.old_layout))] if keys.are_home else []

    def adopt(self, replies: Sequence[object]) -> None:
        """Adopts the state of a new server. `replies`: to `first_questions`. Raises UnfitUpstream
        as `learn` does."""
        if not replies:  # another master of the Cluster has it
            self._script_calls.has_state = True
            return
        state, old_layout = replies
        check_old_layout(self._script_calls.keys.prefix, old_layout)
        self._script_calls.has_state = False  # unless it is there
        self._take(state)

    async def keep(self, redis: Redis) -> None:
        """Checks the state now. Raises redis-py's ConnectionError or TimeoutError."""
        for reply in await run(redis, [(0, words) for words in self.question()]):
            await self.learn(redis, reply)

    def question(self) -> list[Words]:
        """Asks for the state; nothing if another master of the Cluster has it."""
        keys = self._script_calls.keys
        name = keys.home(keys.state)
        return [(b"HMGET", name, b"secret", b"layout", b"program")] if keys.are_home else []

    async def learn(self, redis: Redis, reply: object) -> None:
        """Takes the reply, in each heartbeat: the state may be gone, or another proxy may have
        written it.

        Raises UnfitUpstream if it is that of another layout, or none of ttlproxy's, and redis-py's
        ConnectionError or TimeoutError.
        """
        is_there = self._take(reply)
        if is_there or not self._is_needed:
            self._tell()
        elif not await self._is_paused():
            await self.claim(redis)
            self._tell()

    def stored(self) -> asyncio.Future[None]:
        """Done when the state is in Redis, or Redis has refused it."""
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().create_future()
            self._script_calls.has_state = None  # from now on there may be something to hide
            self.on_want()
        return self._wanted

    def may_be_gone(self) -> None:
        """Looks soon. If it was not there, it still is not."""
        if self._script_calls.has_state and not self._script_calls.keys.clustered:
            self._script_calls.has_state = None
        self.on_want()

    def may_be_there(self) -> None:
        """Looks soon: another proxy has announced something."""
        if not self._script_calls.has_state:
            self._script_calls.has_state = None
            self.on_want()

    async def drop(self, redis: Redis, databases: Iterable[int]) -> None:
        """Removes it if nothing needs it. `databases`: those that hold keys."""
        calls = self._script_calls
        if calls.has_state is False or self._is_needed:
            return
        if await self._is_paused() or self._is_needed:
            return
        calls.has_state = None  # from now on sessions wait for it
        call = Call("state_drop", (), tuple(b"%d" % db for db in databases))
        try:
            calls.has_state = not valid(await answered(redis, calls, 0, call))
        except ResponseError as refusal:
            calls.has_state = True
            self._refusals.note("to remove the state of the proxies", refusal)

    @property
    def _is_needed(self) -> bool:
        context = self._context
        if context.fleet.attached > 1 or context.keys.clustered or self._wanted is not None:
            return True
        has_keys = context.managed_keys or context.registry.has_managed
        return bool(has_keys) or context.actions.has_rules

    def _tell(self) -> None:
        """Those that wait for the state go on."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None and not wanted.done():
            wanted.set_result(None)

    async def claim(self, redis: Redis) -> None:
        """Writes what is missing, and adopts what is there. If Redis refuses the write, as a
        replica does, the proxy serves with a secret of its own."""
        secret = self._script_calls.signer.secret if self._shares_secret else b""
        call = Call("state_keep", (), (secret, LAYOUT_NAME, __version__.encode()))
        try:
            self._take(valid(await answered(redis, self._script_calls, 0, call)))
        except ReadOnlyError:
            pass
        except ResponseError as refusal:
            self._refusals.note("to store the secret of the proxies", refusal)
        self._script_calls.has_state = True  # until the next look, if it was refused

    def _take(self, state: object) -> bool:
        """Takes the secret in Redis, if there is one; returns whether the state is whole.

        Rules that were verified with another secret are read again: a replica may get rules, and
        the secret, with the data of another master.
        """
        calls, keys = self._script_calls, self._script_calls.keys
        if isinstance(state, ResponseError) and is_wrong_type(state):
            raise UnfitUpstream(f"{keys.home(keys.state).decode()} is no hash of ttlproxy's")
        if not isinstance(state, list):
            calls.has_state = True  # for all that is known
            return False
        secret, layout, program = state
        check_layout(keys.prefix, layout, program)
        if self._shares_secret and secret and secret != calls.signer.secret:
            calls.signer.adopt(secret)
            self._actions.forget_all()
        is_whole = bool(layout and (secret or not self._shares_secret))
        # What has no secret is of a purge that has left elements which wait for TAKE. A swap may
        # have moved the state: there are keys to hide until it is written again, or `drop` has
        # looked.
        may_be_there = layout or self._is_needed or calls.has_state is not False
        calls.has_state = is_whole or keys.clustered or (None if may_be_there else False)
        return is_whole
