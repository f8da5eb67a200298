"""Clients that share connections without a login are let in by what is known of the users now."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.virtual_time import VirtualTime
from ttlproxy.link.knowledge.jobs import Job
from ttlproxy.link.knowledge.recent_users import RecentUsers


class _Link:
    """Has users, and does a job as soon as it is asked for, if it is there."""

    def __init__(self) -> None:
        self.is_there = self.knows_users = True
        self.looks = 0
        self._is_asked = False
        link: Any = self
        self.recent = RecentUsers(link, link)

    async def learn_users(self, redis: object) -> bool:
        self.looks += 1
        await asyncio.sleep(0.01)
        return False

    def soon(self, job: Job) -> None:
        if self.is_there and not self._is_asked:
            self._is_asked = True
            self._task = asyncio.ensure_future(self._do(job))

    async def _do(self, job: Job) -> None:
        self._is_asked = False
        redis: Any = None
        await job(redis)


def _run(main: Any) -> None:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(main)


def test_one_look_serves_all_who_connect_within_a_second() -> None:
    async def main() -> None:
        link = _Link()
        assert all(await asyncio.gather(*[link.recent.known() for _ in range(9)]))
        assert await link.recent.known()
        assert link.looks == 1
        await asyncio.sleep(2)
        assert await link.recent.known()
        assert link.looks == 2

    _run(main())


def test_without_a_look_nothing_is_known() -> None:
    async def main() -> None:
        link = _Link()
        link.is_there = False
        assert not await link.recent.known()
        link.is_there, link.knows_users = True, False
        assert not await link.recent.known()
        assert link.looks == 1
        link.knows_users = True
        assert await link.recent.known()

    _run(main())
