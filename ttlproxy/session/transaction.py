"""The effects of requests that Redis queues from MULTI until EXEC."""

from __future__ import annotations

from ttlproxy.core.registry import Place
from ttlproxy.scripts.unconfirmed import UnconfirmedChange
from ttlproxy.session.declared import Declared


class Transaction:
    """Begins with MULTI; EXEC carries it out, DISCARD and RESET drop it.

    It notes what its requests may do; which keys are managed, or due, is asked when EXEC comes.

      managed: places that they may make managed
      modifies: whether one of them may write
      named: keys that they name
      sees_all: whether one of them may see any key
      seen: databases of which they may show any key
      written: keys that they may change without their index
      filled: keys that they may put elements into
      read: keys that they read, if the client caches what it reads
      dated: places where rules of ONWRITE give deadlines afterwards
      unconfirmed: what they may change of what all sessions share
      declared: the commands of ours that say what its scripts need; None without one
      passed: keys to which writes are queued as they came
      tells_all: whether one of them sets a rule, which is to count for all proxies
    """

    __slots__ = (
        "dated",
        "declared",
        "filled",
        "managed",
        "modifies",
        "named",
        "passed",
        "read",
        "seen",
        "sees_all",
        "tells_all",
        "unconfirmed",
        "written",
    )

    def __init__(self) -> None:
        self.managed: set[Place] = set()
        self.modifies = False
        self.named: set[bytes] = set()
        self.read: set[bytes] = set()
        self.sees_all = False
        self.seen: set[int] = set()
        self.written: set[bytes] = set()
        self.filled: set[bytes] = set()
        self.dated: set[Place] = set()
        self.unconfirmed: list[UnconfirmedChange] = []
        self.declared: Declared | None = None
        self.passed: set[bytes] = set()
        self.tells_all = False
