"""Checks of scripts: whether the server compiles each one, and runs those of the reaper for a key
that does not exist, so that nothing changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Final

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.link import run
from ttlproxy.operations.doctor.finding import ERROR, WARNING, Finding
from ttlproxy.operations.doctor.required_rights import SINCE, all_scripted
from ttlproxy.operations.doctor.target import Target

# The doctor's own scripts, which proxies do not load.
_PROBE: Final = files(__package__).joinpath("probe.lua").read_bytes()
_COMPILE: Final = files(__package__).joinpath("compile.lua").read_bytes()
# Errors from the server's current state, which other checks report.
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
    """Returns commands that scripts call and that this server lacks although its version has
    them."""
    later = {rule for rule, since in SINCE.items() if since > target.version}
    names = sorted(name.decode() for name in all_scripted(target.keys.clustered))
    return [
        name
        for name in names
        if target.commands and name not in target.commands and f"+{name.lower()}" not in later
    ]


async def _refused(target: Target) -> dict[str, str]:
    """Returns scripts that do not compile, and calls that fail for other reasons than a missing
    right."""
    texts = {name: script.text for name, script in target.scripts().items()}
    key = target.keys.prefix + b"!doctor"
    trials = (
        Call("reap", (key,), (b"10", b"1000", b"*", b"", b"", b"", b"1")),
        Call("sweep", (key,), (b"0", b"10")),
        Call("keys_first", (key,), ()),
    )
    script_calls = await target.script_calls(*(call.script for call in trials))
    compiled = await target.ask_each(0, [(b"EVAL", _COMPILE, 0, text) for text in texts.values()])
    called = await run(target.redis, [(0, script_calls.words(call, b"0")) for call in trials])
    # The reply is the reason if a script does not compile, and nil otherwise.
    refused = {
        name: reply.decode(errors="replace")
        for name, reply in zip(texts, compiled, strict=True)
        if reply is not None
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
