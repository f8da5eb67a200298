"""The rights of the proxy's own user: the table of what it needs, and what of that is missing.

Nothing of it is carried out: inside MULTI Redis looks at each right, and DISCARD forgets the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.doctor.finding import ERROR, INFO, OK, WARNING, Finding, Severity
from ttlproxy.doctor.patient import Patient
from ttlproxy.keys import Keys
from ttlproxy.link import run
from ttlproxy.scripts import Scripts

_SCRIPTS = ("reap", "sweep", "lease_take", "lease_drop", "state_keep")
_DOCTORS = ("key_examine",)
_WORD = re.compile(rb"'([A-Z]{3,})'")
_CALLED = re.compile(rb"(?:call|try)\('([A-Z]+)'")
_KEYS = re.compile(r"\bkeys?\b")
_ANY_KEY = b"any-key-of-a-client"
_KEYSPACE = (b"__keyspace@0__:k", b"__subkeyspace@0__:k")


class Right(NamedTuple):
    """words: a request that needs it; severity: of its want; without: what happens then."""

    words: tuple[bytes, ...]
    severity: Severity
    without: str

    @property
    def rule(self) -> str:
        """As ACL SETUSER takes it."""
        return (
            "+" + b"|".join(self.words[: 2 if self.words[0] in _CONTAINERS else 1]).decode().lower()
        )


_CONTAINERS = (b"ACL", b"CLIENT", b"CONFIG", b"SCRIPT", b"SLOWLOG")
# Since when there are these; an older server refuses a rule with them.
_SINCE = {
    "+client|no-evict": (7, 0),
    "+spublish": (7, 0),
    "+client|no-touch": (7, 2),
    "+hpexpiretime": (7, 4),
}
_STARTS = "The proxy serves nobody."
_UNSHARED = "What one proxy signs, another does not carry out."


def _rights(keys: Keys) -> tuple[Right, ...]:
    """What the link and the reaper ask themselves."""
    schedule = keys.schedule
    return (
        Right((b"HELLO", b"3"), ERROR, _STARTS),
        Right((b"CLIENT", b"SETNAME", b"n"), ERROR, _STARTS),
        Right((b"CLIENT", b"TRACKING", b"ON"), ERROR, _STARTS),
        Right((b"INFO",), ERROR, _STARTS),
        Right((b"TIME",), ERROR, _STARTS),
        Right((b"HMGET", keys.state, b"secret"), WARNING, _UNSHARED),
        Right((b"SCRIPT", b"LOAD", b""), ERROR, _STARTS),
        Right((b"SCRIPT", b"EXISTS", b""), ERROR, _STARTS),
        Right((b"EVALSHA", b"", b"0"), ERROR, _STARTS),
        Right((b"EVAL", b"", b"0"), ERROR, _STARTS),
        Right((b"ZSCAN", schedule, b"0"), ERROR, _STARTS),
        Right((b"ZRANGEBYSCORE", schedule, b"0", b"0"), ERROR, "Nothing is reaped."),
        Right((b"HGETALL", keys.rules), ERROR, _STARTS),
        Right((b"MGET", keys.rules), ERROR, _STARTS),
        Right((b"ZCOUNT", schedule, b"0", b"0"), INFO, "The figures do not tell what is overdue."),
        Right((b"ZCARD", schedule), WARNING, "The proxy remembers keys for longer than it has to."),
        Right((b"SELECT", b"0"), ERROR, "Only database 0 has deadlines that are kept."),
        Right((b"SET", keys.hello, b""), WARNING, "Another proxy may see deadlines late."),
        Right((b"DEL", keys.hello), WARNING, "Another proxy may see deadlines late."),
        Right((b"COMMAND",), WARNING, "Every word of a request may be a key, which costs reaps."),
        Right((b"CONFIG", b"GET", b"x"), INFO, "No events of elements are published."),
        Right((b"ACL", b"LIST"), INFO, "Each client is taken to have the right to scripts."),
        Right((b"ACL", b"CAT"), INFO, "ACL CAT does not name the proxy's commands."),
        Right(
            (b"SCAN", b"0"), INFO, "The doctor cannot look for deadlines that no schedule names."
        ),
        Right((b"EXISTS", schedule), INFO, "The doctor cannot mend."),
        Right((b"CLIENT", b"NO-EVICT", b"ON"), INFO, "A full server may drop the reaper."),
        Right((b"CLIENT", b"NO-TOUCH", b"ON"), INFO, "Reaps count as uses of keys, for eviction."),
    )


def _waits(keys: Keys) -> Iterator[tuple[bytes, ...]]:
    yield b"BLMOVE", keys.schedule, keys.schedule, b"LEFT", b"LEFT", b"0"
    yield b"LLEN", keys.schedule


def _fires(keys: Keys) -> Iterator[tuple[bytes, ...]]:
    """What a script calls by names that are put together."""
    yield b"HMGET", keys.schedule, b""
    yield b"LPUSH", keys.schedule, b""
    yield b"SPUBLISH", b"any-channel", b""


def scripted(names: Iterable[str] = (*_SCRIPTS, *_DOCTORS)) -> list[bytes]:
    """The commands of Redis that scripts call, those of the link and the doctor's."""
    scripts = Scripts(b"")
    called = {name for script in scripts.values() for name in _CALLED.findall(script.text)}
    named = {word for name in names for word in _WORD.findall(scripts[name].text)}
    return sorted(called & named)


def rules(version: tuple[int, ...] = (6, 2)) -> list[str]:
    """What a user of the proxy's own needs, as ACL SETUSER takes it; and what the doctor does."""
    later = {rule for rule, since in _SINCE.items() if since > version}
    own = {right.rule for right in _rights(Keys(b""))}
    theirs = {f"+{name.decode().lower()}" for name in scripted()}
    return ["~*", "&*", *sorted((own | theirs) - later), "+multi", "+discard"]


async def rights(patient: Patient) -> list[Finding]:
    """What is missing of the rights, each bundle with the worst that follows from it."""
    needed = [*_rights(patient.keys), *_of_scripts(patient), *_of_names(patient)]
    try:
        refused = await _refused(patient, needed)
    except NoPermissionError:
        return [
            Finding(
                "rights",
                INFO,
                f"the rights of user {patient.user} cannot be tried",
                "Only inside MULTI can that be done without consequences.",
                f"ACL SETUSER {patient.user} +multi +discard",
            )
        ]
    missing = list(_missing(patient, needed, refused))
    return missing or [Finding("rights", OK, f"user {patient.user} has all rights it needs")]


def _of_scripts(patient: Patient) -> Iterator[Right]:
    looked = {*scripted()} - {*scripted(_SCRIPTS)}
    for name in scripted():
        if name == b"PUBLISH":
            continue  # a script goes on without it
        arity = (
            abs(patient.commands[name.decode()].arity) if name.decode() in patient.commands else 4
        )
        words = (name, *[patient.keys.schedule] * (arity - 1))
        if name in looked:
            yield Right(words, INFO, "The doctor cannot look at deadlines.")
        else:
            yield Right(words, ERROR, "Scripts of the proxy fail, and nothing is reaped.")


def _of_names(patient: Patient) -> Iterator[Right]:
    """Keys and channels that clients choose."""
    yield Right((b"TYPE", _ANY_KEY), WARNING, "Elements of other keys are never reaped.")
    for channel in _KEYSPACE if patient.config.get("notify-keyspace-events") else ():
        yield Right((b"PUBLISH", channel, b""), INFO, "Events of elements are not published there.")


async def _refused(patient: Patient, needed: Iterable[Right]) -> list[NoPermissionError | None]:
    """What Redis would answer to each for want of a right. Raises NoPermissionError for MULTI."""
    await patient.ask(b"MULTI")
    asked = [(0, right.words) for right in needed]
    *replies, _ = await run(patient.redis, [*asked, (0, (b"DISCARD",))])
    return [reply if isinstance(reply, NoPermissionError) else None for reply in replies]


def _missing(
    patient: Patient, needed: Iterable[Right], refused: Iterable[NoPermissionError | None]
) -> Iterator[Finding]:
    """A finding for each thing that follows from what is missing, with all the rules it wants.

    Of what follows from one rule the worst.
    """
    worst: dict[str, Right] = {}
    for right, refusal in zip(needed, refused, strict=True):
        if refusal and _SINCE.get(right.rule, ()) <= patient.version:
            rule = _rule(patient, right, refusal)
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
            f"user {patient.user} has not the right to {line}",
            without,
            f"ACL SETUSER {patient.user} {line}",
        )


def _rule(patient: Patient, right: Right, refusal: ResponseError) -> str:
    """The rule that is wanted: Redis says whether for the command, a key or a channel."""
    text = str(refusal)
    internal = patient.keys.prefix in b" ".join(right.words)
    if "channel" in text:
        return f"&{patient.keys.prefix.decode()}*" if internal else "&*"
    if _KEYS.search(text) and "run the" not in text:
        return f"~{patient.keys.prefix.decode()}*" if internal else "~*"
    return right.rule
