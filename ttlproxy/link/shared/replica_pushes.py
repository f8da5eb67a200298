"""A connection on which a replica of a Cluster's master repeats what its master has announced.

A replica that is promoted goes on pushing on the same connection. So the names that it has pushed
since its master was last heard tell, at its promotion, what the master cannot tell any more.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ttlproxy.core.keys import Keys
from ttlproxy.core.topology import cluster_nodes
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.link.connecting.pushes import AskingSocket

REPLICATION: Final = (b"INFO", b"replication")
# Names that are kept, some 120 bytes each.
_MOST: Final = 200_000
# Nobody waits for what a replica pushes, so it is read together: each time costs 10 us.
_EVERY_S: Final = 0.05


class Checkpoint(NamedTuple):
    """A master was heard without a gap up to this point.

    number: of the part of the undo log that begins there; history, offset: of its replication
    """

    number: int
    history: str
    offset: int


class ReplicaPushes(AskingSocket):
    """
    since: the number of the checkpoint from which on what the master has given up must be known
      for this replica; None while there is none
    is_ready: whether it has what the master had at that checkpoint
    is_given: it belongs to a Inherited now; keys: the names of internal keys
    """

    def __init__(self, keys: Keys, name: str, master: str) -> None:
        """`name`: the replica's id; `master`: that of its master."""
        super().__init__(b"ttlproxy:replica", self._ended)
        self.since: int | None = None
        self.is_ready = False
        self.is_given = False
        self.wanted = asyncio.Event()
        """Set when there is a new checkpoint, and at the end of the connection."""
        self.keys = keys
        self._expected = name, master
        self._names: dict[int, list[bytes]] = {}  # by the number of the last checkpoint's part
        self._size = 0

    def part_begins(self, number: int) -> None:
        """The master is about to be asked for a checkpoint of this number."""
        self._names.setdefault(number, [])
        if self.since is None:
            self.since = number

    def fails(self, number: int) -> None:
        """There is no checkpoint of this number."""
        if self.since == number:
            self.start_anew()

    def heard(self, number: int) -> None:
        """There is: the master has announced all that was here before its number was known."""
        for each in [each for each in self._names if each < number]:
            self._size -= len(self._names.pop(each))
        self.wanted.set()

    def update(self, replication: Mapping[str, str], checkpoints: Sequence[Checkpoint]) -> None:
        """The replica says how far it is; `checkpoints` ascend."""
        is_replica = replication.get("role") == "slave"
        if self.since is None or not is_replica or replication.get("master_link_status") != "up":
            return
        history = replication.get("master_replid")
        offset = int(replication.get("slave_repl_offset", -1))
        for each in checkpoints:
            if each.number >= self.since and each.history == history and each.offset <= offset:
                self.since, self.is_ready = each.number, True

    def start_anew(self) -> None:
        """It has to pass another checkpoint."""
        self.since, self.is_ready, self._names, self._size = None, False, {}, 0

    def announced(self) -> Iterator[tuple[bytes, int]]:
        """(key, first deadline in ms) of what it has announced since the last checkpoint."""
        for names in self._names.values():
            for said in map(self.keys.announced, names):
                if said is not None:
                    _, deadline_ms, key = said
                    yield key, deadline_ms

    def receive(self) -> None:
        super().receive()
        if self._socket is not None and not self._owed:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_EVERY_S, self._listen)

    def close(self) -> None:
        self.is_ready = False
        super().close()

    def _listen(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self.receive)

    async def send(self, data: bytes) -> None:
        await super().send(data)
        self._listen()  # for the reply

    def _ended(self) -> None:
        self.wanted.set()

    def _pushed(self, message: Sequence[Any]) -> None:
        if message[0] != b"invalidate":
            return
        if message[1] is None:  # it takes all data of a master anew, or all was flushed
            self.start_anew()
        elif self._names:
            self._names[max(self._names)].extend(message[1])
            self._size += len(message[1])
            if self._size > _MOST:
                self.start_anew()

    def _begin(self, connection: socket.socket) -> None:
        (told,) = self._ask(connection, (b"CLUSTER", b"NODES"))
        nodes = cluster_nodes(told.decode(errors="replace"))
        if self._expected not in [(node.id, node.master) for node in nodes if node.myself]:
            raise UpstreamError("another node is at its address, or it has another master")
        prefix = self.keys.announcement_prefix
        self._ask(connection, (b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix))


def replication(reply: object) -> Mapping[str, str]:
    """The fields of a reply to REPLICATION; none of an error."""
    return fields(reply) if isinstance(reply, bytes) else {}
