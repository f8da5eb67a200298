"""What a service manager such as systemd is told: ready, stopping, still alive (sd_notify(3)).

Knows the protocol and its variables; does not know what the process does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Self

from ttlproxy.net.tasks import cancel

log = logging.getLogger(__name__)


class ServiceManager:
    """Who has started this process and wants to know how it is; often nobody.

    path: of the manager's socket, empty if there is none, with @ first if it is an abstract one;
    every_s: seconds between two signs of life, 0 if none is wanted
    """

    def __init__(self, path: str = "", every_s: float = 0.0) -> None:
        self._path, self._every_s = path, every_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Self:
        """As the variables say. They are removed, because no child process may use them."""
        path = environment.pop("NOTIFY_SOCKET", "")
        limit_us = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", "")
        ours = process in ("", str(os.getpid()))
        return cls(path, int(limit_us) / 2e6 if ours and limit_us.isdecimal() else 0.0)

    def tell(self, *lines: str) -> None:
        """Sends assignments, such as READY=1. If that fails, the log says so."""
        if not self._path:
            return
        address = f"\0{self._path[1:]}" if self._path.startswith("@") else self._path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_manager:
                to_manager.setblocking(False)
                to_manager.sendto("\n".join(lines).encode(), address)
        except OSError as trouble:
            log.warning("the service manager cannot be told %s: %s", lines[0], trouble)

    async def run(self, stop: asyncio.Event) -> None:
        """Gives signs of life until cancelled, and says when `stop` is set."""
        living = asyncio.create_task(self._live(), name="signs of life")
        try:
            await stop.wait()
            self.tell("STOPPING=1")
            await living
        finally:
            await cancel(living)

    async def _live(self) -> None:
        while self._path and self._every_s:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self._every_s)
        await asyncio.Event().wait()
