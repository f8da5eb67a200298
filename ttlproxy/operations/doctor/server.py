"""Checks of the server, of its settings that break a promise, and of this installation of ttlproxy.

Most look only at INFO and CONFIG, which the target has asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands.router import VIRTUALS
from ttlproxy.commands.types.keyspace import KEYSPACE
from ttlproxy.core.keys import STATE
from ttlproxy.core.text import counted
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import (
    LAYOUT,
    OLDEST,
    NodeOfSeveral,
    check_layout,
    check_old_layout,
    other_prefixes,
    said_by,
)
from ttlproxy.operations.doctor.content import examine_keys
from ttlproxy.operations.doctor.finding import (
    ERROR,
    INFO,
    WARNING,
    Finding,
    error,
    info,
    ok,
    warning,
)
from ttlproxy.operations.doctor.required_rights import SINCE, all_scripted
from ttlproxy.operations.doctor.target import Target
from ttlproxy.operations.key_walk import scan
from ttlproxy.telemetry.memory import shortage
from ttlproxy.wire import IS_COMPILED

_CROWDED: Final = 0.9
_ROOM: Final = 8 << 20  # bytes, for scripts and connections
# Connections of the proxy's own, and some for the operators of the server.
_OWN: Final = 32
_LAG_S: Final = 10
_PAGES: Final = 100
_BROKEN: Final = {
    "rdb_last_bgsave_status": "the last snapshot could not be written",
    "aof_last_write_status": "the append-only file cannot be written",
    "aof_last_bgrewrite_status": "the append-only file could not be rewritten",
}


async def role(target: Target) -> AsyncIterator[Finding]:
    if target.info.get("role") == "slave":
        primary = f"{target.info.get('master_host')}:{target.info.get('master_port')}"
        yield error(
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
        yield error(
            str(other),
            "This ttlproxy refuses to start.",
            "run the version that has written them, or remove them with ttlproxy purge",
        )
        return
    if found[0] is not None:
        yield ok(f"deadlines have layout {LAYOUT}, of ttlproxy {said_by(found[1])}")


async def prefixes(target: Target) -> AsyncIterator[Finding]:
    """Finds proxies with another prefix: they do not know of deadlines under this one, nor this one
    of theirs."""
    running, left = await other_prefixes(target.redis, target.keys.prefix), set[bytes]()
    if not target.keys.clustered:
        async for names, _ in scan(target.redis, 0, STATE + b"*", _PAGES):
            left.update(name.removeprefix(STATE) for name in names)
    why = (
        "A write through a proxy with one prefix leaves the deadlines under the other, so that new"
        " elements are deleted at old deadlines."
    )
    for other in sorted((running | left) - {target.keys.prefix}):
        shown = other.decode(errors="backslashreplace")
        if other in running:
            yield error(f"a proxy has the prefix {shown}", why, "stop it")
        else:
            fix = f"ttlproxy purge --prefix {shown}"
            yield warning(f"keys of the prefix {shown} are left", why, fix)


async def commands(target: Target) -> AsyncIterator[Finding]:
    """Finds what proxies call and the server lacks. `rights` tells what this user may not call."""
    own = "with" if "HPEXPIRE" in target.commands else "without"
    yield ok(f"{target.server}, {own} hash field deadlines of its own")
    if target.version < OLDEST:
        yield error(
            f"{target.server} is too old",
            "Scripts and announcements use features of Redis 6.2.",
            "upgrade the server to 6.2 or later",
        )
    if missing := _missing(target):
        yield error(
            f"the server lacks {', '.join(missing)}",
            "Scripts call these commands, and fail.",
            "remove their rename-command from redis.conf, and restart the server",
        )
    if not target.has_sha:
        yield warning(
            "the server lacks EVALSHA",
            "Each script call sends the whole script, several kilobytes.",
            "remove its rename-command from redis.conf, and restart the server",
        )
    keyspace = (name for name, row in target.commands.items() if b"@keyspace" in row.categories)
    if unknown := sorted(set(keyspace) - KEYSPACE - VIRTUALS.keys()):
        yield warning(
            f"this ttlproxy does not know {', '.join(unknown)}, in the category keyspace",
            "Such a command may show internal keys, and keys whose elements have all expired.",
            "upgrade ttlproxy, or take the right to it from clients: ACL SETUSER USER"
            + "".join(f" -{name.lower()}" for name in unknown),
        )
    if "notify-keyspace-events" not in target.config:
        yield info(
            "notify-keyspace-events cannot be read",
            "No element events are published: the proxy cannot see whether they are wanted.",
            f"ACL SETUSER {target.user} +config|get",
        )


def _missing(target: Target) -> list[str]:
    """Returns commands that scripts call and that this server lacks although its version has
    them."""
    later = {rule for rule, since in SINCE.items() if since > target.version}
    needed = {"EVAL", *(name.decode() for name in all_scripted(target.keys.clustered))}
    absent = needed - target.commands.keys() if target.commands else ()
    return [name for name in sorted(absent) if f"+{name.lower()}" not in later]


async def scripts(target: Target) -> AsyncIterator[Finding]:
    """Runs one for a key of nobody: a server of several shards refuses it, as its keys are in
    several slots. `rights` tells which rights are missing."""
    try:
        script_calls = await target.script_calls("key_examine")
        await examine_keys(target, script_calls, [(0, target.keys.prefix + b"!doctor")], 1)
    except NoPermissionError:
        return
    except ResponseError as refused:
        yield error(
            f"scripts do not run: {refused}",
            "Scripts set, read and remove deadlines.",
            "do not rename EVAL (rename-command); if the server is busy, wait",
        )


async def tracking(target: Target) -> AsyncIterator[Finding]:
    """Checks that tracking works, and HELLO: a RESP2 connection accepts tracking, but gets no
    announcements. `rights` tells which rights are missing."""
    words = (b"BCAST", b"PREFIX", target.keys.announcement_prefix)
    try:
        await target.ask(b"HELLO")
        await target.ask(b"CLIENT", b"TRACKING", b"ON", *words)
        await target.ask(b"CLIENT", b"TRACKING", b"OFF")
    except NoPermissionError:
        return
    except ResponseError as refused:
        yield error(
            f"announcements do not work: {refused}",
            "Proxies learn of each other's deadlines by client tracking. Without it clients"
            " cannot be served.",
            "do not rename HELLO and CLIENT (rename-command)",
        )


async def eviction(target: Target) -> AsyncIterator[Finding]:
    policy = str(target.info.get("maxmemory_policy", "noeviction"))
    limit, evicted = target.info.get("maxmemory", 0), target.info.get("evicted_keys", 0)
    if policy != "noeviction" and (limit or evicted):
        goes = f"; evicted keys: {evicted}" if evicted else ""
        yield Finding(
            ERROR if evicted else WARNING,
            f"maxmemory-policy is {policy}, maxmemory {limit or 'not set'}{goes}",
            "Redis may evict the deadlines of elements, which then never expire. With allkeys-*"
            " it may also evict deferred commands, elements that wait for TAKE, and rules.",
            "CONFIG SET maxmemory-policy noeviction",
        )


async def memory(target: Target) -> AsyncIterator[Finding]:
    limit, used = target.info.get("maxmemory", 0), target.info.get("used_memory", 0)
    if limit and used >= _CROWDED * limit:
        yield warning(
            f"{used} of {limit} bytes are used",
            "A full server refuses new elements and deadlines; expired elements are still removed.",
            f"CONFIG SET maxmemory {used * 2 + _ROOM}",
        )
    if short := shortage(target.settings):
        yield warning(
            short.what,
            "A container that exceeds its limit is killed, and its clients lose their connections.",
            short.fix,
        )


async def clients(target: Target) -> AsyncIterator[Finding]:
    """Compares the server's limit with its connections, and with what one proxy may have; there
    may be several."""
    limit, now = target.info.get("maxclients", 0), target.info.get("connected_clients", 0)
    if limit and now >= _CROWDED * limit:
        yield warning(
            f"connections in use: {now} of {limit}",
            "Each client of a proxy needs its own connection to Redis.",
            f"CONFIG SET maxclients {limit * 2}",
        )
    settings = target.settings
    ours, name = settings.max_clients, "max_clients"
    if isinstance(target.redis, NodeOfSeveral) and 0 < settings.max_redis_connections < ours:
        ours, name = settings.max_redis_connections, "max_redis_connections"
    if 0 < limit < ours:
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
        yield info(
            "requests and replies are read in Python: the compiled core is not built",
            "A proxy then needs up to twice the CPU time for plain requests.",
            "install a C compiler and Python's headers, and then ttlproxy again",
        )


async def persistence(target: Target) -> AsyncIterator[Finding]:
    """Checks that data is saved: deadlines are data, and survive a restart exactly as elements
    do."""
    told = target.info
    broken = [what for field, what in _BROKEN.items() if told.get(field, "ok") != "ok"]
    for what in broken:
        yield error(
            what,
            "Redis may refuse all writes (MISCONF), including those of the reaper.",
            "free space on the server's disk, then BGSAVE; Redis's log says what is wrong",
        )
    if broken:
        return
    if told.get("aof_enabled"):
        sync = target.config.get("appendfsync", "?")
        yield ok(f"the append-only file is on (appendfsync {sync})")
        return
    what, why = "nothing is saved to disk", "A restart loses all elements and deadlines."
    if target.config.get("save", "?"):
        unsaved = told.get("rdb_changes_since_last_save", 0)
        what = f"only snapshots are saved; {counted(unsaved, 'change is', 'changes are')} in no"
        what += " snapshot yet"
        why = "A crash loses the latest elements together with their deadlines."
    yield info(what, why, "CONFIG SET appendonly yes")


async def replicas(target: Target) -> AsyncIterator[Finding]:
    info, found = target.info, target.replicas
    behind = [
        each for each in found if each.get("state") != "online" or int(each.get("lag", 0)) > _LAG_S
    ]
    demanded = int(target.config.get("min-replicas-to-write", "0") or 0)
    good = int(info.get("min_slaves_good_slaves", demanded))
    upstream = target.settings.upstream
    if good < demanded:
        yield error(
            f"min-replicas-to-write is {demanded}, but only"
            f" {counted(good, 'replica is', 'replicas are')} up to date",
            "Redis refuses all writes (NOREPLICAS), including those of the reaper.",
            "CONFIG SET min-replicas-to-write 0, or start the replicas",
        )
    elif not found and upstream is not None and upstream.sentinels is not None:
        yield warning(
            "the server has no replica that is connected to it",
            "Sentinels watch it, and nobody can take over from it. A replica that has lost it"
            " is promoted without what was written since.",
            "look at SENTINEL REPLICAS, and at master_link_status and masterauth of each",
        )
    elif behind:
        yield warning(
            f"replicas that are behind, or not synchronized yet: {len(behind)} of {len(found)}",
            "A failover to one of them loses the latest elements together with their deadlines.",
            "see INFO replication, and the replica's log",
        )
