"""What the scripts in a transaction need, told to a server where no script can say so (before Redis
7.0): by commands that do nothing, and which the client does not see in EXEC's reply.

Redis looks at the flags of the queued commands when EXEC comes. It counts a script as no write.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from ttlproxy.session.told import QUEUED, Change
from ttlproxy.wire.reply_ends import PUSH, ReplyEnds

_ARRAY: Final = b"*"


class Declared:
    """The commands of ours in one transaction.

    denies_oom: whether one of them has the flag `denyoom`; all have `write`
    """

    __slots__ = ("_ours", "_queued", "denies_oom")

    def __init__(self) -> None:
        self.denies_oom = False
        self._queued = 0  # commands that Redis has queued since the first of ours
        self._ours = set[int]()  # those of them that are ours

    def ours(self, line: bytes | None) -> bool:
        """The reply to one of ours begins so. If Redis has refused MULTI, it is not queued."""
        if _is_queued(line):
            self._ours.add(self._queued)
            self._queued += 1
        return False

    def theirs(self, line: bytes | None) -> bool:
        """The reply to a command of the client behind the first of ours begins so."""
        self._queued += _is_queued(line)
        return True

    def carried_out(self, line: bytes | None) -> bool | Change:
        """The reply to EXEC begins so."""
        if not self._ours or line is None or not line.startswith(_ARRAY):
            return True
        before = int(line[1:]) - self._queued
        if before < 0:
            return True  # null: a watched key has changed
        return Without({before + number for number in self._ours})


def _is_queued(line: bytes | None) -> bool:
    return line is not None and line.startswith(QUEUED)


class Without:
    """Takes elements out of an array, however it is cut; the first piece has its whole head."""

    __slots__ = ("_dropped", "_ends", "_has_begun", "_is_push", "_number")

    def __init__(self, dropped: Set[int]) -> None:
        self._dropped = dropped  # their numbers
        self._ends: ReplyEnds | None = None
        self._number = 0  # of the next element, or of the one that has begun
        self._has_begun = False
        self._is_push = False

    def __call__(self, piece: bytes) -> bytes:
        out = []
        if self._ends is None:
            self._ends = ReplyEnds()
            head, _, piece = piece.partition(b"\r\n")
            out.append(b"*%d\r\n" % (int(head[1:]) - len(self._dropped)))
        begin = 0
        ends = self._ends.take(piece)
        for end in ends:
            out.append(self._shown(piece[begin:end]))
            self._has_begun = False
            self._number += not self._is_push
            begin = end
        if begin < len(piece):
            out.append(self._shown(piece[begin:]))
        return b"".join(out)

    def _shown(self, part: bytes) -> bytes:
        """A part of one element, or of a push between two, as the client gets it."""
        if not self._has_begun:
            self._has_begun, self._is_push = True, part[0] == PUSH
        return b"" if self._number in self._dropped and not self._is_push else part
