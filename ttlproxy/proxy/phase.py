"""The phase of a client, from its connection to its end. The client alone changes it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Phase(IntEnum):
    """The phase of a client. It only goes forward from FINISHING on.

    CONNECTING: it has no connection to Redis yet; later bytes are kept
    OPEN: requests go to Redis as they come
    HOLDING: a request waits for a reap, the link or a reply; later bytes are kept
    WAITING: a request waits for an item; later bytes are kept
    FINISHING: no more requests go to Redis, which may still owe replies
    CLOSED: nothing more comes from Redis
    """

    CONNECTING = 0
    OPEN = 1
    HOLDING = 2
    WAITING = 3
    FINISHING = 4
    CLOSED = 5


CONNECTING: Final = Phase.CONNECTING
OPEN: Final = Phase.OPEN
HOLDING: Final = Phase.HOLDING
WAITING: Final = Phase.WAITING
FINISHING: Final = Phase.FINISHING
CLOSED: Final = Phase.CLOSED
# Later bytes are kept.
KEEPING: Final = (CONNECTING, HOLDING, WAITING)
# The reasons why a client cannot end yet, in words for the log.
UNFINISHED: Final = {
    CONNECTING: "not connected yet",
    WAITING: "waiting",
    FINISHING: "owed replies",
    CLOSED: "not yet closed by the client",
}
# The words for the table of clients, where no request tells more.
SHOWN: Final = {
    CONNECTING: "connecting to Redis",
    OPEN: "open",
    HOLDING: "held",
    WAITING: "waiting for an item",
    FINISHING: "ending",
    CLOSED: "closing",
}
