"""Tells a service manager such as systemd the state: ready, stopping, still alive (sd_notify(3)).

Knows the protocol and its variables; does not know what the process does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

from ttlproxy.net.tasks import cancel

log = logging.getLogger(__name__)

# Seconds between two attempts while the manager is busy, and between two looks for messages.
_AGAIN_S: Final = 0.1
_IDLE_S: Final = 1.0


class ServiceManager:
    """The program that has started this process and wants to know its state; often there is none.

    path: of the manager's socket, empty if there is none, with @ first if it is an abstract one
    every_s: seconds between two signs of life, 0 if none is wanted
    """

    def __init__(self, path: str = "", every_s: float = 0.0) -> None:
        self._path, self._every_s = path, every_s
        self._owed: list[bytes] = []  # messages for which its queue had no room yet

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Self:
        """Reads the variables. They are removed, because no child process may use them."""
        path = environment.pop("NOTIFY_SOCKET", "")
        limit_us = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", "")
        ours = process in ("", str(os.getpid()))
        return cls(path, int(limit_us) / 2e6 if ours and limit_us.isdecimal() else 0.0)

    def notify(self, *lines: str) -> None:
        """Sends assignments, such as READY=1; later, if the manager is busy. A failure is
        logged."""
        if self._path:
            self._owed.append("\n".join(lines).encode())
            self._send()

    async def run(self, stop: asyncio.Event) -> None:
        """Sends signs of life until cancelled, and a message when `stop` is set."""
        living = asyncio.create_task(self._live(), name="signs of life")
        try:
            await stop.wait()
            self.notify("STOPPING=1")
            await living
        finally:
            await cancel(living)

    def _send(self) -> None:
        """Sends the messages that wait, as far as there is room for them."""
        address = f"\0{self._path[1:]}" if self._path.startswith("@") else self._path
        while self._owed:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_manager:
                    to_manager.setblocking(False)
                    to_manager.sendto(self._owed[0], address)
            except BlockingIOError:
                return
            except OSError as trouble:
                said = self._owed[0].partition(b"\n")[0].decode()
                log.warning("the service manager cannot be told %s: %s", said, trouble)
            del self._owed[0]

    async def _live(self) -> None:
        while self._path:
            if self._every_s and not self._owed:
                self.notify("WATCHDOG=1")
            self._send()
            await asyncio.sleep(_AGAIN_S if self._owed else self._every_s or _IDLE_S)
        await asyncio.Event().wait()
