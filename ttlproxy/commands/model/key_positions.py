"""The positions of keys in a request, as key specifications like those of Redis 7.

Knows by name only the commands whose keys some servers cannot describe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Args = Sequence[bytes]

READ: Final = "RO"
CHANGED: Final = "RW"
FILLED: Final = "RW insert"
REMOVED: Final = "RM"
REPLACED: Final = "OW"
WRITTEN: Final = frozenset({CHANGED, FILLED, REMOVED, REPLACED})


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Some of a request's keys.

    access: READ, CHANGED, FILLED (changed by new elements), REMOVED or REPLACED
    index: the word to begin at; with `keyword` the first word that may be it: begin behind it
    last: the last key, counted from the beginning; if negative, from the end of the request
    step: from one key to the next
    limit: if not 0, the keys are the first of so many equal parts of the words that are left
    count_at: if not negative, this word, counted from the beginning, has the number of keys, which
      begin `first` words after the beginning
    """

    access: str
    index: int = 1
    last: int = 0
    step: int = 1
    keyword: bytes = b""
    limit: int = 0
    count_at: int = -1
    first: int = 0

    def words(self, args: Args) -> list[bytes]:
        """The keys; if the keyword stands there twice, those behind both."""
        if not self.keyword:
            return self._from(self.index, args)
        start = max(self.index if self.index > 0 else 1, 1)
        return [
            key
            for at in range(start, len(args))
            if args[at].upper() == self.keyword
            for key in self._from(at + 1, args)
        ]

    def _from(self, begin: int, args: Args) -> list[bytes]:
        if self.count_at >= 0:
            stop = begin + self.first + self.step * _count(args, begin + self.count_at)
        elif self.last >= 0:
            stop = begin + self.last + 1
        elif self.limit > 1:
            stop = begin + (len(args) - begin) // self.limit + self.last + 1
        else:
            stop = len(args) + self.last + 1
        return list(args[begin + self.first : stop : self.step])


Positions: TypeAlias = tuple[KeySpec, ...] | None
"""All keys of a command; None if they are not known, so that any word may be one."""

FIRST: Final = KeySpec(CHANGED)
FIRST_READ: Final = KeySpec(READ)


def _count(args: Args, at: int) -> int:
    """A number of keys; 0 if Redis will refuse it."""
    word = args[at] if at < len(args) else b""
    return int(word) if word.isdigit() and len(word) < 10 else 0


def _counted(access: str, index: int) -> KeySpec:
    """`numkeys key ...`."""
    return KeySpec(access, index, count_at=0, first=1)


def _store(keyword: bytes, index: int) -> KeySpec:
    return KeySpec(REPLACED, index, keyword=keyword)


_SORT = (KeySpec(READ), _store(b"STORE", 2))
_SCRIPT = (_counted(CHANGED, 2),)
_COMBINE = (_counted(READ, 1),)
_COMBINE_STORE = (KeySpec(REPLACED), _counted(READ, 2))
_FROM_TO = (KeySpec(CHANGED), KeySpec(FILLED, 2))

# For BLMOVE and BRPOPLPUSH: which key gets elements. Of the others Redis 6.2, and 7.0 for some,
# says only "movablekeys". The keys that SORT's patterns name are not known.
KNOWN: Final[dict[str, tuple[KeySpec, ...]]] = {
    "BLMOVE": _FROM_TO,
    "BRPOPLPUSH": _FROM_TO,
    "SORT": _SORT,
    "SORT_RO": (KeySpec(READ),),
    "GEORADIUS": (KeySpec(READ), _store(b"STORE", 6), _store(b"STOREDIST", 6)),
    "GEORADIUSBYMEMBER": (KeySpec(READ), _store(b"STORE", 5), _store(b"STOREDIST", 5)),
    "MIGRATE": (KeySpec(CHANGED, 3), KeySpec(CHANGED, 6, last=-1, keyword=b"KEYS")),
    "XREAD": (KeySpec(READ, 1, last=-1, keyword=b"STREAMS", limit=2),),
    "XREADGROUP": (KeySpec(READ, 4, last=-1, keyword=b"STREAMS", limit=2),),
    "EVAL": _SCRIPT,
    "EVALSHA": _SCRIPT,
    "ZUNION": _COMBINE,
    "ZINTER": _COMBINE,
    "ZDIFF": _COMBINE,
    "ZUNIONSTORE": _COMBINE_STORE,
    "ZINTERSTORE": _COMBINE_STORE,
    "ZDIFFSTORE": _COMBINE_STORE,
    "STRALGO": (KeySpec(READ, 2, last=1, keyword=b"KEYS"),),
    "MEMORY": (KeySpec(READ, 1, keyword=b"USAGE"),),
}
