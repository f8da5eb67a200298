"""The rules of ONEXPIRE and ONWRITE for all masters of a Cluster: one of them has the rules, in the
home slot.

Each slot knows the version that is in force, so that no reap acts on older rules, whichever proxy
calls for it (scripts/reap.lua). A change is in force when every slot has been told. When rules of
ONWRITE have changed, each master then tells its proxies, so that a session need not ask the master
of the home slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import count, islice
from typing import Final, Protocol

from redis.exceptions import (
    AskError,
    ConnectionError,
    NoPermissionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from ttlproxy.addresses import Address, Upstream
from ttlproxy.commands import Call
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.core.expiry_actions import VERSION
from ttlproxy.core.keys import SLOTS, Keys, slot
from ttlproxy.core.signing import Signer
from ttlproxy.link.connecting.connections import Backoff, connected
from ttlproxy.link.connecting.failures import Refusals, UnreachableError
from ttlproxy.link.connecting.pipeline import Words, ask_once
from ttlproxy.link.shared.action_cache import ActionCache
from ttlproxy.net.tasks import time_limit
from ttlproxy.scripts.script_calls import ScriptCalls

_NAME: Final = "ttlproxy:rules"
_AGAIN: Final = Backoff(cap=0.2, base=0.01)
# Slots of a master in which an announcement is tried: none is possible from a slot that moves.
_TRIED: Final = 16


class Owner(Protocol):
    """A master. owned: its slots; is_home: whether the rules are there."""

    owned: set[int]

    @property
    def is_home(self) -> bool: ...

    @property
    def upstream(self) -> Upstream: ...

    @property
    def script_calls(self) -> ScriptCalls: ...


class RulesOfAll:
    """Reads the rules, and tells all slots their version.

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
        self._refusals = Refusals(counters, NodeCounts())
        self.actions = ActionCache(self._keys, signer, self._refusals)
        self.home = slot(self._keys.prefix)
        self._timeout_s = settings.connect_timeout
        self._masters = masters
        self._doubted = asyncio.Event()
        self.actions.add_write_observer(self._doubted.set)

    async def keep_known(self) -> None:
        """Reads rules of ONWRITE that are in doubt, for which sessions wait; until cancelled.

        If Redis does not let the proxy read them, there are none.
        """
        failures = 0
        while True:
            await self._doubted.wait()
            self._doubted.clear()
            while self.actions.rules.in_doubt:
                try:
                    await self.read()
                    failures = 0
                except NoPermissionError as refusal:
                    self._refusals.note("to read the rules", refusal)
                    self.actions.drop_rules(0)
                except ResponseError as refusal:
                    failures += 1
                    self._refusals.note("to read the rules", refusal)
                    await asyncio.sleep(_AGAIN.compute(failures))

    async def read(self) -> None:
        """Reads the rules. Raises ResponseError if the master that has them does not answer."""
        home = next((master for master in self._masters() if master.is_home), None)
        if home is None:
            raise UnreachableError("no master that is served has the rules")
        limit_s = self._timeout_s
        try:
            async with connected(home.upstream, _NAME, limit_s) as redis, time_limit(limit_s):
                await self.actions.read(redis, 0)
        except (ConnectionError, TimeoutError, OSError) as trouble:
            raise UnreachableError(f"the rules cannot be read: {trouble}") from trouble

    async def spread(self, for_s: float, *, announces: bool) -> bool:
        """Tells each slot which version is in force at home; returns whether all know it.

        Tries again for `for_s` seconds if slots move. `announces`: each master tells its proxies,
        too.
        """
        untold, version = set(range(SLOTS)), None
        until_s = asyncio.get_running_loop().time() + for_s
        for attempt in count(1):
            if version is None:
                version = await self._version()
            if version == b"":
                return True  # there was no rule to be removed
            if version is not None:
                told = (self._tell(each, version, untold, announces) for each in self._masters())
                done = await asyncio.gather(*told)
                untold.difference_update(*done)
            if not untold or asyncio.get_running_loop().time() > until_s:
                if announces:
                    # Our own sessions may not listen.
                    self.actions.version_announced(version or b"")
                return not untold
            await asyncio.sleep(_AGAIN.compute(attempt))
        return False

    async def flushed(self) -> None:
        """Tells all proxies that rules of ONWRITE may be gone, because a client has flushed
        masters."""
        some = [(each, set(islice(each.owned, _TRIED))) for each in self._masters()]
        await asyncio.gather(*(self._tell(each, b"", slots, True) for each, slots in some))
        self.actions.version_announced(b"")

    async def _version(self) -> bytes | None:
        """Returns the version at home, empty if there is none; None while nobody tells."""
        for home in self._masters():
            if home.is_home:
                words = (b"HGET", self._keys.home(self._keys.rules), VERSION)
                (reply,) = await self._asked(home.upstream, [words])
                return reply or b"" if isinstance(reply, bytes | None) else None
        return None

    async def _tell(
        self, master: Owner, version: bytes, untold: set[int], announces: bool
    ) -> set[int]:
        """Tells a version to those slots of a master that do not know it; returns which now do."""
        own = master.owned & untold
        if not own:
            return own
        words = _call(master, version, self._words(own), announces)
        (reply,) = await self._asked(master.upstream, [words])
        if not isinstance(reply, list):
            return set()
        words_refused = frozenset(reply)
        refused = {number for number in own if self._keys.word(number) in words_refused}
        return own - refused | await self._followed(master, version, refused, announces)

    async def _followed(
        self, master: Owner, version: bytes, slots: Iterable[int], announces: bool
    ) -> set[int]:
        """Tells slots that move; returns which now know.

        If the master itself refuses one, because its memory is full, the others are left for
        another attempt: each of them takes a connection.
        """
        told = set[int]()
        for number in slots:
            reply = await self._follow(master, version, number, announces)
            if reply == []:
                told.add(number)
            elif isinstance(reply, list):
                break
        return told

    async def _follow(self, master: Owner, version: bytes, number: int, announces: bool) -> object:
        """Tells a slot that may be moving to another node, and whose keys have not arrived there
        yet.

        Returns that node's reply if it has been told, else the master's.
        """
        # A request that names one key is redirected; one that names none is carried out in vain.
        head = _call(master, version, self._words([number]), announces)
        words: Words = (*head[:2], 1, self._keys.shared_in(number, self._keys.rules), *head[3:])
        (reply,) = await self._asked(master.upstream, [words])
        if isinstance(reply, AskError):
            target = master.upstream.at(Address(reply.host, int(reply.port)))
            _, there = await self._asked(target, [(b"ASKING",), words])
            return there if there == [] else reply
        return reply

    async def _asked(self, server: Upstream, requests: list[Words]) -> list[object]:
        """Returns the replies; the error for each, if the server does not answer."""
        try:
            return await ask_once(server, _NAME, self._timeout_s, *requests)
        except (RedisError, OSError) as trouble:
            return [trouble for _ in requests]

    def _words(self, slots: Iterable[int]) -> bytes:
        return b"".join(map(self._keys.word, slots))


def _call(master: Owner, version: bytes, slots: bytes, announces: bool) -> tuple[bytes, ...]:
    call = Call("slots_learn", (), (version, slots, b"1" if announces else b""))
    return master.script_calls.words(call, b"0", by_text=True)
