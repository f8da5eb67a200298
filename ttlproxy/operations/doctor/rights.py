"""Checks which of the `required_rights` the proxy's own user does not have.

It sends a request for each right inside MULTI, where Redis checks the right, and then DISCARD, so
that nothing is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.link import run
from ttlproxy.operations.doctor.finding import INFO, OK, Finding, Severity
from ttlproxy.operations.doctor.required_rights import FIELD_TTLS, SINCE, Right, asked, scripted
from ttlproxy.operations.doctor.target import Target

# In the words of Redis before 7.2, and since.
_PLACE = re.compile(r"access (?:one of the|a|the '.*') (key|channel)", re.DOTALL)
_SIGNS = {"key": "~", "channel": "&"}
_OF_CHANNELS = (b"PUBLISH", b"SPUBLISH")  # `asked` has these, with a channel
_KEYSPACE = (b"__keyspace@0__:k", b"__subkeyspace@0__:k")


async def rights(target: Target) -> list[Finding]:
    """A finding for each group of missing rights with the same consequence."""
    needed = [*asked(target.keys), *_of_scripts(target), *_of_events(target)]
    try:
        refused = await _refused(target, needed)
    except NoPermissionError:
        return [
            Finding(
                "rights",
                INFO,
                f"the rights of user {target.user} cannot be checked",
                "The check uses MULTI and DISCARD, so that nothing is executed.",
                f"ACL SETUSER {target.user} +multi +discard",
            )
        ]
    missing = list(_missing(target, needed, refused))
    return missing or [Finding("rights", OK, f"user {target.user} has all rights it needs")]


def _of_scripts(target: Target) -> Iterator[Right]:
    """Rights to the commands of scripts; each request has the number of words that the server
    requires."""
    for name, (severity, without) in scripted().items():
        known = target.commands.get(name.decode())
        count = abs(known.arity) if known else 4
        if name not in _OF_CHANNELS:
            schedule = target.keys.home(target.keys.schedule)
            yield Right((name, *[schedule] * (count - 1)), severity, without)


def _of_events(target: Target) -> Iterator[Right]:
    for channel in _KEYSPACE if target.config.get("notify-keyspace-events") else ():
        yield Right((b"PUBLISH", channel, b""), INFO, "No element events are published there.")


async def _refused(target: Target, needed: Iterable[Right]) -> list[NoPermissionError | None]:
    """For each right Redis's NOPERM error, or None.

    Raises NoPermissionError if MULTI or DISCARD is refused.
    """
    await target.ask(b"MULTI")
    requests = [(0, right.words) for right in needed]
    *replies, discarded = await run(target.redis, [*requests, (0, (b"DISCARD",))])
    if isinstance(discarded, NoPermissionError):
        await target.redis.connection_pool.disconnect()  # this ends the transaction too
        raise discarded
    return [reply if isinstance(reply, NoPermissionError) else None for reply in replies]


def _missing(
    target: Target, needed: Iterable[Right], refused: Iterable[NoPermissionError | None]
) -> Iterator[Finding]:
    """A finding for each consequence of missing rights, with all the ACL rules it needs.

    A rule counts for its worst consequence only.
    """
    worst: dict[str, Right] = {}
    for right, refusal in zip(needed, refused, strict=True):
        if refusal and _is_there(target, right):
            rule = _rule(target, right, refusal)
            if rule not in worst or right.severity > worst[rule].severity:
                worst[rule] = right
    wanted: dict[tuple[Severity, str], list[str]] = {}
    for rule, right in worst.items():
        wanted.setdefault((right.severity, right.without), []).append(rule)
    for (severity, without), rules in wanted.items():
        line = " ".join(rules)
        yield Finding(
            "rights",
            severity,
            f"user {target.user} lacks the rights {line}",
            without,
            f"ACL SETUSER {target.user} {line}",
        )


def _is_there(target: Target, right: Right) -> bool:
    """Whether the server has the command of the right; Valkey's version does not show it."""
    if right.rule in FIELD_TTLS:
        return right.words[0].decode() in target.commands
    return SINCE.get(right.rule, ()) <= target.version


def _rule(target: Target, right: Right, refusal: ResponseError) -> str:
    """The missing ACL rule: Redis's error says whether it is a command, a key or a channel."""
    place = _PLACE.search(f"{refusal}")
    if not place:
        return right.rule
    internal = target.keys.prefix in b" ".join(right.words)
    return f"{_SIGNS[place[1]]}{target.keys.prefix.decode() if internal else ''}*"
