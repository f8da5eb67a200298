"""Checks of the server's version and state, and of settings that break a promise."""

from __future__ import annotations

from contextlib import suppress

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands.router import VIRTUALS
from ttlproxy.commands.types.keyspace import KEYSPACE
from ttlproxy.core.counted import counted
from ttlproxy.core.keys import SLOTS
from ttlproxy.errors import UnfitUpstream, UpstreamError
from ttlproxy.link import (
    LAYOUT,
    OLDEST,
    NodeOfSeveral,
    check_layout,
    check_old_layout,
    check_slots,
    said_by,
)
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

_FIELD_TTLS = "HPEXPIRE"
_CROWDED = 0.9
_ROOM = 8 << 20  # bytes, for scripts and connections
# For a proxy's own connections, and some for the operators of the server.
_OWN = 32


async def version(target: Target) -> list[Finding]:
    if target.version < OLDEST:
        return [
            Finding(
                "version",
                ERROR,
                f"{target.server} is too old",
                "Scripts and announcements use features of Redis 6.2.",
                "upgrade the server to 6.2 or later",
            )
        ]
    own = "with" if _FIELD_TTLS in target.commands else "without"
    said = f"{target.server}, {own} hash field deadlines of its own"
    return [Finding("version", OK, said)]


async def cluster(target: Target) -> list[Finding]:
    if not target.keys.clustered:
        return [Finding("cluster", OK, "the server is not part of a Cluster")]
    try:
        node = await check_slots(target.redis, all_of_them=False)
        if not node.slots:
            raise UpstreamError("it owns no slots of its Redis Cluster")
    except UpstreamError as unfit:
        return [
            Finding(
                "cluster",
                ERROR,
                str(unfit),
                "Requests for its keys fail.",
                "name all nodes of the Cluster in --upstream; redis-cli --cluster check",
            )
        ]
    moving = node.moving
    if not moving:
        said = "the only master" if node.slots == SLOTS else f"a master of {node.slots} slots"
        return [Finding("cluster", OK, f"the server is {said} of a Cluster")]
    return [
        Finding(
            "cluster",
            WARNING,
            f"{counted(moving, 'slot is', 'slots are')} on the way to another node",
            "Commands on keys there are refused until the move is over.",
            "redis-cli --cluster fix, or CLUSTER SETSLOT with the slot and STABLE",
        )
    ]


async def databases(target: Target) -> list[Finding]:
    """Of a Cluster: from Valkey 9 on it may have more than one."""
    if not target.keys.clustered or target.config.get("cluster-databases", "1") == "1":
        return [Finding("databases", OK, "each database that the server has is served")]
    others = [number for number in target.databases if number]
    has_keys = "; there are keys in databases " + ", ".join(map(str, others)) if others else ""
    return [
        Finding(
            "databases",
            WARNING if others else INFO,
            f"cluster-databases is {target.config['cluster-databases']}{has_keys}",
            "In front of a Cluster, clients of ttlproxy have database 0 alone: SELECT of another"
            " one is refused, and deadlines there are not kept.",
        )
    ]


async def keyspace(target: Target) -> list[Finding]:
    """Commands of later versions, or of modules, that may list keys."""
    keyspace = (name for name, row in target.commands.items() if b"@keyspace" in row.categories)
    unknown = sorted(set(keyspace) - KEYSPACE - VIRTUALS.keys())
    if not unknown:
        return [Finding("keyspace", OK, "each of the server's commands about keys is known")]
    return [
        Finding(
            "keyspace",
            WARNING,
            f"this ttlproxy does not know {', '.join(unknown)}, in the category keyspace",
            "Such a command may show internal keys, and keys whose elements have all expired.",
            "upgrade ttlproxy, or take the right to it from clients: ACL SETUSER USER"
            + "".join(f" -{name.lower()}" for name in unknown),
        )
    ]


async def loading(target: Target) -> list[Finding]:
    if not target.info.get("loading"):
        return [Finding("loading", OK, "the server has loaded its data")]
    return [
        Finding(
            "loading",
            WARNING,
            "the server is loading its data",
            "Until then no script runs, and clients wait.",
            "wait; INFO persistence shows how long",
        )
    ]


async def layout(target: Target) -> list[Finding]:
    keys = target.keys
    found = await target.ask(b"HMGET", keys.home(keys.state), b"layout", b"version")
    try:
        check_layout(keys.prefix, *found)
        with suppress(ResponseError):  # it is none, or may not be read
            check_old_layout(keys.prefix, await target.ask(b"GET", keys.home(keys.old_layout)))
    except UnfitUpstream as other:
        return [
            Finding(
                "layout",
                ERROR,
                str(other),
                "This ttlproxy refuses to start.",
                "run the version that has written them, or remove them with ttlproxy purge",
            )
        ]
    if found[0] is None:
        return [Finding("layout", OK, "no proxy has stored anything on this server")]
    return [
        Finding("layout", OK, f"deadlines have layout {LAYOUT}, of ttlproxy {said_by(found[1])}")
    ]


async def tracking(target: Target) -> list[Finding]:
    """HELLO must work too: on a RESP2 connection tracking is accepted but announces nothing."""
    words = (b"BCAST", b"PREFIX", target.keys.announcement_prefix)
    try:
        await target.ask(b"HELLO")
        await target.ask(b"CLIENT", b"TRACKING", b"ON", *words)
        await target.ask(b"CLIENT", b"TRACKING", b"OFF")
    except ResponseError as refused:
        return [
            Finding(
                "tracking",
                ERROR,
                f"announcements do not work: {refused}",
                "Proxies learn of each other's deadlines by client tracking. Without it clients"
                " cannot be served.",
                permit(target, refused, "+client|tracking +client|setname")
                or "do not rename HELLO and CLIENT (rename-command)",
            )
        ]
    return [Finding("tracking", OK, "client tracking works")]


async def eviction(target: Target) -> list[Finding]:
    policy = str(target.info.get("maxmemory_policy", "noeviction"))
    limit, evicted = target.info.get("maxmemory", 0), target.info.get("evicted_keys", 0)
    if policy == "noeviction":
        return [Finding("eviction", OK, "nothing is evicted (maxmemory-policy noeviction)")]
    goes = f"; evicted keys: {evicted}" if evicted else ""
    return [
        Finding(
            "eviction",
            ERROR if evicted else WARNING if limit else INFO,
            f"maxmemory-policy is {policy}, maxmemory {limit or 'not set'}{goes}",
            "Redis may evict the deadlines of elements, which then never expire. With allkeys-*"
            " it may also evict deferred commands, elements that wait for TAKE, and rules.",
            "CONFIG SET maxmemory-policy noeviction",
        )
    ]


async def memory(target: Target) -> list[Finding]:
    limit, used = target.info.get("maxmemory", 0), target.info.get("used_memory", 0)
    if not limit or used < _CROWDED * limit:
        return [Finding("memory", OK, "there is memory left" if limit else "maxmemory is not set")]
    return [
        Finding(
            "memory",
            WARNING,
            f"{used} of {limit} bytes are used",
            "A full server refuses new elements and deadlines; expired elements are still removed.",
            f"CONFIG SET maxmemory {used * 2 + _ROOM}",
        )
    ]


async def clients(target: Target) -> list[Finding]:
    limit, now = target.info.get("maxclients", 0), target.info.get("connected_clients", 0)
    if not limit or now < _CROWDED * limit:
        return [Finding("clients", OK, f"connections in use: {now} of {limit}")]
    return [
        Finding(
            "clients",
            WARNING,
            f"connections in use: {now} of {limit}",
            "Each client of a proxy needs its own connection to Redis.",
            f"CONFIG SET maxclients {limit * 2}",
        )
    ]


async def max_clients(target: Target) -> list[Finding]:
    """Compares the server's limit with that of one proxy; there may be several."""
    settings = target.settings
    limit, ours, name = target.info.get("maxclients", 0), settings.max_clients, "max_clients"
    if isinstance(target.redis, NodeOfSeveral) and 0 < settings.max_redis_connections < ours:
        ours, name = settings.max_redis_connections, "max_redis_connections"
    if not limit or limit >= ours:
        return [Finding("max-clients", OK, f"Redis accepts {limit or '?'} clients, a proxy {ours}")]
    return [
        Finding(
            "max-clients",
            WARNING if name in settings.given else INFO,
            f"Redis accepts {limit} clients, but {name} of a proxy is {ours}",
            "Redis refuses clients beyond its limit. The proxy needs a few connections itself.",
            f"CONFIG SET maxclients {ours + _OWN}",
        )
    ]


async def script_limit(target: Target) -> list[Finding]:
    limit = target.config.get("busy-reply-threshold") or target.config.get("lua-time-limit", "")
    budget = target.settings.reap_budget_ms
    if not limit.isdigit() or not 0 < int(limit) <= 10 * budget:
        return [Finding("script-limit", OK, f"scripts may take {limit or '?'} ms")]
    name = "busy-reply-threshold" if "busy-reply-threshold" in target.config else "lua-time-limit"
    return [
        Finding(
            "script-limit",
            WARNING,
            f"{name} is {limit} ms, but a reap may take {budget} ms",
            "While a script runs for longer, Redis answers BUSY to all clients.",
            f"CONFIG SET {name} 5000",
        )
    ]


async def events(target: Target) -> list[Finding]:
    flags = target.config.get("notify-keyspace-events")
    if flags is None:
        return [
            Finding(
                "events",
                INFO,
                "notify-keyspace-events cannot be read",
                "No element events are published: the proxy cannot see whether they are wanted.",
                f"ACL SETUSER {target.user} +config|get",
            )
        ]
    if not flags:
        return [Finding("events", OK, "keyspace events are off")]
    return [
        Finding(
            "events",
            INFO,
            f"notify-keyspace-events is {flags}",
            "Element events are published too. Internal keys appear in the key events.",
        )
    ]


def permit(target: Target, refused: ResponseError, rules: str) -> str:
    """The command that grants `rules`, if Redis refused for a missing right; else empty."""
    return f"ACL SETUSER {target.user} {rules}" if isinstance(refused, NoPermissionError) else ""
