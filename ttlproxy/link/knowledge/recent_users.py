"""Decides whether the users are known recently enough to let a client in without asking Redis."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Final

from redis.asyncio import Redis

from ttlproxy.link.knowledge.jobs import Jobs
from ttlproxy.link.server.acl import Acl

# Clients that connect within this time after a look need no look of their own.
_RECENT_S: Final = 1.0
# A client waits for a look for this time at most.
_PATIENCE_S: Final = 1.0


class RecentUsers:
    """Reads the users for clients that share a connection without a login: Redis would refuse a
    new connection as soon as a password is needed, and the heartbeat learns of that much later."""

    def __init__(self, acl: Acl, jobs: Jobs) -> None:
        self._acl = acl
        self._jobs = jobs
        self._read_s = -math.inf  # when the last look began, on the loop's clock
        self._looked = asyncio.Event()  # set, and replaced, after each look

    async def known(self) -> bool:
        """Waits for a look that began less than a second before the call; False if there is none in
        time, or Redis does not answer it, as while a script runs for long."""
        loop = asyncio.get_running_loop()
        arrived_s = loop.time()
        if arrived_s - self._read_s > _RECENT_S:
            self._jobs.soon(self._look)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._looked.wait()
        return arrived_s - self._read_s <= _RECENT_S

    async def _look(self, redis: Redis) -> None:
        began_s = asyncio.get_running_loop().time()
        looked, self._looked = self._looked, asyncio.Event()
        try:
            await self._acl.learn_users(redis)
            if self._acl.knows_users:
                self._read_s = began_s
        finally:
            looked.set()
