"""Checks whether scripts run: the server compiles each one. Those that the proxy calls itself are
also run, for a key that does not exist, so that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.keys import Keys
from ttlproxy.link import run
from ttlproxy.operations.doctor.content import script_calls_of
from ttlproxy.operations.doctor.finding import ERROR, OK, WARNING, Finding
from ttlproxy.operations.doctor.required_rights import SINCE, all_scripted
from ttlproxy.operations.doctor.server import permit
from ttlproxy.operations.doctor.target import Target
from ttlproxy.scripts import Scripts

# The doctor's own scripts. The proxies do not load them, so they are not among theirs.
PROBE: Final = files(__package__).joinpath("probe.lua").read_bytes()
COMPILE: Final = files(__package__).joinpath("compile.lua").read_bytes()
# Errors from the server's current state; other checks report that.
_PASSING: Final = (
    *("READONLY", "LOADING", "MASTERDOWN", "BUSY", "MISCONF", "NOREPLICAS", "OOM", "EXECABORT"),
)
_SHOWN: Final = 3


def _trials(keys: Keys) -> tuple[Call, ...]:
    """Calls of the proxy's own scripts that find nothing to do."""
    key = keys.prefix + b"!doctor"
    in_cluster = (
        Call("slots_survey", (), (b"x1F",)),
        Call("slots_occupied", (), (b"x1F",)),
        Call("slots_learn", (), (b"1", b"")),
        Call("outbox_read", (key,), (b"1", b"1")),
        Call("outbox_apply", (key,), (b"0", b"0")),
        Call("outbox_drop", (key,), (b"",)),
    )
    return (
        Call("reap", (key,), (b"10", b"1000", b"*", b"", b"", b"", b"1")),
        Call("sweep", (key,), (b"0", b"10")),
        Call("keys_first", (key,), ()),
        Call("keys_recheck", (key,), (b"0",)),
        Call("lease_drop", (), (b"nobody",)),
        Call("schedule_fix", (key,), ()),
        Call("barrier", (), ()),
        Call("hash_adopt", (key,), (b"0",)),
        Call("key_examine", (key,), (b"1",)),
        Call("key_inspect", (key,), (b"0", b"1", b"10")),
        Call("keys_survey", (key,), (b"1",)),
        Call("deferred_page", (key,), (b"1", b"10")),
        Call("schedule_page", (), (b"0", b"1", b"10")),
        Call("schedule_survey", (), (b"1", b"1")),
        Call("rule_list", (key,), (key,)),
        Call("others_survey", (), (b"1", b"", b"")),
        *(in_cluster if keys.clustered else ()),
    )


async def scripting(target: Target) -> list[Finding]:
    try:
        await target.ask(b"EVAL", PROBE, 0)
    except ResponseError as refused:
        return [
            Finding(
                "scripting",
                ERROR,
                f"scripts do not run: {refused}",
                "Scripts set, read and remove deadlines.",
                permit(target, refused, "+eval +evalsha +script +time")
                or "do not rename EVAL (rename-command); if the server is busy, wait",
            )
        ]
    found = [*_lacking(target), *_by_text(target), *await _refused(target)]
    return found or [
        Finding("scripting", OK, "all scripts compile, and those that the proxy calls itself run")
    ]


def _lacking(target: Target) -> Iterator[Finding]:
    """Commands that scripts call and that this server lacks although its version has them."""
    later = {rule for rule, since in SINCE.items() if since > target.version}
    scripted = all_scripted(target.keys.clustered)
    names = sorted(name.decode() for name in scripted)
    missing = [name for name in names if f"+{name.lower()}" not in later]
    missing = [name for name in missing if target.commands and name not in target.commands]
    if missing:
        yield Finding(
            "scripting",
            ERROR,
            f"the server lacks {', '.join(missing)}",
            "Scripts call these commands, and fail.",
            "remove their rename-command from redis.conf, and restart the server",
        )


def _by_text(target: Target) -> Iterator[Finding]:
    if target.has_sha:
        return
    yield Finding(
        "scripting",
        WARNING,
        "the server lacks EVALSHA",
        "Each script call sends the whole script, several kilobytes.",
        "remove its rename-command from redis.conf, and restart the server",
    )


async def _refused(target: Target) -> list[Finding]:
    """Scripts that do not compile, and calls that fail for other reasons than a missing right."""
    texts = {name: script.text for name, script in _scripts(target).items()}
    compiles = [(0, (b"EVAL", COMPILE, 0, text)) for text in texts.values()]
    trials = _trials(target.keys)
    script_calls = await script_calls_of(target, *(call.script for call in trials))
    calls = [(0, script_calls.words(call, b"0")) for call in trials]
    made, called = await run(target.redis, compiles), await run(target.redis, calls)
    whys = zip(texts, map(_why, made), strict=True)
    failed = ((call.script, reply) for call, reply in zip(trials, called, strict=True))
    refused = {name: why for name, why in whys if why}
    refused |= {
        name: str(reply)
        for name, reply in failed
        if isinstance(reply, ResponseError) and not _is_no_fault(reply)
    }
    if not refused:
        return []
    shown = "; ".join(f"{name}: {text}" for name, text in list(refused.items())[:_SHOWN])
    return [
        Finding(
            "scripting",
            ERROR,
            f"{len(refused)} scripts do not run: {shown}",
            "Commands or the reaper need them, and fail.",
            "do not rename the commands that the server does not know (rename-command)",
        )
    ]


def _why(reply: object) -> str:
    """Why a script does not compile; empty if it does."""
    return reply.decode(errors="replace") if isinstance(reply, bytes) else ""


def _is_no_fault(refusal: ResponseError) -> bool:
    if isinstance(refusal, NoPermissionError) or "can't run this command" in str(refusal):
        return True  # the check of rights reports it
    return any(word in str(refusal) for word in _PASSING)


def _scripts(target: Target) -> Scripts:
    scripts = Scripts(target.keys.prefix)
    scripts.suit(target.traits)
    return scripts
