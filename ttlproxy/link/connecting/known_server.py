"""The server that the link speaks to: which one it is, in which role, its clock, whether it asks
clients for a login, and how many proxies are connected to it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.core.keys import DEFAULT_PREFIX
from ttlproxy.errors import Demoted, ServerChanged
from ttlproxy.link.connecting.connections import connected, open_now
from ttlproxy.link.connecting.pipeline import run, valid

INFO = (b"INFO",)
# Costs Redis a tenth of INFO, and has the number of clients that track keys.
CLIENTS = (b"INFO", b"clients")
KEYSPACE = (b"INFO", b"keyspace")
ERRORS = (b"INFO", b"errorstats")
ROLE = (b"ROLE",)
# Stands for the number of clients that track keys if the server does not count them.
_MANY = 1 << 30


class Identity(NamedTuple):
    """The identity and the role of a server.

    run_id: new after each start of a server; empty if it does not report one
    trackers: the number of clients that track keys, as each proxy does
    databases: those that hold keys
    is_clustered: whether it is a node of a Cluster
    """

    run_id: str
    is_master: bool
    trackers: int
    databases: list[int]
    is_clustered: bool = False

    @classmethod
    def of(cls, info: Mapping[str, str]) -> Identity:
        return cls(
            info.get("run_id", ""),
            info.get("role", "master") == "master",
            trackers(info),
            databases(info),
            info.get("cluster_enabled") == "1",
        )

    @property
    def attached(self) -> int:
        """The number of proxies, this one among them; 0 if the server does not report that."""
        return self.trackers if self.trackers < _MANY else 0

    def is_other(self, met: Identity) -> bool:
        """Whether `met`, which has answered now, replaces this server.

        Two replicas behind one address count as the same.
        """
        if not (self.run_id and met.run_id) or self.run_id == met.run_id:
            return False
        return self.is_master or met.is_master


def trackers(info: Mapping[str, str]) -> int:
    """The number of clients that track keys."""
    return int(info.get("tracking_clients", _MANY))


def databases(info: Mapping[str, str]) -> list[int]:
    """The logical databases that hold keys."""
    return [int(name[2:]) for name in info if name.startswith("db") and name[2:].isdigit()]


def unix_ms(reply: Sequence[bytes]) -> int:
    """Unix time in ms, from the reply to TIME."""
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000


def fields(text: bytes) -> Mapping[str, str]:
    """The fields of INFO's reply, of all sections."""
    lines = text.decode(errors="replace").split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def cached_scripts(memory: bytes) -> int:
    """The number of scripts that the server knows, by INFO's section of memory."""
    return int(fields(memory).get("number_of_cached_scripts", 0))


def maxlen_refusals(info: Mapping[str, str]) -> int:
    """The number of requests that got TTLMAXLEN since the server's start, or since its statistics
    were reset; 0 if it does not report that."""
    _, _, count = info.get("errorstat_TTLMAXLEN", "").partition("count=")
    return int(count or 0)


# If nobody sets the clock, two estimates differ by no more than this and their round trips.
_SLACK_MS = 50
# The server's clock may run faster than the local one by this factor while it is being corrected:
# NTP slews by 500 ppm at most. Seconds may pass between two replies.
_FASTEST = 1.0005


class ServerClock:
    """Estimates the server's clock from its replies, never as too early: a late one costs a reap.

    `on_jump` is called when that clock was set, forward or back.
    """

    __slots__ = ("_earliest_ms", "_latest_ms", "_offset_ms", "_on_jump")

    def __init__(self, on_jump: Callable[[], None] = lambda: None) -> None:
        self._on_jump = on_jump
        self._offset_ms = 0.0  # to the local clock at its fastest
        self._latest_ms = 0.0  # to the local clock at the last reply: at most, at least
        self._earliest_ms = 0.0

    @staticmethod
    def reading() -> float:
        """The local clock in ms, to be taken before a request is sent."""
        return time.monotonic() * 1000

    def now_ms(self) -> int:
        """The server's clock in ms: at least what it shows now."""
        return int(time.monotonic() * 1000 * _FASTEST + self._offset_ms)

    def adjust_by(self, reply: Sequence[bytes], sent: float) -> None:
        """Takes the reply to a TIME that was sent at `sent`, which is a `reading`."""
        self.adjust(unix_ms(reply), sent)

    def adjust(self, server_ms: int, sent: float) -> None:
        """Takes `server_ms`, cut to whole ms, from the reply to a request that was sent at
        `sent`."""
        latest_ms, earliest_ms = server_ms + 1 - sent, server_ms - self.reading()
        jumped = (
            earliest_ms > self._latest_ms + _SLACK_MS or latest_ms < self._earliest_ms - _SLACK_MS
        )
        self._latest_ms, self._earliest_ms = latest_ms, earliest_ms
        self._offset_ms = server_ms + 1 - sent * _FASTEST
        if jumped:
            self._on_jump()


log = logging.getLogger(__name__)


class KnownServer:
    """The server that the link speaks to, and how often it has changed.

    identity: None before the first server
    term: grows whenever sessions must end, so that a client can tell whether its server is still
    this one
    changes: how often a life began with another server, or with a master that had become a replica
    is_demoted: whether it was a master when the link met it, and is a replica now
    """

    def __init__(self, shown: str, on_change: Callable[[], None]) -> None:
        """`shown`: its address, without a password; `on_change()` is called when sessions must end
        because their server is not served any more."""
        self.identity: Identity | None = None
        self.term = 0
        self.changes = 0
        self.is_demoted = False
        self._shown = shown
        self._on_change = on_change

    @property
    def attached(self) -> int:
        """The number of its proxies, at most: it counts all clients that track keys."""
        return self.identity.attached if self.identity is not None else 0

    def is_new(self, found: Identity) -> bool:
        """Whether knowledge of the last server does not hold for this one."""
        known = self.identity
        return known is None or not known.run_id or known.run_id != found.run_id

    def met(self, found: Identity) -> None:
        """Takes the server with which a life of the link begins."""
        known = self.identity
        was_master = known is not None and known.is_master
        if known is not None and (self.is_new(found) or (was_master and not found.is_master)):
            self.changes += 1
            self.change()
        self.is_demoted = (self.is_demoted or was_master) and not found.is_master
        self.identity = found

    def seen(self, found: Identity) -> bool:
        """Takes what a heartbeat found; returns whether the server has just become a master.

        Raises ServerChanged if it is another server, Demoted if it was a master and is a replica
        now.
        """
        known = self.identity
        assert known is not None
        if known.run_id != found.run_id:
            raise ServerChanged("it is another server, or was restarted")
        if known.is_master and not found.is_master:
            raise Demoted("it is no longer a master")
        self.identity = found
        is_promoted = found.is_master and not known.is_master
        if is_promoted:
            log.info("Redis at %s is a master now", self._shown)
            self.is_demoted = False
        return is_promoted

    @property
    def is_master(self) -> bool:
        """Whether it was a master when it last reported its role."""
        return self.identity is not None and self.identity.is_master

    def change(self) -> None:
        """Ends the sessions."""
        self.term += 1
        self._on_change()


class Serving:
    """Whether clients are served now: the link decides, others read it or wait here.

    now: whether scripts are loaded, announcements arrive and the registry is whole; a plain flag
    for the hot path
    ready: the same, as an event to wait for
    tried: set once the first attempt to serve is over
    in_this_life: whether clients were served at all in the present life of the link
    """

    __slots__ = ("in_this_life", "now", "ready", "tried")

    def __init__(self) -> None:
        self.now = False
        self.ready = asyncio.Event()
        self.tried = asyncio.Event()
        self.in_this_life = False

    def begin_life(self) -> None:
        """Begins a life of the link, which has ended the last one with `stop`."""
        self.in_this_life = False

    def start(self) -> None:
        self.now = self.in_this_life = True
        self.tried.set()
        self.ready.set()

    def stop(self) -> None:
        self.now = False
        self.ready.clear()


# An answer is valid for this time.
_RECENT_S: Final = 1.0


class LoginCheck:
    """Asks the server whether clients must log in, at most once a second."""

    def __init__(self, upstream: Callable[[], Upstream], timeout_s: Callable[[], float]) -> None:
        """`upstream`: its address now."""
        self._upstream = upstream
        self._timeout_s = timeout_s
        self._asking = asyncio.Lock()
        self._asked: Upstream | None = None
        self._until_s = 0.0  # on the loop's clock
        self._answer = False

    async def asks_login(self) -> bool:
        """Whether it refuses clients that have not logged in. Raises OSError."""
        loop, upstream, limit_s = asyncio.get_running_loop(), self._upstream(), self._timeout_s()
        async with asyncio.timeout(limit_s), self._asking:
            if upstream != self._asked or loop.time() > self._until_s:
                self._answer = await _asks_login(upstream, limit_s)
                self._asked, self._until_s = upstream, loop.time() + _RECENT_S
            return self._answer


async def _asks_login(upstream: Upstream, timeout_s: float) -> bool:
    nobody = replace(upstream, user=None, password=None, user_file=None, password_file=None)
    try:
        async with connected(nobody, "ttlproxy:probe", timeout_s) as redis:
            await open_now(redis)  # this sends CLIENT SETNAME
    except AuthenticationError:
        return True
    except ResponseError:  # Redis looks at the login before it looks at anything else
        return False
    except RedisError as trouble:
        raise ConnectionError(str(trouble)) from trouble
    return False


_NO_NAME = re.compile(rb"[^!-~]")


def push_name(prefix: bytes) -> bytes:
    """The name of the push connection of a proxy with this prefix of internal keys."""
    name = b"ttlproxy:pushes"
    return name if prefix == DEFAULT_PREFIX else name + b":" + _NO_NAME.sub(b"?", prefix)


def acknowledging_name(prefix: bytes) -> bytes:
    """The name of the connection by which such a proxy acknowledges news."""
    return push_name(prefix).replace(b":pushes", b":families", 1)


def listed_clients(listed: bytes) -> list[dict[bytes, bytes]]:
    """The fields of each client in a reply to CLIENT LIST."""
    lines = (line.split(b" ") for line in listed.split(b"\n") if line)
    return [dict(word.split(b"=", 1) for word in words if b"=" in word) for words in lines]


async def other_prefixes(redis: Redis, prefix: bytes) -> set[bytes]:
    """Returns the other prefixes that proxies have, from the names of connections. Raises
    ResponseError."""
    (listed,) = await run(redis, [(0, (b"CLIENT", b"LIST"))])
    named = {client.get(b"name", b"") for client in listed_clients(valid(listed))}
    pushes = {name for name in named if name.startswith(push_name(DEFAULT_PREFIX))}
    others = pushes - {push_name(prefix)}
    return {name[len(push_name(DEFAULT_PREFIX)) + 1 :] or DEFAULT_PREFIX for name in others}


async def attached(redis: Redis, prefix: bytes) -> int:
    """Returns the number of proxies with this prefix.

    If we may not call CLIENT LIST: the number of clients that track keys. Raises ResponseError.
    """
    listed, info = await run(redis, [(0, (b"CLIENT", b"LIST")), (0, INFO)])
    if isinstance(listed, ResponseError):
        return Identity.of(fields(valid(info))).trackers
    name = push_name(prefix)
    return sum(client.get(b"name") == name for client in listed_clients(valid(listed)))
