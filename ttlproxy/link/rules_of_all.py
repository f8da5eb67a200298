"""The rules of ONEXPIRE for all masters of a Cluster: one of them has the rules, in the home slot.

Each slot knows the version that is in force, so that no reap acts on older rules, whichever proxy
calls for it (scripts/reap.lua). A change is in force when every slot has been told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import count
from typing import Final, Protocol

from redis.asyncio import Redis
from redis.exceptions import AskError, ConnectionError, RedisError, ResponseError, TimeoutError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.core.expiry_actions import VERSION
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.core.signing import Signer
from ttlproxy.link.action_cache import ActionCache
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.connections import client, close
from ttlproxy.link.pipeline import Words, run
from ttlproxy.link.refusals import Refusals
from ttlproxy.net.time_limit import time_limit
from ttlproxy.scripts.script_calls import ScriptCalls

_AGAIN: Final = Backoff(cap=0.2, base=0.01)


class Owner(Protocol):
    """A master. owned: its slots; is_home: the rules are there."""

    owned: set[int]

    @property
    def is_home(self) -> bool: ...

    @property
    def upstream(self) -> Upstream: ...

    @property
    def script_calls(self) -> ScriptCalls: ...


class RulesOfAll:
    """
    actions: the rules as far as this proxy has read them; home: their slot
    """

    def __init__(
        self,
        settings: Settings,
        signer: Signer,
        counters: Counters,
        masters: Callable[[], Collection[Owner]],
    ) -> None:
        self._keys = Keys(settings.prefix.encode(), clustered=True)
        self.actions = ActionCache(self._keys, signer, Refusals(counters, NodeCounts()))
        self.home = slot(self._keys.prefix)
        self._timeout_s = settings.connect_timeout
        self._masters = masters

    async def learn(self) -> None:
        """Reads the rules. Raises ResponseError if the master that has them does not answer."""
        home = next((master for master in self._masters() if master.is_home), None)
        if home is None:
            raise ResponseError("no master that is served has the rules of ONEXPIRE")
        redis = self._connection(home.upstream)
        try:
            async with time_limit(self._timeout_s):
                await self.actions.learn(redis, 0)
        except (ConnectionError, TimeoutError, OSError) as trouble:
            raise ResponseError(f"the rules of ONEXPIRE cannot be read: {trouble}") from trouble
        finally:
            await close(redis)

    async def spread(self, for_s: float) -> bool:
        """Tells each slot which version is in force at home; returns whether all know it.

        Tries again where slots are on their way, for `for_s` seconds.
        """
        untold, version = set(range(SLOTS)), b""
        until_s = asyncio.get_running_loop().time() + for_s
        for attempt in count(1):
            if not version:
                version = await self._version()
            if version:
                told = (self._tell(each, version, untold) for each in self._masters())
                done = await asyncio.gather(*told)
                untold.difference_update(*done)
            if not untold or asyncio.get_running_loop().time() > until_s:
                return not untold
            await asyncio.sleep(_AGAIN.compute(attempt))
        return False

    async def _version(self) -> bytes:
        """The version at home; empty while nobody tells."""
        for home in self._masters():
            if home.is_home:
                words = (b"HGET", self._keys.home(self._keys.rules), VERSION)
                (reply,) = await self._asked(home.upstream, [words])
                return reply if isinstance(reply, bytes) else b""
        return b""

    async def _tell(self, master: Owner, version: bytes, untold: set[int]) -> set[int]:
        """Tells those of a master's slots that do not know the version; returns which now do."""
        own = master.owned & untold
        if not own:
            return own
        (reply,) = await self._asked(master.upstream, [_call(master, version, self._words(own))])
        if not isinstance(reply, list):
            return set()
        refused = {number for number in own if self._keys.word(number) in reply}
        on_their_way = [await self._follow(master, version, number) for number in refused]
        return own - refused | {number for number in on_their_way if number is not None}

    async def _follow(self, master: Owner, version: bytes, number: int) -> int | None:
        """Tells a slot that is on its way to another node, where its keys have not come yet."""
        # A request that names one key is sent on; one that names none is carried out in vain.
        head = _call(master, version, self._words([number]))
        words: Words = (*head[:2], 1, self._keys.shared_in(number, self._keys.rules), *head[3:])
        (reply,) = await self._asked(master.upstream, [words])
        if isinstance(reply, AskError):
            target = master.upstream.at(Address(reply.host, int(reply.port)))
            _, reply = await self._asked(target, [(b"ASKING",), words])
        return number if reply == [] else None

    async def _asked(self, server: Upstream, requests: list[Words]) -> list[object]:
        """The replies; for each the error, if the server does not answer."""
        redis = self._connection(server)
        try:
            async with time_limit(self._timeout_s):
                return await run(redis, [(0, words) for words in requests])
        except (RedisError, OSError) as trouble:
            return [trouble for _ in requests]
        finally:
            await close(redis)

    def _connection(self, server: Upstream) -> Redis:
        return client(server, "ttlproxy:rules", self._timeout_s)

    def _words(self, slots: Iterable[int]) -> bytes:
        return b"".join(map(self._keys.word, slots))


def _call(master: Owner, version: bytes, slots: bytes) -> tuple[bytes, ...]:
    return master.script_calls.words(Call("slots_learn", (), (version, slots)), b"0", by_text=True)
