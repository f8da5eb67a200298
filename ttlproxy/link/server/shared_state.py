"""Shared state of the proxies of one server, beside deadlines: a secret, and the layout's version.

Both stand in a hash whose name no ACL pattern of keys under the prefix reaches. The first proxy
writes it, and the others adopt it; when it is gone, as after FLUSHALL, any of them writes it again.
A proxy that meets the layout of another version ends.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    it."""

    def __init__(self, context: Context, is_paused: IsPaused) -> None:
        self._is_paused = is_paused
        self._actions = context.actions
        self._script_calls = context.script_calls
        self._refusals = context.refusals
        self._shares_secret = not context.has_own_secret

    def first_questions(self) -> list[Words]:
        """What a new server is asked: the state, and whether it has a layout from before it."""
        keys = self._script_calls.keys
        return [*self.question(), (b"GET", keys.home(keys.old_layout))] if keys.are_home else []

    def adopt(self, replies: Sequence[object]) -> bool:
        """Adopts the state of a new server, if it is whole; returns whether it is. `replies`: to
        `first_questions`. Raises UnfitUpstream as `learn` does."""
        if not replies:
            return True  # another master of the Cluster has it
        state, old_layout = replies
        check_old_layout(self._script_calls.keys.prefix, old_layout)
        return self._take(state)

    async def claim(self, redis: Redis) -> None:
        """Writes what is missing, and adopts what is there.

        Raises UnfitUpstream as `learn` does. If Redis refuses the write, as a replica does, the
        proxy serves with a secret of its own.
        """
        secret = self._script_calls.signer.secret if self._shares_secret else b""
        call = Call("state_keep", (), (secret, LAYOUT_NAME, __version__.encode()))
        try:
            self._take(valid(await answered(redis, self._script_calls, 0, call)))
        except ReadOnlyError:
            pass
        except ResponseError as refusal:
            self._refusals.note("to store the secret of the proxies", refusal)

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
        if not self._take(reply) and not await self._is_paused():
            await self.claim(redis)

    def _take(self, state: object) -> bool:
        """Takes the secret in Redis, if there is one; returns whether the state is whole.

        Rules that were verified with another secret are read again: a replica may get rules, and
        the secret, with the data of another master.
        """
        keys, signer = self._script_calls.keys, self._script_calls.signer
        if isinstance(state, ResponseError) and is_wrong_type(state):
            raise UnfitUpstream(f"{keys.home(keys.state).decode()} is no hash of ttlproxy's")
        if not isinstance(state, list):
            return False
        secret, layout, program = state
        check_layout(keys.prefix, layout, program)
        if self._shares_secret and secret and secret != signer.secret:
            signer.adopt(secret)
            self._actions.forget_all()
        return bool(layout and (secret or not self._shares_secret))
