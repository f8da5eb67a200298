"""The number of proxies that are attached to a server, as far as a heartbeat has seen: no I/O.

Many proxies look less often each, and leave to one of them what one can do for all.
"""

from __future__ import annotations

from typing import Final

# Up to so many proxies each has a heartbeat a second.
FEW: Final = 10
# More have so many a second together, until each has one in _LONGEST seconds.
_TOGETHER: Final = 7
_LONGEST: Final = 15


class Fleet:
    """attached: how many proxies there are, this one counted; at least as many: all clients that
    track keys count. is_alone: whether this is certainly the only one; before the first heartbeat
    nothing is certain
    """

    def __init__(self) -> None:
        self.attached = 1
        self.is_alone = False

    @property
    def are_few(self) -> bool:
        return self.attached <= FEW

    @property
    def stretch(self) -> float:
        """The factor by which a proxy waits longer between two heartbeats than one of a few."""
        return 1.0 if self.are_few else min(self.attached / _TOGETHER, _LONGEST)
