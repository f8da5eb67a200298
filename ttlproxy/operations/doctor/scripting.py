"""Checks of scripts: whether the server compiles each one and runs those of the reaper, for a key
that does not exist, so that nothing changes; and which scripts it has that are not a proxy's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha1
from importlib.resources import files
from typing import Final

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.link import run
from ttlproxy.operations.doctor.finding import ERROR, INFO, WARNING, Finding
from ttlproxy.operations.doctor.required_rights import SINCE, all_scripted
from ttlproxy.operations.doctor.target import Target
from ttlproxy.scripts import Scripts, Traits

# The doctor's own scripts. The proxies do not load them, so they are not among theirs.
_PROBE: Final = files(__package__).joinpath("probe.lua").read_bytes()
_COMPILE: Final = files(__package__).joinpath("compile.lua").read_bytes()
# Errors from the server's current state; other checks report that.
_PASSING: Final = (
    *("READONLY", "LOADING", "MASTERDOWN", "BUSY", "MISCONF", "NOREPLICAS", "OOM", "EXECABORT"),
)
_SHOWN: Final = 3


async def scripting(target: Target) -> AsyncIterator[Finding]:
    try:
        await target.ask(b"EVAL", _PROBE, 0)
    except ResponseError as refused:
        yield Finding(
            ERROR,
            f"scripts do not run: {refused}",
            "Scripts set, read and remove deadlines.",
            target.grant(refused, "+eval +evalsha +script +time")
            or "do not rename EVAL (rename-command); if the server is busy, wait",
        )
        return
    if missing := _missing(target):
        yield Finding(
            ERROR,
            f"the server lacks {', '.join(missing)}",
            "Scripts call these commands, and fail.",
            "remove their rename-command from redis.conf, and restart the server",
        )
    if not target.has_sha:
        yield Finding(
            WARNING,
            "the server lacks EVALSHA",
            "Each script call sends the whole script, several kilobytes.",
            "remove its rename-command from redis.conf, and restart the server",
        )
    if refused_ones := await _refused(target):
        shown = "; ".join(f"{name}: {why}" for name, why in [*refused_ones.items()][:_SHOWN])
        yield Finding(
            ERROR,
            f"{len(refused_ones)} scripts do not run: {shown}",
            "Commands or the reaper need them, and fail.",
            "do not rename the commands that the server does not know (rename-command)",
        )


def _missing(target: Target) -> list[str]:
    """Commands that scripts call and that this server lacks although its version has them."""
    later = {rule for rule, since in SINCE.items() if since > target.version}
    names = sorted(name.decode() for name in all_scripted(target.keys.clustered))
    return [
        name
        for name in names
        if target.commands and name not in target.commands and f"+{name.lower()}" not in later
    ]


async def _refused(target: Target) -> dict[str, str]:
    """Scripts that do not compile, and calls that fail for other reasons than a missing right."""
    texts = {name: script.text for name, script in target.scripts().items()}
    key = target.keys.prefix + b"!doctor"
    trials = (
        Call("reap", (key,), (b"10", b"1000", b"*", b"", b"", b"", b"1")),
        Call("sweep", (key,), (b"0", b"10")),
        Call("keys_first", (key,), ()),
    )
    script_calls = await target.script_calls(*(call.script for call in trials))
    compiles = [(0, (b"EVAL", _COMPILE, 0, text)) for text in texts.values()]
    calls = [(0, script_calls.words(call, b"0")) for call in trials]
    made, called = await run(target.redis, compiles), await run(target.redis, calls)
    # The reply is why a script does not compile, if it does not.
    refused = {
        name: reply.decode(errors="replace")
        for name, reply in zip(texts, made, strict=True)
        if isinstance(reply, bytes)
    }
    return refused | {
        call.script: str(reply)
        for call, reply in zip(trials, called, strict=True)
        if isinstance(reply, ResponseError) and not _is_no_fault(reply)
    }


def _is_no_fault(refusal: ResponseError) -> bool:
    if isinstance(refusal, NoPermissionError) or "can't run this command" in str(refusal):
        return True  # the check of rights reports it
    return any(word in str(refusal) for word in _PASSING)


async def scripts(target: Target) -> AsyncIterator[Finding]:
    """Users' scripts and functions run inside the server, where no proxy sees their writes."""
    ours = {sha1(text).hexdigest().encode() for text in (_PROBE, _COMPILE)}
    of_pages = Scripts(target.keys.prefix)
    of_pages.suit(Traits(clustered=target.keys.clustered))
    ours.update(target.scripts().digests(), of_pages.digests())
    known = await target.ask(b"SCRIPT", b"EXISTS", *ours)
    kept = (await target.redis.info("memory")).get("number_of_cached_scripts", 0)
    others, libraries = max(0, int(kept) - sum(map(int, known))), await _libraries(target)
    if others or libraries:
        named = f": {', '.join(sorted(libraries))}" if libraries else ""
        yield Finding(
            INFO,
            f"the server has {counted(others, 'script')} and"
            f" {counted(len(libraries), 'function library', 'function libraries')} of users{named}",
            "An element that one of them overwrites keeps its old deadline.",
            "remove the deadline with HPERSISTFIELD, SPERSISTMEMBER or their like, through a proxy",
        )


async def _libraries(target: Target) -> list[str]:
    """The names of function libraries; none before Redis 7.0, or if we may not list them."""
    try:
        rows = await target.ask(b"FUNCTION", b"LIST")
    except ResponseError:
        return []
    described = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    return [row[b"library_name"].decode(errors="replace") for row in described]
