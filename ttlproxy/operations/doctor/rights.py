"""Checks of rights: which of the `required_rights` the proxy's own user lacks, whether clients'
users can change deadlines of keys that they have no right to, and whether clients need a password.

It sends a request for each right inside MULTI, where Redis checks the right, and then DISCARD, so
that nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.core.permissions import asks_login, reaches_narrowly
from ttlproxy.core.text import counted
from ttlproxy.link import run
from ttlproxy.operations.doctor.finding import Finding, Severity, info, ok, warning
from ttlproxy.operations.doctor.required_rights import FIELD_TTLS, SINCE, Right, asked, scripted
from ttlproxy.operations.doctor.target import Target

# Redis used other words before 7.2.
_PLACE = re.compile(r"access (?:one of the|a|the '.*') (key|channel)", re.DOTALL)
_SIGNS = {"key": "~", "channel": "&"}
_OF_CHANNELS = (b"PUBLISH", b"SPUBLISH")  # `asked` has these, with a channel
# A user who may write to the indexes of these two has a pattern for all indexes, or nearly all.
_KEYS = (b"\x01 a key of nobody \x7f", b"{\xfe}another of nobody")


async def rights(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding for each group of missing rights with the same consequence; each for its
    worst one only."""
    needed = [*asked(target.keys), *_of_scripts(target)]
    try:
        replies = await _replies(target, needed)
    except NoPermissionError:
        yield info(
            f"the rights of user {target.user} cannot be checked",
            "The check uses MULTI and DISCARD, so that nothing is executed.",
            f"ACL SETUSER {target.user} +multi +discard",
        )
        return
    worst: dict[str, Right] = {}
    for right, reply in zip(needed, replies, strict=True):
        is_there = SINCE.get(right.rule, ()) <= target.version
        if right.rule in FIELD_TTLS:  # Valkey's version does not tell
            is_there = right.words[0].decode() in target.commands
        if isinstance(reply, NoPermissionError) and is_there:
            rule = _rule(target, right, reply)
            worst[rule] = max(worst.get(rule, right), right, key=lambda each: each.severity)
    missing: dict[tuple[Severity, str], list[str]] = {}
    for rule, right in worst.items():
        missing.setdefault((right.severity, right.without), []).append(rule)
    for (severity, without), rules in missing.items():
        line = " ".join(rules)
        what = f"user {target.user} lacks the rights {line}"
        yield Finding(severity, what, without, f"ACL SETUSER {target.user} {line}")
    if not missing:
        yield ok(f"user {target.user} has all rights it needs")


def _of_scripts(target: Target) -> Iterator[Right]:
    """Yields the rights to the commands of scripts; each request has the number of words that the
    server requires."""
    for name, (severity, without) in scripted().items():
        known = target.commands.get(name.decode())
        count = abs(known.arity) if known else 4
        if name not in _OF_CHANNELS:
            schedule = target.keys.home(target.keys.schedule)
            yield Right((name, *[schedule] * (count - 1)), severity, without)


async def _replies(target: Target, needed: Iterable[Right]) -> list[object]:
    """Returns Redis's reply to each request. Raises NoPermissionError if MULTI or DISCARD is
    refused."""
    await target.ask(b"MULTI")
    requests = [(0, right.words) for right in needed]
    *replies, discarded = await run(target.redis, [*requests, (0, (b"DISCARD",))])
    if isinstance(discarded, NoPermissionError):
        await target.redis.connection_pool.disconnect()  # this ends the transaction too
        raise discarded
    return replies


def _rule(target: Target, right: Right, refusal: ResponseError) -> str:
    """Returns the missing ACL rule: Redis's error says whether it is a command, a key or a
    channel."""
    place = _PLACE.search(f"{refusal}")
    if not place:
        return right.rule
    internal = target.keys.prefix in b" ".join(right.words)
    return f"{_SIGNS[place[1]]}{target.keys.prefix.decode() if internal else ''}*"


async def users(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding if users can write to indexes of all keys, or to the state, but not to all
    keys."""
    lines = [line.split(b" ", 2) for line in await target.ask(b"ACL", b"LIST")]
    keys = target.keys
    state, outbox = keys.home(keys.state), keys.outbox
    indexes, trusted = map(keys.index, _KEYS), (state, outbox + b":{x1F}:1")
    for internal, shown, can in (
        (
            [*indexes],
            f"{keys.prefix.decode()}*",
            "They can read and remove elements of keys that they may not access, and change"
            " deadlines.",
        ),
        (
            trusted,
            f"{state.decode()} or {outbox.decode()}*",
            "They can make the proxy run commands on keys that they may not access.",
        ),
    ):
        names = [
            name
            for _, name, rules in lines
            if name.decode() != target.user
            and any(reaches_narrowly(rules, key) for key in internal)
        ]
        if names:
            yield warning(
                f"{counted(len(names), 'user')} may write to {shown} but not to all keys",
                can,
                "replace their rules by what ttlproxy rights prints for their key patterns",
                tuple(names),
            )


async def protected_mode(target: Target) -> AsyncIterator[Finding]:
    """Yields a finding if clients of other machines need no password, or would need one."""
    settings = target.settings
    fix = "CONFIG SET requirepass, or passwords of ACL users and ACL SETUSER default off"
    if settings.tls_auth_clients == "yes":
        yield ok("clients must show a certificate")
    elif not settings.is_open_to_other_machines:
        yield ok(f"only this machine can reach {settings.listen}")
    elif asks_login(await target.ask(b"ACL", b"LIST")):
        yield ok("Redis asks clients for a password")
    elif settings.protected_mode == "no":
        yield info(
            f"everybody who can reach {settings.listen} may use Redis",
            "Redis asks for no password, and protected_mode is no.",
            fix,
        )
    else:
        yield warning(
            "only clients on this machine are served: Redis asks for no password",
            "Protected mode refuses all others with DENIED.",
            f"{fix}; or --protected-mode no, if only trusted clients can reach the proxy",
        )
