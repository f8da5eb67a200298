"""Checks of what else uses the server: proxies, the reaper's lease, users' scripts, functions."""

from __future__ import annotations

from hashlib import sha1

from redis.exceptions import ResponseError

from ttlproxy.core.counted import counted
from ttlproxy.core.keys import STATE
from ttlproxy.link import other_prefixes
from ttlproxy.operations.doctor.finding import ERROR, INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.scripting import COMPILE, PROBE
from ttlproxy.operations.doctor.target import Target
from ttlproxy.scripts import Scripts, Traits

_LATE_MS = 5000
_PAGES = 100  # of 1,000 names each


async def proxies(target: Target) -> list[Finding]:
    count = await target.attached()
    if not count:
        return [
            Finding(
                "proxies", INFO, "no proxy is connected", "Expired elements are not being removed."
            )
        ]
    return [Finding("proxies", OK, f"{counted(count, 'proxy is', 'proxies are')} connected")]


async def prefixes(target: Target) -> list[Finding]:
    """Proxies with another prefix do not know of deadlines under this one, nor the other way."""
    others = await other_prefixes(target.redis, target.keys.prefix)
    left = await _states(target) - {target.keys.prefix} - others
    if not (others or left):
        return [Finding("prefixes", OK, "nobody uses another prefix")]
    why = (
        "A write through a proxy with one prefix leaves the deadlines under the other, so that new"
        " elements are deleted at old deadlines."
    )
    return [
        *(
            Finding("prefixes", ERROR, f"a proxy has the prefix {_shown(other)}", why, "stop it")
            for other in sorted(others)
        ),
        *(
            Finding(
                "prefixes",
                WARNING,
                f"keys of the prefix {_shown(other)} are left",
                why,
                f"ttlproxy purge --prefix {_shown(other)}",
            )
            for other in sorted(left)
        ),
    ]


async def _states(target: Target) -> set[bytes]:
    """The prefixes of which the state that proxies share is there, as far as names are looked at;
    none in front of a Cluster."""
    found, cursor = set[bytes](), b"0"
    for _ in range(0 if target.keys.clustered else _PAGES):
        words = (b"SCAN", cursor, b"MATCH", STATE + b"*", b"COUNT", b"1000")
        cursor, names = await target.ask(*words)
        found.update(name[len(STATE) :] for name in names)
        if cursor == b"0":
            break
    return found


def _shown(prefix: bytes) -> str:
    return prefix.decode(errors="backslashreplace")


async def lease(target: Target) -> list[Finding]:
    name = target.keys.shared_by(target.keys.here, target.keys.lease)
    if await target.ask(b"PTTL", name) != -1:
        return [Finding("lease", OK, "the reaper's lease expires by itself")]
    return [
        Finding(
            "lease",
            ERROR,
            f"{name.decode()} never expires",
            "Only the proxy that holds this lease removes expired elements. No other can take"
            " over.",
            f"DEL {name.decode()}",
        )
    ]


async def overdue(target: Target) -> list[Finding]:
    """Keys that were due seconds ago, so that the reaper has had time for them."""
    now_ms, schedules = await target.now_ms(), target.schedules
    late = await schedules.late(target.redis, target.databases, now_ms - _LATE_MS)
    for refusal in late.refused.values():
        raise refusal
    if late.first_ms is None or not late.keys:
        return [Finding("overdue", OK, "no key is overdue")]
    oldest_s = (now_ms - late.first_ms) / 1000
    what = f"{counted(late.keys, 'key is', 'keys are')} overdue, the oldest for {oldest_s:.0f} s"
    if not await target.attached():
        return [
            Finding(
                "overdue",
                WARNING,
                f"{what}, and no proxy is connected",
                "Clients that read without a proxy see expired elements.",
                f"ttlproxy --upstream {target.shown}",
            )
        ]
    return [
        Finding(
            "overdue",
            ERROR,
            f"{what}, although proxies are connected",
            "Either more elements expire than the reaper may remove, or Redis refuses its"
            " requests.",
            "see the proxies' logs and the other findings; a larger --reap-budget-ms lets a reap"
            " take longer",
        )
    ]


async def scripts(target: Target) -> list[Finding]:
    """Users' scripts and functions run inside the server, where no proxy sees their writes."""
    others, libraries = await _scripts(target), await _libraries(target)
    if not others and not libraries:
        return [Finding("scripts", OK, "the server has no scripts of users")]
    named = f": {', '.join(sorted(libraries))}" if libraries else ""
    return [
        Finding(
            "scripts",
            INFO,
            f"the server has {counted(others, 'script')} and"
            f" {counted(len(libraries), 'function library', 'function libraries')} of users{named}",
            "An element that one of them overwrites keeps its old deadline.",
            "remove the deadline with HPERSISTFIELD, SPERSISTMEMBER or their like, through a proxy",
        )
    ]


async def _scripts(target: Target) -> int:
    """How many scripts the server keeps that are not those of a proxy of this version."""
    ours = {sha1(text).hexdigest().encode() for text in (PROBE, COMPILE)}
    for traits in (target.traits, Traits(clustered=target.keys.clustered)):  # of proxies, of pages
        scripts = Scripts(target.keys.prefix)
        scripts.suit(traits)
        ours.update(scripts.digests())
    known = await target.ask(b"SCRIPT", b"EXISTS", *ours)
    kept = (await target.redis.info("memory")).get("number_of_cached_scripts", 0)
    return max(0, int(kept) - sum(map(int, known)))


async def _libraries(target: Target) -> list[str]:
    """The names of function libraries; none before Redis 7.0, or if we may not list them."""
    try:
        rows = await target.ask(b"FUNCTION", b"LIST")
    except ResponseError:
        return []
    described = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    return [row[b"library_name"].decode(errors="replace") for row in described]
