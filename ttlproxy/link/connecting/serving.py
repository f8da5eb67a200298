"""Whether clients are served now: the link decides, others read it or wait here."""

from __future__ import annotations

import asyncio


class Serving:
    """now: whether scripts are loaded, announcements arrive and the registry is whole; a plain flag
    for the hot path
    ready: the same, as an event to wait for
    tried: set once the first attempt to serve is over
    in_this_life: whether clients were served at all in the present life of the link
    """

    __slots__ = ("in_this_life", "now", "ready", "tried")

    def __init__(self) -> None:
        self.now = False
        self.ready = asyncio.Event()
        self.tried = asyncio.Event()
        self.in_this_life = False

    def begin_life(self) -> None:
        """Begins a life of the link, which has ended the last one with `stop`."""
        self.in_this_life = False

    def start(self) -> None:
        self.now = self.in_this_life = True
        self.tried.set()
        self.ready.set()

    def stop(self) -> None:
        self.now = False
        self.ready.clear()
