"""The connection for look-ups: it asks about keys, and hears of those that have changed since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ttlproxy.core.keys import Keys
from ttlproxy.link.connecting.asking_socket import AskingSocket
from ttlproxy.link.connecting.pipeline import Words


class LookupConnection(AskingSocket):
    """Redis tracks what is read here right after CLIENT CACHING YES."""

    def __init__(
        self,
        keys: Keys,
        on_change: Callable[[bytes], None],
        on_flush: Callable[[], None],
        on_loss: Callable[[], None],
    ) -> None:
        """`on_change(key)`: what was found out about a key may not be true any more; `on_flush()`:
        the same for all keys; `on_loss()`: also that Redis tracks nothing any more."""
        super().__init__(b"ttlproxy:lookups", on_loss)
        self._keys = keys
        self._on_change = on_change
        self._on_flush = on_flush

    def _pushed(self, message: Sequence[Any]) -> None:
        if message[0] != b"invalidate":
            return
        if message[1] is None:
            self._on_flush()
            return
        for name in message[1]:
            if (key := self._keys.of_news(name)) is not None:
                self._on_change(key)

    def _opening(self) -> list[Words]:
        tracking = (b"CLIENT", b"TRACKING", b"ON", b"OPTIN")
        return [*super()._opening(), tracking]
