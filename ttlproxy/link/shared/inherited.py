"""The knowledge of a promoted replica from the time when it followed its master."""

from __future__ import annotations

from redis.exceptions import RedisError

from ttlproxy.core.keys import slot
from ttlproxy.core.registry import NOTHING_DUE
from ttlproxy.errors import UpstreamError
from ttlproxy.link.shared.replica_pushes import REPLICATION, ReplicaPushes
from ttlproxy.net.tasks import time_limit


class Inherited:
    """It belongs to whoever has it, who takes it or closes it.

    until_ms: only the keys that are taken need attention before
    slots: those of which all this is known; deferring: those that may have deferred
      commands
    epoch: of the replica as a master, when that was first told
    """

    def __init__(
        self,
        entries: dict[bytes, int],
        until_ms: int,
        slots: set[int],
        deferring: set[int],
        epoch: int,
        pushes: ReplicaPushes,
    ) -> None:
        """`entries`: those of the master's managed keys that need attention before `until_ms`, with
        their bounds in ms, at least all that the replica has, but for what `pushes` has announced.
        """
        self.until_ms = until_ms
        self.slots = slots
        self.deferring = deferring
        self.epoch = epoch
        self._entries = entries
        self._pushes = pushes

    async def read(self, timeout_s: float) -> dict[bytes, int] | None:
        """The managed keys of `slots`, each with a lower bound of its first deadline in ms.

        Whoever asks hears already what the replica announces from now on. None if announcements
        may have been missed.
        """
        pushes = self._pushes
        try:
            async with time_limit(timeout_s):
                await pushes.ask([REPLICATION])  # what was pushed before is here with the reply
        except (UpstreamError, RedisError, OSError):
            return None
        finally:
            is_ready = pushes.is_ready
            self.close()
        if not is_ready:
            return None
        for key, deadline_ms in pushes.announced():
            self._entries[key] = min(deadline_ms, self._entries.get(key, NOTHING_DUE))
            if pushes.keys.deferring(key) is not None:
                self.deferring.add(slot(key))
        return self._entries

    def close(self) -> None:
        self._pushes.close()
