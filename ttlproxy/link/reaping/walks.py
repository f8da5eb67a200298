"""One of several proxies walks over the data for all: it looks for orphans, and for keys that are
gone.

It announces every ten seconds that it does. Who has not heard of another for a while begins itself,
after a pause by chance; of two, the one with the smaller name goes on. Nothing but work depends on
it: what a walk finds is written by scripts that announce it.
"""

from __future__ import annotations

from random import random, uniform
from secrets import token_hex
from typing import Final

from redis.asyncio import Redis

from ttlproxy.commands import Call
from ttlproxy.link.connecting.pipeline import error
from ttlproxy.link.connecting.single_calls import answered
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

EVERY_S: Final = 10.0
# In announcement periods: who has heard nothing for so long believes that nobody walks.
_SILENCE: Final = (2.0, 4.0)
# The same for a proxy that has just begun.
_AT_FIRST: Final = (0.2, 2.0)


class Walks:
    """Whether this proxy walks; `is_on`: as last decided."""

    def __init__(self, context: Context, is_paused: IsPaused) -> None:
        self.is_on = False
        self._fleet = context.fleet
        self._keys = context.keys
        self._script_calls = context.script_calls
        self._clock = context.clock
        self._is_paused = is_paused
        self._name = token_hex(8).encode()
        self._begins_s = self._now_s() + EVERY_S * uniform(*_AT_FIRST)
        self._announces_s = 0.0

    def heard(self, name: bytes) -> None:
        """The proxy of that name walks."""
        if name == self._name:
            return
        if self.is_on and self._name < name:
            self._announces_s = 0.0
            return
        self.is_on = False
        self._begins_s = self._now_s() + EVERY_S * uniform(*_SILENCE)

    async def mine(self, redis: Redis) -> bool:
        """Whether this proxy walks now. Raises redis-py's ConnectionError or TimeoutError."""
        if self._fleet.is_alone or self._fleet.attached <= 1:  # nobody would hear it
            self.is_on = True
            return True
        if not self.is_on and self._now_s() < self._begins_s:
            return False
        self.is_on = True
        if self._now_s() < self._announces_s:
            return True
        if await self._is_paused():
            return False
        announce = Call("walk_announce", (self._keys.walks(self._name),), ())
        reply = await answered(redis, self._script_calls, 0, announce)
        self._announces_s = self._now_s() + EVERY_S
        if error(reply) and random() * self._fleet.attached >= 1:
            # Nobody hears it, so others may walk too: each does a part.
            self.is_on, self._begins_s = False, self._announces_s
        return self.is_on

    def _now_s(self) -> float:
        return self._clock.reading() / 1000
