"""SCAN over all masters: one after the other, with one cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ttlproxy.link import Link
from ttlproxy.proxy.routed.all_masters import replies_of
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# A cursor is the node's own times this, plus which node it is of.
_MOST_NODES: Final = 1024


class Scan:
    """The nodes of one client's last SCAN from the beginning."""

    def __init__(self, client: RoutedClient) -> None:
        self._client = client
        self._nodes: list[str] = []

    async def page(self, args: list[bytes], raw: bytes) -> bytes:
        """The reply to a SCAN. A node that is no master any more is passed over."""
        client = self._client
        if not args[1].isdigit():
            return await client.ask(args, raw, None)
        own, number = divmod(int(args[1]), _MOST_NODES)
        if args[1] == b"0" or not self._nodes:
            self._nodes = sorted(await client.lanes.links())
        name = self._nodes[number] if number < len(self._nodes) else ""

        async def node() -> dict[str, Link]:
            link = client.masters.links.get(name)
            return {} if link is None else {name: link}

        words = [args[0], b"%d" % own, *args[2:]]
        reply = (await replies_of(client, node, words, encode(tuple(words)))).get(name)
        if reply is None:
            return self._page(0, number + 1, b"*0\r\n")
        if not reply.startswith(b"*2\r\n$"):
            return reply
        _, _, cursor, keys = reply.split(b"\r\n", 3)
        return self._page(int(cursor), number + (cursor == b"0"), keys)

    def _page(self, cursor: int, number: int, keys: bytes) -> bytes:
        """`cursor` of the node, and which node comes next."""
        is_end = number >= len(self._nodes)
        text = b"0" if is_end else b"%d" % (cursor * _MOST_NODES + number)
        return b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, keys)
