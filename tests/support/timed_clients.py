"""Clients that go on through failovers: one writes elements with deadlines, another one reads them.

The name of each element is its deadline in ms of the machine's clock, which is also the servers'.
So whoever sees an element can tell whether it is there too late.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from itertools import count
from types import TracebackType

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from tests.support.processes import wait_until
from tests.support.redis_client import Client
from ttlproxy.core.keys import Keys

NAME = "app"
_KEYS = 7
# From 50 ms to about 3 s.
_LIFE_MS = (50, 400, 900, 2900)


def now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000


class TimedClients:
    """A writer and a reader, each in a thread; `with TimedClients(port) as clients: ...`.

    written: how many writes were acknowledged; late: elements that were seen after their deadline
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self.keys = [b"timed:%d" % number for number in range(_KEYS)]
        self.written = 0
        self.late: list[str] = []
        self.faults: list[str] = []

    def __enter__(self) -> TimedClients:
        for thread in self._threads:
            thread.start()
        self.until_served()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def until_served(self) -> None:
        """Returns when writes that begin from now on are acknowledged."""
        enough = self.written + 10
        wait_until(lambda: self.written >= enough, "writes that are acknowledged", 60)

    def _write(self) -> None:
        numbers = count()
        while not self._stop.is_set():
            with suppress(RedisError), closing(self._connected()) as client:
                while not self._stop.is_set():
                    number = next(numbers)
                    deadline_ms = now_ms() + _LIFE_MS[number % len(_LIFE_MS)]
                    words = ("PXAT", deadline_ms, "FIELDS", 1, f"{deadline_ms}", "v")
                    key = self.keys[number % _KEYS]
                    replies = client.ask_many(
                        [("HSETEX", key, *words), ("HSET", "plain", f"f{number % 9}", number)]
                    )
                    if any(isinstance(reply, Exception) for reply in replies):
                        self._note(replies)
                    else:
                        self.written += 1

    def _read(self) -> None:
        numbers = count()
        while not self._stop.is_set():
            with suppress(RedisError), closing(self._connected()) as client:
                while not self._stop.is_set():
                    key, begun_ms = self.keys[next(numbers) % _KEYS], now_ms()
                    seen = client.ask("HKEYS", key)
                    if isinstance(seen, list):
                        late = [name for name in map(int, seen) if name < begun_ms]
                        self.late += [f"{key!r}: {begun_ms - name} ms late" for name in late]

    def _note(self, replies: list[object]) -> None:
        """An old master that has become a replica refuses writes until its sessions end."""
        texts = [str(reply) for reply in replies if isinstance(reply, RedisConnectionError)]
        if texts:
            raise RedisConnectionError(texts[0])
        for reply in replies:
            text = str(reply)
            if isinstance(reply, Exception) and not text.startswith(_PASSING):
                self.faults.append(text)

    def _connected(self) -> Client:
        client = Client(self._port)
        try:
            reply = client.ask("CLIENT", "SETNAME", NAME)
            if isinstance(reply, Exception):
                raise RedisConnectionError(str(reply))
        except BaseException:
            client.close()
            raise
        return client


_PASSING = (
    "You can't write against a read only replica",
    "ttlproxy has no connection",
    "UNBLOCKED",
    "No matching script",
)


def without_deadline(port: int, keys: list[bytes]) -> list[str]:
    """Elements of these hashes at a server that have no deadline there, or the reverse."""
    found = []
    with closing(Client(port)) as direct:
        for key in keys:
            replies = direct.ask_many(
                [("HKEYS", key), ("ZRANGE", Keys().index(key), 0, -1)], transaction=True
            )
            elements, indexed = map(set, replies)
            found += [f"{key!r}: {each!r} has no deadline" for each in elements - indexed]
            found += [f"{key!r}: {each!r} has no element" for each in indexed - elements]
    return found
