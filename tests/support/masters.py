"""Three masters of a Cluster, and a proxy in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.support.cluster import Cluster
from tests.support.raw_client import Connection
from tests.support.servers import Binary, Proxy
from ttlproxy.commands import Router, natives

# In front of all keys that are to be in one slot.
TAG: Final = b"{tag}"


class Masters(Cluster):
    """proxy: in front of the three nodes; it ends with them"""

    def __init__(self, binary: Binary) -> None:
        super().__init__(binary, nodes=3, masters=3)
        self.proxy = Proxy(self.nodes[0].url, forked=True).start()
        self._owned.callback(self.proxy.remove)
        with Connection(self.proxy.port) as app:
            app.ask("PING")
        self._router = Router(natives(self.nodes[0].ask("COMMAND")))

    def tagged(self, words: Sequence[bytes]) -> list[bytes]:
        """The words of a request, with TAG in front of each key."""
        tagged, after = list(words), 2 if words[0] == b"TTLPROXY" else 1
        for key in self._router.find(words[0]).certain_keys(words):
            tagged[tagged.index(key, after)] = TAG + key
        return tagged
