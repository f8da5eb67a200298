"""Clients that go on through failovers: one writes elements with deadlines, another one reads them.

The name of each element begins with its deadline in ms of the machine's clock, which is also the
servers'. So whoever sees an element can tell whether it is there too late. After each element the
writer appends the number of the write to a plain list, the log, in the same session: Redis
replicates both in this order, so the log of the new master tells which writes Redis itself has lost
(`tests.support.rewinds`).
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from itertools import count

from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.rewinds import Outcome, Write, judged
from ttlproxy.core.keys import Keys

NAME = "app"
_KEYS = 7
# From 50 ms to about 3 s.
_LIFE_MS = (50, 400, 900, 2900)
# One write of so many sets a deadline that does not come while a failover is examined.
_LASTING_EACH = 5
_LASTING_MS = 600_000
_LOG = b"written"
# Between two requests of a client. Without it, one failover would take ten seconds of CPU time,
# nearly all of it for requests while nothing happens.
_PAUSE_S = 0.002


def now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000


class TimedClients:
    """A writer and a reader, each in a thread; `with TimedClients(port) as clients: ...`.

    keys: whose elements are soon due; lasting: whose elements are not
    acknowledged: the writes; late: elements that were seen after their deadline
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self.keys = [b"timed:%d" % number for number in range(_KEYS)]
        self.lasting = [b"lasting:%d" % number for number in range(_KEYS)]
        self.acknowledged: list[Write] = []
        self.late: list[str] = []
        self.faults: list[str] = []

    def __enter__(self) -> TimedClients:
        for thread in self._threads:
            thread.start()
        self.until_served()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def until_served(self) -> None:
        """Returns when writes that begin from now on are acknowledged."""
        enough = len(self.acknowledged) + 10
        wait_until(lambda: len(self.acknowledged) >= enough, "writes that are acknowledged", 60)

    def examined(self, port: int) -> Outcome:
        """What a server has of all these writes, once no client writes any more."""
        elements: dict[bytes, set[bytes]] = {}
        deadlines: dict[bytes, dict[bytes, int]] = {}
        with Client(port) as direct:
            arrived = {int(number) for number in direct.ask("LRANGE", _LOG, 0, -1)}
            for key in (*self.keys, *self.lasting):
                names, index = direct.ask_many(
                    [("HKEYS", key), ("ZRANGE", Keys().index(key), 0, -1, "WITHSCORES")],
                    transaction=True,
                )
                elements[key] = set(names)
                deadlines[key] = dict(zip(index[::2], map(int, index[1::2]), strict=True))
            at_ms = direct.now_ms()
        outcome = judged(self.acknowledged, arrived, elements, deadlines, at_ms)
        return outcome._replace(faults=[*self.late, *self.faults, *outcome.faults])

    def until_gone(self, port: int) -> None:
        """Removes what lasts, through the proxy; returns when all that is due has gone from the
        server as well."""
        with self._connected() as client:
            client.ask("DEL", _LOG, *self.lasting)
        with Client(port) as direct:
            wait_until(lambda: not direct.ask("EXISTS", *self.keys), "all that is due gone")

    def _write(self) -> None:
        numbers = count()
        for session in count():
            if self._stop.is_set():
                return
            with suppress(OSError, EOFError), self._connected() as client:
                while not self._stop.wait(_PAUSE_S):
                    self._write_one(client, session, next(numbers))

    def _write_one(self, client: Connection, session: int, number: int) -> None:
        is_lasting = number % _LASTING_EACH == 0
        keys, life_ms = self.keys, _LIFE_MS[number % len(_LIFE_MS)]
        if is_lasting:
            keys, life_ms = self.lasting, _LASTING_MS
        key, deadline_ms = keys[number % _KEYS], now_ms() + life_ms
        element = b"%d:%d" % (deadline_ms, number)
        words = (*BOUNDED, "PXAT", deadline_ms, "FIELDS", 1, element, "v")
        client.send(command("HSETEX", key, *words) + command("RPUSH", _LOG, number))
        replies = client.read_many(2)
        errors = [reply for reply in replies if reply.startswith(b"-")]
        if not errors:
            at_s = time.monotonic()
            self.acknowledged.append(Write(session, number, key, element, deadline_ms, at_s))
        self.faults += [error.decode() for error in errors if not error.startswith(_PASSING)]

    def _read(self) -> None:
        numbers = count()
        while not self._stop.is_set():
            with suppress(OSError, EOFError), self._connected() as client:
                while not self._stop.wait(_PAUSE_S):
                    key, begun_ms = self.keys[next(numbers) % _KEYS], now_ms()
                    due_ms = [int(each) for each in _DEADLINE.findall(client.ask("HKEYS", key))]
                    late = [each for each in due_ms if each < begun_ms]
                    self.late += [f"{key!r}: {begun_ms - each} ms late" for each in late]

    def _connected(self) -> Connection:
        """Not redis-py, which connects again in silence: here one connection is one session."""
        client = Connection(self._port)
        try:
            if client.ask("CLIENT", "SETNAME", NAME).startswith(b"-"):
                raise EOFError("the proxy has no server now")
        except BaseException:
            client.close()
            raise
        return client


# How the name of an element begins: its deadline.
_DEADLINE = re.compile(rb"\n(\d+):")
# An old master that has become a replica refuses writes until its sessions end.
_PASSING = (
    b"-READONLY",
    b"-ERR ttlproxy has no connection",
    b"-UNBLOCKED",
    b"-NOSCRIPT",
)
