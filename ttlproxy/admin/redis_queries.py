"""The pages' queries to Redis: over a connection of their own, one at a time, read-only.

The connection is opened for the first query and closed when idle. So a page that nobody looks at
costs Redis nothing, and a page that somebody looks at does not delay the link.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import MovedError, NoPermissionError, RedisError, ResponseError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.keys import SLOTS, Keys
from ttlproxy.errors import Unanswered, UpstreamError
from ttlproxy.link import NodeOfSeveral, cause, client, close_all, run, several_masters, valid
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.net.tasks import report
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.script_calls import ScriptCalls

# A page has no use for an answer that takes longer.
_LONGEST_S: Final = 2.0
_NO_ANSWER: Final = f"Redis did not answer within {_LONGEST_S:.0f} s"
_IDLE_S: Final = 60.0
_MOST_DATABASES: Final = 16
_DATABASE: Final = re.compile(rb"^db(\d+):", re.MULTILINE)


class Inquiry:
    """Asks Redis, as the proxy's own user."""

    def __init__(self, settings: Settings, upstream: Upstream, address: Callable[[], str]) -> None:
        """`address()` returns the server that the proxy serves now; empty if it has found none."""
        prefix = settings.prefix.encode()
        self.keys = Keys(prefix)
        # We never mark the scripts as loaded, so each call sends its text: no SCRIPT LOAD.
        self._scripts = Scripts(prefix)
        self._script_calls = ScriptCalls(self._scripts, self.keys, lambda: b"")
        self._upstream = upstream
        self._address = address
        self._connected_to = ""
        self._redis: Redis | None = None
        self._masters: list[NodeOfSeveral] = []  # of a Cluster, if there are several
        self._turn = asyncio.Lock()
        self._in_vain = 0  # how often Redis did not answer
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def is_clustered(self) -> bool:
        """Whether the server is a node of a Cluster. Raises Unanswered."""
        await self.ask([])
        return self.keys.clustered

    async def call(self, db: int, script: str, data: Iterable[bytes], *argv: int | bytes) -> Any:
        """Returns the reply of a script for these data keys. Raises Unanswered."""
        # For a database that does not exist, SELECT fails; no other database answers in its place.
        selected = [(db, (b"SELECT", db))] if db else []
        calls = self._calls(db, script, [data], argv)
        *_, reply = await self.ask(chain(selected, calls))
        return reply

    async def call_each(
        self, script: str, data: Iterable[Iterable[bytes]], *argv: int
    ) -> list[Any]:
        """Returns the replies of a script that is called for each of some data keys. Raises
        Unanswered."""
        return await self.ask(self._calls(0, script, data, argv))

    def _calls(
        self, db: int, script: str, data: Iterable[Iterable[bytes]], argv: Iterable[int | bytes]
    ) -> Iterator[tuple[int, Words]]:
        """Yields the requests; they are made when they are sent, because the server is known
        then."""
        words = tuple(b"%d" % word if isinstance(word, int) else word for word in argv)
        for keys in data:
            yield db, self._script_calls.words(Call(script, tuple(keys), words), b"")

    async def ask(self, requests: Iterable[tuple[int, Words]]) -> list[Any]:
        """Returns the replies to requests of (db, words). Raises Unanswered, also if Redis refuses
        one."""
        try:
            return [valid(reply) for reply in await self.try_to_ask(requests)]
        except ResponseError as refusal:
            raise Unanswered(f"Redis refuses: {refusal}") from refusal

    async def try_to_ask(self, requests: Iterable[tuple[int, Words]]) -> list[Any]:
        """Asks as `ask` does; if Redis refuses a request, its error is the reply."""
        in_vain = self._in_vain
        async with self._turn:
            if self._in_vain != in_vain:  # requests that wait for their turn do not wait again
                raise Unanswered(_NO_ANSWER)
            try:
                async with asyncio.timeout(_LONGEST_S):
                    replies = await run(await self._connection(), requests)
            except TimeoutError:
                self._in_vain += 1
                await self._disconnect()
                raise Unanswered(_NO_ANSWER) from None
            except (RedisError, OSError, UpstreamError, ValueError) as trouble:
                await self._disconnect()
                raise Unanswered(str(cause(trouble))) from trouble
            if any(isinstance(reply, MovedError) for reply in replies):
                await self._disconnect()  # the masters are found anew at the next query
        return list(replies)

    async def databases(self) -> list[int]:
        """Returns the databases that hold keys, at most _MOST_DATABASES. Raises Unanswered."""
        (keyspace,) = await self.ask([(0, (b"INFO", b"keyspace"))])
        return sorted(map(int, _DATABASE.findall(keyspace)))[:_MOST_DATABASES]

    async def close(self) -> None:
        async with self._turn:
            await self._disconnect()

    async def _connection(self) -> Redis:
        address = self._address()
        if address != self._connected_to:  # the proxy has another server now
            await self._disconnect()
            self._connected_to = address
        if self._redis is None:
            server = self._server(address)
            self._redis = client(server, "ttlproxy:admin", _LONGEST_S)
            # A server that does not tell is no node of a Cluster.
            (said,) = await run(self._redis, [(0, (b"INFO", b"cluster"))])
            self.keys.clustered = isinstance(said, bytes) and b"cluster_enabled:1" in said
            self._scripts.suit(Traits(clustered=self.keys.clustered))
            if self.keys.clustered:
                self._masters = await several_masters(server, "ttlproxy:admin", _LONGEST_S)
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(_IDLE_S, self._rest)
        return self._masters[0] if self._masters else self._redis

    async def slots(self) -> list[tuple[bytes, Sequence[int]]]:
        """Returns the slots of each node of a Cluster, and a name in one of them. Raises
        Unanswered."""
        await self.ask([])
        owned = [sorted(each.owned) for each in self._masters] or [list(range(SLOTS))]
        return [(b"{%b}" % self.keys.word(slots[0]), slots) for slots in owned]

    def _server(self, address: str) -> Upstream:
        first, _, others = address.partition(", ")  # several masters are all named
        if not (self._upstream.wants_master or others):
            return self._upstream
        if not address:
            raise Unanswered("no master has been found yet")
        return self._upstream.at(Address.parse(first))

    def _rest(self) -> None:
        self._closing = asyncio.create_task(self.close(), name="admin: idle")
        self._closing.add_done_callback(report)

    async def _disconnect(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        redis, self._redis = self._redis, None
        masters, self._masters = self._masters, []
        await close_all(masters)
        if redis is not None:
            await redis.aclose()


Answer: TypeAlias = Mapping[str, Any]
"""A JSON object; if Redis gave no answer, `error` says why."""


class CachedAnswer:
    """The last answer of `ask`, which is called at most once in `every_s`, and only when read.

    A reader never waits: it gets the last answer, and an old one is renewed in the background.
    """

    def __init__(self, every_s: float, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._every_s = every_s
        self._ask = ask
        self._asked_s = -every_s
        self._asking: asyncio.Task[None] | None = None
        self._is_refused = False
        self._answer: Answer = {}
        self._answered_s: float | None = None

    @property
    def answer(self) -> Answer:
        """The last answer; empty before the first."""
        is_old = time.monotonic() - self._asked_s >= self._every_s
        if is_old and not self._is_refused and self._asking is None:
            self._asked_s = time.monotonic()
            self._asking = asyncio.create_task(self._renew(), name="admin: refresh")
            self._asking.add_done_callback(report)
        return self._answer

    @property
    def age_s(self) -> int | None:
        """The age of the last answer, in whole seconds; None before the first."""
        answered_s = self._answered_s
        return None if answered_s is None else round(time.monotonic() - answered_s)

    async def _renew(self) -> None:
        try:
            self._answer = await self._ask()
        except Unanswered as trouble:
            # Redis logs each refusal in its ACL LOG, so one is enough.
            self._is_refused = isinstance(trouble.__cause__, NoPermissionError)
            self._answer = {"error": str(trouble)}
        finally:
            self._answered_s = time.monotonic()
            self._asking = None
