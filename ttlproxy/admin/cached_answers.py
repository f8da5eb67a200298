"""Caches an answer, and renews it from time to time while somebody reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from redis.exceptions import NoPermissionError

from ttlproxy.errors import Unanswered
from ttlproxy.net.tasks import report

Answer: TypeAlias = Mapping[str, Any]
"""A JSON object; if Redis gave no answer, `error` says why."""


class CachedAnswer:
    """The last answer of `ask`, which is called at most once in `every_s`, and only when read.

    A reader never waits: it gets the last answer, and an old one is renewed in the background.
    """

    def __init__(self, every_s: float, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._every_s = every_s
        self._ask = ask
        self._asked_s = -every_s
        self._asking: asyncio.Task[None] | None = None
        self._is_refused = False
        self._answer: Answer = {}
        self._answered_s: float | None = None

    @property
    def answer(self) -> Answer:
        """The last answer; empty before the first."""
        is_old = time.monotonic() - self._asked_s >= self._every_s
        if is_old and not self._is_refused and self._asking is None:
            self._asked_s = time.monotonic()
            self._asking = asyncio.create_task(self._renew(), name="admin: refresh")
            self._asking.add_done_callback(report)
        return self._answer

    @property
    def age_s(self) -> int | None:
        """The age of the last answer, in whole seconds; None before the first."""
        answered_s = self._answered_s
        return None if answered_s is None else round(time.monotonic() - answered_s)

    async def _renew(self) -> None:
        try:
            self._answer = await self._ask()
        except Unanswered as trouble:
            # Redis logs each refusal in its ACL LOG, so one is enough.
            self._is_refused = isinstance(trouble.__cause__, NoPermissionError)
            self._answer = {"error": str(trouble)}
        finally:
            self._answered_s = time.monotonic()
            self._asking = None
