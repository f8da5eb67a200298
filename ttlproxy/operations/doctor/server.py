"""Checks of the server, of its settings that break a promise, and of this installation of ttlproxy.

Most look only at INFO and CONFIG, which the target has asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from redis.exceptions import ResponseError

from ttlproxy.commands.router import VIRTUALS
from ttlproxy.commands.types.keyspace import KEYSPACE
from ttlproxy.core.counted import counted
from ttlproxy.core.keys import SLOTS
from ttlproxy.errors import UnfitUpstream, UpstreamError
from ttlproxy.link import (
    LAYOUT,
    OLDEST,
    NodeOfSeveral,
    SentinelGroup,
    check_layout,
    check_old_layout,
    check_slots,
    said_by,
)
from ttlproxy.net.tasks import cancel
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target
from ttlproxy.telemetry.memory import shortage
from ttlproxy.wire import IS_COMPILED

_FIELD_TTLS: Final = "HPEXPIRE"
_CROWDED: Final = 0.9
_ROOM: Final = 8 << 20  # bytes, for scripts and connections
# Connections of the proxy's own, and some for the operators of the server.
_OWN: Final = 32
_LAG_S: Final = 10
_DRIFT_MS: Final = 1000
_BROKEN: Final = {
    "rdb_last_bgsave_status": "the last snapshot could not be written",
    "aof_last_write_status": "the append-only file cannot be written",
    "aof_last_bgrewrite_status": "the append-only file could not be rewritten",
}


async def version(target: Target) -> AsyncIterator[Finding]:
    if target.version >= OLDEST:
        own = "with" if _FIELD_TTLS in target.commands else "without"
        yield Finding(OK, f"{target.server}, {own} hash field deadlines of its own")
        return
    yield Finding(
        ERROR,
        f"{target.server} is too old",
        "Scripts and announcements use features of Redis 6.2.",
        "upgrade the server to 6.2 or later",
    )


async def cluster(target: Target) -> AsyncIterator[Finding]:
    if not target.keys.clustered:
        return
    try:
        node = await check_slots(target.redis, all_of_them=False)
        if not node.slots:
            raise UpstreamError("it owns no slots of its Redis Cluster")
    except UpstreamError as unfit:
        yield Finding(
            ERROR,
            str(unfit),
            "Requests for its keys fail.",
            "name all nodes of the Cluster in --upstream; redis-cli --cluster check",
        )
        return
    if node.moving:
        yield Finding(
            WARNING,
            f"{counted(node.moving, 'slot is', 'slots are')} on the way to another node",
            "Commands on keys there are refused until the move is over.",
            "redis-cli --cluster fix, or CLUSTER SETSLOT with the slot and STABLE",
        )
        return
    said = "the only master" if node.slots == SLOTS else f"a master of {node.slots} slots"
    yield Finding(OK, f"the server is {said} of a Cluster")


async def databases(target: Target) -> AsyncIterator[Finding]:
    """Reports that a Cluster has more databases than one, as Valkey's may from 9 on."""
    number = target.config.get("cluster-databases", "1")
    if not target.keys.clustered or number == "1":
        return
    others = [each for each in target.databases if each]
    has_keys = "; there are keys in databases " + ", ".join(map(str, others)) if others else ""
    yield Finding(
        WARNING if others else INFO,
        f"cluster-databases is {number}{has_keys}",
        "In front of a Cluster, clients of ttlproxy have database 0 alone: SELECT of another"
        " one is refused, and deadlines there are not kept.",
    )


async def keyspace(target: Target) -> AsyncIterator[Finding]:
    """Finds commands of later versions, or of modules, that may list keys."""
    keyspace = (name for name, row in target.commands.items() if b"@keyspace" in row.categories)
    if unknown := sorted(set(keyspace) - KEYSPACE - VIRTUALS.keys()):
        yield Finding(
            WARNING,
            f"this ttlproxy does not know {', '.join(unknown)}, in the category keyspace",
            "Such a command may show internal keys, and keys whose elements have all expired.",
            "upgrade ttlproxy, or take the right to it from clients: ACL SETUSER USER"
            + "".join(f" -{name.lower()}" for name in unknown),
        )


async def sentinels(target: Target) -> AsyncIterator[Finding]:
    """Checks that each Sentinel of the URL answers, and agrees with the others."""
    upstream, timeout_s = target.settings.upstream, target.settings.connect_timeout
    if upstream is None or upstream.sentinels is None:
        yield Finding(OK, "no Sentinel is asked for the master")
        return
    asked = SentinelGroup(upstream, lambda: timeout_s)
    running = asyncio.create_task(asked.run(), name="doctor: Sentinels")
    try:
        await asked.until_asked(timeout_s)
    finally:
        await cancel(running)
    latest = asked.latest()
    master = latest and latest.address
    for each in asked.each:
        if each.answer is None:
            yield Finding(
                WARNING,
                f"the Sentinel at {each.address}: {each.trouble or 'no answer'}",
                "If the others are away as well, nobody learns of a failover.",
                "look whether it runs there, and at sentinel_user and sentinel_password",
            )
        elif each.answer.address != master:
            yield Finding(
                WARNING,
                f"the Sentinel at {each.address} says that the master is {each.answer.address},"
                f" and the latest to the others is {master}",
                "It is cut off from the others, or watches other servers under the same name.",
                "look at SENTINEL MASTERS and SENTINEL SENTINELS there",
            )


async def role(target: Target) -> AsyncIterator[Finding]:
    if target.info.get("role") == "slave":
        primary = f"{target.info.get('master_host')}:{target.info.get('master_port')}"
        yield Finding(
            ERROR,
            f"the server is a replica of {primary}",
            "It accepts no writes: no deadline can be set, and expired elements are not being"
            " removed.",
            f"use the primary: ttlproxy --upstream redis://{primary}",
        )


async def layout(target: Target) -> AsyncIterator[Finding]:
    keys = target.keys
    found = await target.ask(b"HMGET", keys.home(keys.state), b"layout", b"program")
    try:
        check_layout(keys.prefix, *found)
        with suppress(ResponseError):  # there is none, or it may not be read
            check_old_layout(keys.prefix, await target.ask(b"GET", keys.home(keys.old_layout)))
    except UnfitUpstream as other:
        yield Finding(
            ERROR,
            str(other),
            "This ttlproxy refuses to start.",
            "run the version that has written them, or remove them with ttlproxy purge",
        )
        return
    if found[0] is not None:
        yield Finding(OK, f"deadlines have layout {LAYOUT}, of ttlproxy {said_by(found[1])}")


async def tracking(target: Target) -> AsyncIterator[Finding]:
    """Checks that tracking works, and HELLO: a RESP2 connection accepts tracking, but gets no
    announcements."""
    words = (b"BCAST", b"PREFIX", target.keys.announcement_prefix)
    try:
        await target.ask(b"HELLO")
        await target.ask(b"CLIENT", b"TRACKING", b"ON", *words)
        await target.ask(b"CLIENT", b"TRACKING", b"OFF")
    except ResponseError as refused:
        yield Finding(
            ERROR,
            f"announcements do not work: {refused}",
            "Proxies learn of each other's deadlines by client tracking. Without it clients"
            " cannot be served.",
            target.grant(refused, "+client|tracking +client|setname")
            or "do not rename HELLO and CLIENT (rename-command)",
        )


async def eviction(target: Target) -> AsyncIterator[Finding]:
    policy = str(target.info.get("maxmemory_policy", "noeviction"))
    limit, evicted = target.info.get("maxmemory", 0), target.info.get("evicted_keys", 0)
    if policy != "noeviction":
        goes = f"; evicted keys: {evicted}" if evicted else ""
        yield Finding(
            ERROR if evicted else WARNING if limit else INFO,
            f"maxmemory-policy is {policy}, maxmemory {limit or 'not set'}{goes}",
            "Redis may evict the deadlines of elements, which then never expire. With allkeys-*"
            " it may also evict deferred commands, elements that wait for TAKE, and rules.",
            "CONFIG SET maxmemory-policy noeviction",
        )


async def memory(target: Target) -> AsyncIterator[Finding]:
    limit, used = target.info.get("maxmemory", 0), target.info.get("used_memory", 0)
    if limit and used >= _CROWDED * limit:
        yield Finding(
            WARNING,
            f"{used} of {limit} bytes are used",
            "A full server refuses new elements and deadlines; expired elements are still removed.",
            f"CONFIG SET maxmemory {used * 2 + _ROOM}",
        )


async def clients(target: Target) -> AsyncIterator[Finding]:
    limit, now = target.info.get("maxclients", 0), target.info.get("connected_clients", 0)
    if limit and now >= _CROWDED * limit:
        yield Finding(
            WARNING,
            f"connections in use: {now} of {limit}",
            "Each client of a proxy needs its own connection to Redis.",
            f"CONFIG SET maxclients {limit * 2}",
        )


async def max_clients(target: Target) -> AsyncIterator[Finding]:
    """Compares the server's limit with that of one proxy; there may be several."""
    settings, limit = target.settings, target.info.get("maxclients", 0)
    ours, name = settings.max_clients, "max_clients"
    if isinstance(target.redis, NodeOfSeveral) and 0 < settings.max_redis_connections < ours:
        ours, name = settings.max_redis_connections, "max_redis_connections"
    if limit and limit < ours:
        yield Finding(
            WARNING if name in settings.given else INFO,
            f"Redis accepts {limit} clients, but {name} of a proxy is {ours}",
            "Redis refuses clients beyond its limit. The proxy needs a few connections itself.",
            f"CONFIG SET maxclients {ours + _OWN}",
        )


async def core(target: Target) -> AsyncIterator[Finding]:
    """Reports this installation, which is also that of the proxies if the doctor runs on their
    machine."""
    if not IS_COMPILED:
        yield Finding(
            INFO,
            "requests and replies are read in Python: the compiled core is not built",
            "A proxy then needs up to twice the CPU time for plain requests.",
            "install a C compiler and Python's headers, and then ttlproxy again",
        )


async def memory_limit(target: Target) -> AsyncIterator[Finding]:
    """Compares the container's limit with what a proxy with the same settings may need."""
    if short := shortage(target.settings):
        why = (
            "A container that exceeds its limit is killed, and its clients lose their connections."
        )
        yield Finding(WARNING, short.what, why, short.fix)


async def events(target: Target) -> AsyncIterator[Finding]:
    flags = target.config.get("notify-keyspace-events")
    if flags is None:
        yield Finding(
            INFO,
            "notify-keyspace-events cannot be read",
            "No element events are published: the proxy cannot see whether they are wanted.",
            f"ACL SETUSER {target.user} +config|get",
        )
    elif flags:
        yield Finding(
            INFO,
            f"notify-keyspace-events is {flags}",
            "Element events are published too. Internal keys appear in the key events.",
        )


async def persistence(target: Target) -> AsyncIterator[Finding]:
    """Checks that data is saved: deadlines are data, and survive a restart exactly as elements
    do."""
    info = target.info
    broken = [what for field, what in _BROKEN.items() if info.get(field, "ok") != "ok"]
    for what in broken:
        yield Finding(
            ERROR,
            what,
            "Redis may refuse all writes (MISCONF), including those of the reaper.",
            "free space on the server's disk, then BGSAVE; Redis's log says what is wrong",
        )
    if broken:
        return
    if info.get("aof_enabled"):
        sync = target.config.get("appendfsync", "?")
        yield Finding(OK, f"the append-only file is on (appendfsync {sync})")
        return
    what, why = "nothing is saved to disk", "A restart loses all elements and deadlines."
    if target.config.get("save", "?"):
        unsaved = info.get("rdb_changes_since_last_save", 0)
        what = f"only snapshots are saved; {counted(unsaved, 'change is', 'changes are')} in no"
        what += " snapshot yet"
        why = "A crash loses the latest elements together with their deadlines."
    yield Finding(INFO, what, why, "CONFIG SET appendonly yes")


async def replicas(target: Target) -> AsyncIterator[Finding]:
    info, found = target.info, target.replicas
    behind = [
        each for each in found if each.get("state") != "online" or int(each.get("lag", 0)) > _LAG_S
    ]
    demanded = int(target.config.get("min-replicas-to-write", "0") or 0)
    good = int(info.get("min_slaves_good_slaves", demanded))
    upstream = target.settings.upstream
    if good < demanded:
        yield Finding(
            ERROR,
            f"min-replicas-to-write is {demanded}, but only"
            f" {counted(good, 'replica is', 'replicas are')} up to date",
            "Redis refuses all writes (NOREPLICAS), including those of the reaper.",
            "CONFIG SET min-replicas-to-write 0, or start the replicas",
        )
    elif not found and upstream is not None and upstream.sentinels is not None:
        yield Finding(
            WARNING,
            "the server has no replica that is connected to it",
            "Sentinels watch it, and nobody can take over from it. A replica that has lost it"
            " is promoted without what was written since.",
            "look at SENTINEL REPLICAS, and at master_link_status and masterauth of each",
        )
    elif behind:
        yield Finding(
            WARNING,
            f"replicas that are behind, or not synchronized yet: {len(behind)} of {len(found)}",
            "A failover to one of them loses the latest elements together with their deadlines.",
            "see INFO replication, and the replica's log",
        )
    elif found:
        yield Finding(
            INFO,
            f"{counted(len(found), 'replica')}; replication is asynchronous",
            "A failover may lose the latest elements together with their deadlines. The new"
            " primary's clock then decides what is due: run NTP on all servers.",
            ""
            if demanded
            else "CONFIG SET min-replicas-to-write 1 refuses writes while no replica is up to date",
        )


async def clock(target: Target) -> AsyncIterator[Finding]:
    """Compares the two clocks; nothing else reads our own, which decides nothing."""
    before = time.time()  # noqa: TID251 - the two clocks are compared
    theirs_ms = await target.now_ms()
    after = time.time()  # noqa: TID251
    drift_ms = round(theirs_ms - (before + after) * 500)
    if abs(drift_ms) < _DRIFT_MS:
        yield Finding(OK, f"the clocks of Redis and of this machine differ by {drift_ms} ms")
        return
    ahead = "ahead of" if drift_ms > 0 else "behind"
    yield Finding(
        INFO,
        f"Redis's clock is {abs(drift_ms) / 1000:.1f} s {ahead} this machine's",
        "Deadlines follow Redis's clock. Clients that send absolute times, as in EXPIREAT,"
        " need the same time.",
        "run NTP on all machines",
    )
