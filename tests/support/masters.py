"""Three masters of a Cluster, and a proxy in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.support.cluster import Cluster, Node
from tests.support.processes import free_range
from tests.support.raw_client import Connection
from tests.support.servers import Binary, Proxy
from ttlproxy.commands import Router, natives
from ttlproxy.core.keys import SLOTS, Keys, slot

# In front of all keys that are to be in one slot.
TAG: Final = b"{tag}"
_KEYS: Final = Keys(clustered=True)
_RULES: Final = _KEYS.home(_KEYS.rules)


def master_of(key: bytes) -> int:
    """Which of three masters has the key, as long as no slot has moved."""
    return slot(key) * 3 // SLOTS


# A key of each of them: of the second, the third and the first.
KEYS: Final = (b"key:1", b"key:3", b"key:0")
assert [*map(master_of, KEYS)] == [1, 2, 0]


def view_of_nodes(ports: int = 4) -> tuple[str, ...]:
    """Flags for so many ports, of which each but the first is about one master."""
    return "--listen", f"127.0.0.1:{free_range(ports)}", "--cluster-view", "nodes"


class Masters(Cluster):
    """proxy: in front of the three nodes; it ends with them"""

    def __init__(self, binary: Binary, config: Sequence[str] = ()) -> None:
        super().__init__(binary, nodes=3, masters=3, config=config)
        self.proxy = Proxy(self.nodes[0].url, forked=True).start()
        self._owned.callback(self.proxy.remove)
        with Connection(self.proxy.port) as app:
            app.ask("PING")
        self._router = Router(natives(self.nodes[0].ask("COMMAND")))

    def owner(self, key: bytes) -> Node:
        """The master that has the key, as long as no slot has moved."""
        return self.nodes[master_of(key)]

    @property
    def have_rules(self) -> bool:
        """Whether there is a rule of ONEXPIRE."""
        return any(node.ask("EXISTS", _RULES) == 1 for node in self.nodes)

    def tagged(self, words: Sequence[bytes]) -> list[bytes]:
        """The words of a request, with TAG in front of each key."""
        if words[0].upper() == b"ONEXPIRE":
            return _tagged_rule(words)
        tagged, after = list(words), 2 if words[0] == b"TTLPROXY" else 1
        for key in self._router.find(words[0]).certain_keys(words):
            tagged[tagged.index(key, after)] = TAG + key
        return tagged


def _tagged_rule(words: Sequence[bytes]) -> list[bytes]:
    """The words of ONEXPIRE with TAG in front of the pattern, and of destinations that are keys."""
    tagged = [words[0], *(TAG + pattern for pattern in words[1:2]), *words[2:]]
    if len(words) > 3 and words[2].upper() in (b"LPUSH", b"RPUSH", b"XADD"):
        places = [3, *(at for at in range(4, len(words)) if words[at - 1].upper() == b"ELSE")]
        for at in places:
            tagged[at] = TAG + words[at]
    return tagged
