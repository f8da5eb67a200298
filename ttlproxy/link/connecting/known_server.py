"""The server that the link speaks to: whether it is still the same, in the same role."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ttlproxy.errors import Demoted, ServerChanged
from ttlproxy.link.connecting.server_identity import Identity

log = logging.getLogger(__name__)


class KnownServer:
    """
    identity: the server that the link last spoke to; None before the first
    term: how often that or its role has changed, so that a client can tell whether its server is
      still this one
    changes: how often a life began with another server than the last one, or in another role
    is_demoted: it was a master when the link met it, and is a replica now
    """

    def __init__(self, shown: str, on_change: Callable[[], None]) -> None:
        """`shown`: its address, without a password; `on_change()` is called when sessions must end
        because their server is not served any more."""
        self.identity: Identity | None = None
        self.term = 0
        self.changes = 0
        self.is_demoted = False
        self._shown = shown
        self._on_change = on_change

    @property
    def attached(self) -> int:
        """How many proxies it had, as far as it has told: it counts all clients that track keys."""
        return self.identity.attached if self.identity is not None else 0

    def is_new(self, found: Identity) -> bool:
        """Whether what is known of the last server does not hold for this one."""
        known = self.identity
        return known is None or not known.run_id or known.run_id != found.run_id

    def met(self, found: Identity) -> None:
        """A life begins with this server."""
        known = self.identity
        was_master = known is not None and known.is_master
        if known is not None and (self.is_new(found) or (was_master and not found.is_master)):
            self.changes += 1
            self.change()
        self.is_demoted = (self.is_demoted or was_master) and not found.is_master
        self.identity = found

    def seen(self, found: Identity) -> bool:
        """A heartbeat was answered; returns whether the server has just become a master.

        Raises ServerChanged if it is another server, Demoted if it was a master and is a replica
        now.
        """
        known = self.identity
        assert known is not None
        if known.run_id != found.run_id:
            raise ServerChanged("it is another server, or was restarted")
        if known.is_master and not found.is_master:
            raise Demoted("it is no longer a master")
        self.identity = found
        is_promoted = found.is_master and not known.is_master
        if is_promoted:
            log.info("Redis at %s is a master now", self._shown)
            self.is_demoted = False
        return is_promoted

    @property
    def is_master(self) -> bool:
        """Whether it was one when it last told."""
        return self.identity is not None and self.identity.is_master

    def change(self) -> None:
        """Sessions end."""
        self.term += 1
        self._on_change()
