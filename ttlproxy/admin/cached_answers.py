"""An answer that is asked for anew from time to time, while somebody wants to know it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from redis.exceptions import NoPermissionError

from ttlproxy.errors import Unanswered
from ttlproxy.net.tasks import report

Answer: TypeAlias = Mapping[str, Any]
"""As JSON has it; where Redis gave none, why not, as `error`."""


class Lately:
    """The last answer of `ask`, at most `every_s` old while it is looked at again and again.

    Nobody waits for it: who looks gets what there is, and has it asked for anew.
    """

    def __init__(self, every_s: float, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._every_s = every_s
        self._ask = ask
        self._asked_s = -every_s
        self._asking: asyncio.Task[None] | None = None
        self._is_refused = False
        self._answer: Answer = {}

    @property
    def answer(self) -> Answer:
        """Nothing at all, before there is one."""
        is_old = time.monotonic() - self._asked_s >= self._every_s
        if is_old and not self._is_refused and self._asking is None:
            self._asked_s = time.monotonic()
            self._asking = asyncio.create_task(self._renew(), name="admin: lately")
            self._asking.add_done_callback(report)
        return self._answer

    async def _renew(self) -> None:
        try:
            self._answer = await self._ask()
        except Unanswered as trouble:
            # Redis writes down each refusal in its ACL LOG, so one is enough.
            self._is_refused = isinstance(trouble.__cause__, NoPermissionError)
            self._answer = {"error": str(trouble)}
        finally:
            self._asking = None
