"""The number of proxies that are attached to a server, from the last heartbeat: no I/O.

If there are many, each looks less often, and leaves to one of them what one can do for all.
"""

from __future__ import annotations

from typing import Final

# Up to this number each proxy has a heartbeat a second.
FEW: Final = 10
# More proxies have this many a second together, until each has one in _LONGEST seconds.
_TOGETHER: Final = 7
_LONGEST: Final = 15


class Fleet:
    """The number of proxies, from the last heartbeat.

    attached: an upper bound, this proxy included, because all clients that track keys may count
    is_alone: whether this is certainly the only one; before the first heartbeat nothing is certain
    """

    def __init__(self) -> None:
        self.attached = 1
        self.is_alone = False

    @property
    def are_few(self) -> bool:
        return self.attached <= FEW

    @property
    def stretch(self) -> float:
        """The factor by which the pause between two heartbeats is longer than with few proxies."""
        return 1.0 if self.are_few else min(self.attached / _TOGETHER, _LONGEST)
