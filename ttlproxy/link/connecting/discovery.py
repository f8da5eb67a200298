"""Finds the server that the upstream's URL means now, and watches whether it is still there.

The URL may have a name that moves, several servers, or Sentinels. The link asks at the beginning of
each life, and all connections of that life, clients' connections among them, go to the numeric
address that was found. So a name that moves meanwhile leads none of them to another server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from redis.exceptions import NoPermissionError, RedisError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting.failures import cause
from ttlproxy.link.connecting.known_server import Identity, KnownServer
from ttlproxy.link.connecting.reachability import TlsDoubt, identity, numbers_in_time, resolved
from ttlproxy.link.connecting.sentinels import Answer, SentinelGroup
from ttlproxy.net.sockets import is_number
from ttlproxy.net.tasks import cancel

# Seconds between two look-ups of a name.
_LOOK_S: Final = 5.0
# Of several servers, one that hangs delays the others by this time at most.
_PATIENCE_S: Final = 1.0
# Once a master is found, the others have this time to say what they are.
_GRACE_S: Final = 0.1
_KINDS: Final = ("a single server", "a node of a Redis Cluster")


class Discovery:
    """Finds the server, and notices when it is another one."""

    def __init__(self, upstream: Upstream, timeout_s: Callable[[], float]) -> None:
        self._upstream = upstream
        self._timeout_s = timeout_s

    async def run(self) -> None:
        """Keeps what it knows up to date, until cancelled."""
        await asyncio.Event().wait()

    async def find(self) -> Upstream:
        """Returns the server to use now, with a numeric address. Raises UpstreamError or
        OSError."""
        return await resolved(self._upstream, self._timeout_s())

    async def again(self, now: Upstream) -> Upstream:
        """Returns the address that a new connection would get, instead of `now`. Raises OSError."""
        return now

    async def watch(self, now: Upstream, look: Callable[[], None]) -> None:
        """Raises ServerChanged when `now` is no longer the server; never ends otherwise.

        Calls `look` whenever another server may be there.
        """
        await asyncio.Event().wait()

    async def pause(self, limit_s: float) -> None:
        """Waits for `limit_s` seconds, or until `find` would find something else than before."""
        await asyncio.sleep(limit_s)


class OneServer(Discovery):
    """A unix socket, an address, or a name."""

    async def again(self, now: Upstream) -> Upstream:
        if await self._is_still(now):
            return now
        return await self.find()

    async def watch(self, now: Upstream, look: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            with suppress(OSError):  # names may be unknown for a while
                if not await self._is_still(now):
                    look()

    async def _is_still(self, now: Upstream) -> bool:
        """Whether the name still has this address, if it is a name."""
        host, port = self._upstream.host, self._upstream.port
        if now.path or is_number(host):
            return True
        return now.host in await numbers_in_time(Address(host, port), self._timeout_s())


class _Met(NamedTuple):
    """One of several servers, and the identity that it reports."""

    server: Upstream
    identity: Identity


class SeveralServers(Discovery):
    """Several addresses: the first that says it is a master is the server.

    If none is, a replica in a Cluster serves to find the masters. All must be of one kind. The link
    itself looks at the role of its server.
    """

    async def find(self) -> Upstream:
        asked = {
            address: asyncio.create_task(self._met(address)) for address in self._upstream.addresses
        }
        try:
            found = await _first(asked.values(), _PATIENCE_S)
            if found := found or await _any(asked.values(), self._timeout_s()):
                await asyncio.wait(asked.values(), timeout=_GRACE_S)
                _check_kinds(asked)
                return found.server
            _check_kinds(asked)
            for met in _met(asked.values()):
                if met.identity.is_clustered:
                    return met.server
            said = "; ".join(f"{address}: {_why_not(task)}" for address, task in asked.items())
        finally:
            await cancel(*asked.values())
        raise UpstreamError(f"no server is a master: {said}")

    async def _met(self, address: Address) -> _Met:
        server = await resolved(self._upstream.at(address), self._timeout_s())
        try:
            return _Met(server, await identity(server, self._timeout_s()))
        except (RedisError, OSError) as trouble:
            if known := await TlsDoubt("redis").cause(server, trouble):
                raise UpstreamError(known) from trouble
            raise


class OfSentinels(Discovery):
    """The master that Sentinels name."""

    def __init__(self, upstream: Upstream, timeout_s: Callable[[], float]) -> None:
        super().__init__(upstream, timeout_s)
        self._sentinels = SentinelGroup(upstream, timeout_s)
        self._used: Answer | None = None

    async def run(self) -> None:
        await self._sentinels.run()

    async def find(self) -> Upstream:
        self._used = await self._sentinels.answer()
        return await resolved(self._upstream.at(self._used.address), self._timeout_s())

    async def watch(self, now: Upstream, look: Callable[[], None]) -> None:
        while not self._has_moved():
            await self._sentinels.changed()
        latest = self._sentinels.latest()
        raise ServerChanged(f"the Sentinels name {latest and latest.address} as the master now")

    async def pause(self, limit_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._sentinels.latest() in (None, self._used):
                    await self._sentinels.changed()

    def _has_moved(self) -> bool:
        """Whether they name another master, and a newer one.

        A Sentinel may still name the master before this one: the one that led the failover may be
        gone before the others have heard of it.
        """
        used, latest = self._used, self._sentinels.latest()
        if used is None or latest is None or latest.epoch < used.epoch:
            return False
        return latest.address != used.address


async def _first(tasks: Collection[asyncio.Task[_Met]], limit_s: float) -> _Met | None:
    """Returns the first master in the order of the tasks; None if there is none in time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    for task in tasks:
        await asyncio.wait({task}, timeout=max(0, until_s - loop.time()))
        if found := _master([task]):
            return found
    return None


async def _any(tasks: Collection[asyncio.Task[_Met]], limit_s: float) -> _Met | None:
    """Returns the first master that any of the tasks finds; None if none does in time."""
    loop = asyncio.get_running_loop()
    until_s, pending = loop.time() + limit_s, {task for task in tasks if not task.done()}
    while not (found := _master(tasks)) and pending and loop.time() < until_s:
        _, pending = await asyncio.wait(
            pending, timeout=until_s - loop.time(), return_when=asyncio.FIRST_COMPLETED
        )
    return found


def _met(tasks: Iterable[asyncio.Task[_Met]]) -> list[_Met]:
    """Returns the servers that have answered by now."""
    return [task.result() for task in tasks if task.done() and task.exception() is None]


def _master(tasks: Iterable[asyncio.Task[_Met]]) -> _Met | None:
    return next((met for met in _met(tasks) if met.identity.is_master), None)


def _check_kinds(asked: Mapping[Address, asyncio.Task[_Met]]) -> None:
    """Raises UpstreamError if nodes of a Cluster and other servers have answered."""
    kinds = {
        address: _KINDS[task.result().identity.is_clustered]
        for address, task in asked.items()
        if task.done() and task.exception() is None
    }
    if len(set(kinds.values())) > 1:
        said = "; ".join(f"{address} is {kind}" for address, kind in kinds.items())
        raise UpstreamError(f"the URL names servers of different kinds: {said}")


def _why_not(task: asyncio.Task[_Met]) -> str:
    if not task.done():
        return "it does not answer"
    trouble = task.exception()
    if trouble is None:
        return "it is a replica"
    if isinstance(trouble, TimeoutError):
        return "it does not answer"
    if isinstance(trouble, RedisError | OSError | UpstreamError):
        return str(cause(trouble))
    raise trouble


def discovery(upstream: Upstream, timeout_s: Callable[[], float]) -> Discovery:
    """Returns the way to find the server that suits the URL."""
    if upstream.sentinels is not None:
        return OfSentinels(upstream, timeout_s)
    return (SeveralServers if upstream.others else OneServer)(upstream, timeout_s)


async def located(upstream: Upstream, timeout_s: float) -> Upstream:
    """Returns the server to use now, for a caller that looks once. Raises UpstreamError or
    OSError."""
    found = discovery(upstream, lambda: timeout_s)
    running = asyncio.create_task(found.run(), name="discovery")
    try:
        return await found.find()
    finally:
        await cancel(running)


# Seconds between two probes.
_EVERY_S = 1.0


class AddressWatch:
    """Finds the server's address for each life of the link, and watches it.

    now: the address of all connections, those of clients too: the server of the present life of the
    link, or of the last one; before the first, the URL as configured
    """

    def __init__(self, settings: Settings, upstream: Upstream, server: KnownServer) -> None:
        self.now = upstream
        self._settings = settings
        self._wants_master = upstream.wants_master
        self._server = server
        self._discovery = discovery(upstream, lambda: settings.connect_timeout)
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Listens to the Sentinels, if there are any, until cancelled."""
        await self._discovery.run()

    async def find(self) -> bool:
        """Finds the server for a new life; returns whether its address has changed.

        Raises UpstreamError or OSError.
        """
        before, self.now = self.now, await self._discovery.find()
        has_moved = self.now.address != before.address
        if has_moved and self._wants_master and self._server.identity is not None:
            self._server.change()  # the old one may serve its connections for long
        return has_moved

    @property
    def shown(self) -> str:
        """The server's address, for people; empty if none has been found yet."""
        return self.now.address if self.now.host or self.now.path else ""

    def check(self) -> None:
        """Raises UpstreamError if a master is wanted, and the server that was met is none."""
        met = self._server.identity
        if self._wants_master and met is not None and not met.is_master:
            raise UpstreamError(f"{self.now.address} is a replica, and no master")

    def probe_soon(self) -> None:
        """Asks for a probe: there may be another server at the address now."""
        self._wanted.set()

    async def watch(self) -> None:
        """Raises ServerChanged when the Sentinels name another server. Runs for one life of the
        link, from its beginning."""
        await self._discovery.watch(self.now, self.probe_soon)

    async def probe(self) -> None:
        """Raises ServerChanged when new connections reach another server than the link. Runs once
        the server has been met."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._probe()
            await asyncio.sleep(_EVERY_S)

    async def pause(self, limit_s: float) -> None:
        """Waits for `limit_s` seconds, or until the server is known to be elsewhere."""
        await self._discovery.pause(limit_s)

    async def _probe(self) -> None:
        timeout_s, known = self._settings.connect_timeout, self._server.identity
        try:
            found = await identity(await self._discovery.again(self.now), timeout_s)
        except NoPermissionError:
            return  # it will refuse that later, too
        except (RedisError, OSError):
            self.probe_soon()  # that there is no answer proves nothing
            return
        if known is not None and known.is_other(found):
            raise ServerChanged("another server is at its address now")
