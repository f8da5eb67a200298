"""The rights of the proxy's own user: what is missing of those in `required_rights`.

Nothing of it is carried out: inside MULTI Redis looks at each right, and DISCARD forgets the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.link import run
from ttlproxy.operations.doctor.finding import INFO, OK, Finding, Severity
from ttlproxy.operations.doctor.required_rights import FIELD_TTLS, SINCE, Right, asked, scripted
from ttlproxy.operations.doctor.target import Target

_KEYS = re.compile(r"\bkeys?\b")
_OF_CHANNELS = (b"PUBLISH", b"SPUBLISH")  # asked of a channel
_KEYSPACE = (b"__keyspace@0__:k", b"__subkeyspace@0__:k")


async def rights(target: Target) -> list[Finding]:
    """What is missing of the rights, each bundle with the worst that follows from it."""
    needed = [*asked(target.keys), *_of_scripts(target), *_of_events(target)]
    try:
        refused = await _refused(target, needed)
    except NoPermissionError:
        return [
            Finding(
                "rights",
                INFO,
                f"the rights of user {target.user} cannot be tried",
                "Only inside MULTI can that be done without consequences.",
                f"ACL SETUSER {target.user} +multi +discard",
            )
        ]
    missing = list(_missing(target, needed, refused))
    return missing or [Finding("rights", OK, f"user {target.user} has all rights it needs")]


def _of_scripts(target: Target) -> Iterator[Right]:
    """Asked in requests of as many words as the server takes: else it refuses them for that."""
    for name, (severity, without) in scripted().items():
        known = target.commands.get(name.decode())
        count = abs(known.arity) if known else 4
        if name not in _OF_CHANNELS:
            yield Right((name, *[target.keys.schedule] * (count - 1)), severity, without)


def _of_events(target: Target) -> Iterator[Right]:
    for channel in _KEYSPACE if target.config.get("notify-keyspace-events") else ():
        yield Right((b"PUBLISH", channel, b""), INFO, "Events of elements are not published there.")


async def _refused(target: Target, needed: Iterable[Right]) -> list[NoPermissionError | None]:
    """What Redis would answer to each for want of a right.

    Raises NoPermissionError for MULTI, or DISCARD.
    """
    await target.ask(b"MULTI")
    requests = [(0, right.words) for right in needed]
    *replies, discarded = await run(target.redis, [*requests, (0, (b"DISCARD",))])
    if isinstance(discarded, NoPermissionError):
        await target.redis.connection_pool.disconnect()  # which ends the transaction, too
        raise discarded
    return [reply if isinstance(reply, NoPermissionError) else None for reply in replies]


def _missing(
    target: Target, needed: Iterable[Right], refused: Iterable[NoPermissionError | None]
) -> Iterator[Finding]:
    """A finding for each thing that follows from what is missing, with all the rules it wants.

    Of what follows from one rule the worst.
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
            f"user {target.user} has not the right to {line}",
            without,
            f"ACL SETUSER {target.user} {line}",
        )


def _is_there(target: Target, right: Right) -> bool:
    """Whether the server has what the right is to: of Valkey the version does not tell."""
    if right.rule in FIELD_TTLS:
        return right.words[0].decode() in target.commands
    return SINCE.get(right.rule, ()) <= target.version


def _rule(target: Target, right: Right, refusal: ResponseError) -> str:
    """The rule that is wanted: Redis says whether for the command, a key or a channel."""
    text = str(refusal)
    internal = target.keys.prefix in b" ".join(right.words)
    if "channel" in text:
        return f"&{target.keys.prefix.decode()}*" if internal else "&*"
    if _KEYS.search(text) and "run the" not in text:
        return f"~{target.keys.prefix.decode()}*" if internal else "~*"
    return right.rule
