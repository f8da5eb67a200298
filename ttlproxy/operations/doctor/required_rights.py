"""The rights that the proxy's own user needs: one table, for docs/security.md and for the doctor.

The commands that scripts call are read from the scripts, also names that scripts build at run time.
Each command that the proxy and its subcommands send themselves is a row; a test compares the rows
with the sources. Knows no connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ttlproxy.core.keys import MEETING, Keys
from ttlproxy.operations.doctor.finding import ERROR, INFO, WARNING, Severity
from ttlproxy.scripts import Scripts, Traits

# Placeholders for keys and channels that clients choose.
ANY_KEY: Final = b"any-key-of-a-client"
ANY_CHANNEL: Final = b"any-channel-of-a-client"

_STARTS: Final = "The proxy cannot serve clients."
_UNSHARED: Final = "Proxies ignore the rules and deferred commands that others have signed."
_UNSTORED: Final = "Each proxy that starts asks for all commands, which takes Redis a millisecond."
_READS_NAMES: Final = "A proxy that starts reads the names of all keys with deadlines."
_LATE: Final = "Other proxies may learn of deadlines late."
_UNSURE: Final = (
    "A value that is written through another proxy may keep the deadline that this one has just"
    " set, and be deleted."
)
_UNENDED: Final = "If another proxy hangs, the first deadlines of new families of keys wait for it."
_FIRES: Final = "Scripts call these: expired elements are not removed or not delivered."
_SILENT: Final = "ONEXPIRE and DEFER cannot publish, and there are no element events."
_WAITS: Final = "LEASE ... BLOCK does not wait."
_UNTOLD_SLOTS: Final = "Rules of ONEXPIRE cannot be set."
_UNNAMED_NODES: Final = (
    "Nodes of a Cluster are reached by IP address, also if they want to be named."
)
_UNCARRIED: Final = "Rules of ONEXPIRE with OUTBOX do not deliver to other slots."
_UNDATED: Final = (
    "What RENAME, STORE forms and the like put into keys gets no deadline by rules of ONWRITE."
)
_UNPURGED: Final = "ttlproxy purge fails."
_UNTOLD: Final = "The status page is incomplete."
_UNCOUNTED: Final = "The metrics do not show deferred commands and kept elements."
_UNEXAMINED: Final = "The doctor cannot check deadlines."
_MISCOUNTED: Final = "DBSIZE may count internal keys of the proxy."
_UNMENDED: Final = "ttlproxy doctor --apply fails."

CONTAINERS: Final = frozenset(
    {b"ACL", b"CLIENT", b"CLUSTER", b"CONFIG", b"FUNCTION", b"PUBSUB", b"SCRIPT", b"SLOWLOG"}
)
# The Redis versions that introduced these; older servers refuse an ACL rule with them.
SINCE: Final[Mapping[str, tuple[int, int]]] = {
    "+client|no-evict": (7, 0),
    "+function|list": (7, 0),
    "+spublish": (7, 0),
    "+client|no-touch": (7, 2),
    "+client|setinfo": (7, 2),
    "+hpersist": (7, 4),
    "+hpexpireat": (7, 4),
    "+hpexpiretime": (7, 4),
    # Of Valkey 9.1, which gives its Redis version as 7.2: only the client that calls it needs it.
    "+clusterscan": (99, 0),
}
# Valkey has these since 9.0, which gives its Redis version as 7.2.
FIELD_TTLS: Final = frozenset({"+hpersist", "+hpexpireat", "+hpexpiretime"})
# Script -> how bad it is if one of its commands is refused, and what happens then.
SCRIPTS: Final[Mapping[str, tuple[Severity, str]]] = {
    **dict.fromkeys(("reap", "sweep", "keys_first", "lease_take", "lease_drop"), (ERROR, _FIRES)),
    "state_keep": (WARNING, _UNSHARED),
    "state_families": (ERROR, "Keys of a new family get no deadlines."),
    "state_drop": (INFO, "A key of the proxy's stays where nobody needs it any more."),
    "key_date": (WARNING, _UNDATED),
    "keys_recheck": (WARNING, "The proxy notices late that keys with deadlines were deleted."),
    "walk_announce": (INFO, "Several proxies look for deleted keys, where one could for all."),
    "barrier": (WARNING, "Reads also wait while the server pauses writes."),
    "hash_adopt": (WARNING, "ONEXPIRE does not apply to field deadlines of the server's own."),
    "schedule_fix": (WARNING, "Keys that are missing from the schedule are not put back."),
    "schedule_clear": (WARNING, "A value of another type in place of a schedule is not removed."),
    "slots_learn": (WARNING, _UNTOLD_SLOTS),
    "slots_occupied": (INFO, "The proxy reads the schedule of each slot, also where it is empty."),
    **dict.fromkeys(("outbox_apply", "outbox_drop", "outbox_read"), (WARNING, _UNCARRIED)),
    "others_tidy": (INFO, _MISCOUNTED),
    "deferred_examine": (INFO, _UNEXAMINED),
    "key_examine": (INFO, _UNEXAMINED),
    "others_survey": (INFO, _UNCOUNTED),
    **dict.fromkeys(
        (
            *(
                "key_inspect",
                "keys_survey",
                "rule_list",
                "write_rule_list",
                "schedule_page",
                "schedule_survey",
                "deferred_page",
            ),
            "slots_survey",
        ),
        (INFO, _UNTOLD),
    ),
}
_WORD: Final = re.compile(rb"'([A-Z]{3,})'|\bhandlers\.([A-Z]{3,})\b")
# Words in scripts that look like a command but are an option, a reply or a name of ours.
OPTIONS: Final = frozenset(
    b"BYLEX BYSCORE COUNT ELEMENT ENX EVENT FIELDS FLOAT FXX KEEP KEEPTTL LEFT LIMIT LIST MYID PXAT"
    b" REPLACE REV RIGHT SATURATE VALUE WITHSCORES WRONGTYPE".split()
)


class Right(NamedTuple):
    """words: a request that needs the right; severity: if it is missing; without: what happens
    then."""

    words: tuple[bytes, ...]
    severity: Severity
    without: str

    @property
    def rule(self) -> str:
        """The rule for ACL SETUSER."""
        count = 2 if self.words[0] in CONTAINERS else 1
        return "+" + b"|".join(self.words[:count]).decode().lower()


_IN_CLUSTER: Final = (
    Right((b"CLUSTER", b"NODES"), ERROR, _STARTS),
    Right((b"CLUSTER", b"SLOTS"), WARNING, _UNNAMED_NODES),
    Right((b"ASKING",), WARNING, _UNTOLD_SLOTS),
)


def asked(keys: Keys) -> tuple[Right, ...]:
    """The requests that the link, the reaper, the pages and the subcommands send themselves."""
    schedule, state = keys.home(keys.schedule), keys.home(keys.state)
    rules, others = keys.home(keys.rules), keys.home(keys.others)
    return (
        *(_IN_CLUSTER if keys.clustered else ()),
        Right((b"CLIENT", b"SETNAME", b"n"), ERROR, _STARTS),
        Right(
            (b"CLIENT", b"SETINFO", b"lib-name", b"n"), INFO, "CLIENT LIST shows no library name."
        ),
        Right((b"CLIENT", b"TRACKING", b"ON"), ERROR, _STARTS),
        Right((b"INFO",), ERROR, _STARTS),
        Right((b"ROLE",), INFO, "The proxy asks INFO for the role, which costs Redis more."),
        Right((b"TIME",), ERROR, _STARTS),
        Right((b"HMGET", state, b"secret"), WARNING, _UNSHARED),
        Right((b"HKEYS", state), INFO, _READS_NAMES),
        Right((b"HGET", state, b"commands"), INFO, _UNSTORED),
        Right((b"HSET", state, b"commands", b""), INFO, _UNSTORED),
        Right((b"SCRIPT", b"LOAD", b""), ERROR, _STARTS),
        Right((b"SCRIPT", b"EXISTS", b""), ERROR, _STARTS),
        Right((b"EVALSHA", b"", b"0"), ERROR, _STARTS),
        Right((b"EVAL", b"", b"0"), ERROR, _STARTS),
        Right((b"ZSCAN", schedule, b"0"), ERROR, _STARTS),
        Right((b"ZRANGEBYSCORE", schedule, b"0", b"0"), ERROR, "Expired elements are not removed."),
        Right((b"HGETALL", rules), ERROR, _STARTS),
        Right((b"MGET", rules), ERROR, _STARTS),
        Right((b"ZCOUNT", schedule, b"0", b"0"), INFO, "The metrics do not show what is overdue."),
        Right((b"ZCARD", schedule), WARNING, "The proxy remembers keys for longer than it has to."),
        Right(
            (b"ZMSCORE", schedule, b""),
            WARNING,
            "Keys that are missing from the schedule are not found.",
        ),
        Right(
            (b"ZRANGE", schedule, b"0", b"0"),
            WARNING,
            "The page does not show which elements wait.",
        ),
        *(
            Right(words, WARNING, _UNSURE)
            for words in (
                (b"SUBSCRIBE", keys.broadcast),
                (b"SUBSCRIBE", keys.told_channel(b"")),
                (b"UNSUBSCRIBE", keys.told_channel(b"")),
                (b"PUBLISH", MEETING, b""),
                (b"PUBSUB", b"NUMSUB"),
            )
        ),
        Right((b"CLIENT", b"KILL", b"ID", b"0"), WARNING, _UNENDED),
        Right(
            (b"PUBSUB", b"CHANNELS"),
            WARNING,
            "A proxy does not notice others with another prefix or signing key, and data is lost.",
        ),
        Right((b"SELECT", b"0"), ERROR, "Deadlines work in database 0 only."),
        Right((b"SET", keys.hello, b""), WARNING, _LATE),
        Right((b"DEL", keys.hello), WARNING, _LATE),
        Right((b"BLMOVE", ANY_KEY, ANY_KEY, b"LEFT", b"LEFT", b"0"), WARNING, _WAITS),
        Right((b"LLEN", ANY_KEY), WARNING, _WAITS),
        Right(
            (b"COMMAND",),
            WARNING,
            "The proxy takes every word of a request for a key, and reaps more than needed.",
        ),
        Right((b"CONFIG", b"GET", b"x"), INFO, "No element events are published."),
        Right(
            (b"ACL", b"LIST"),
            INFO,
            "Each script checks its client's rights first, which takes two to four times as long.",
        ),
        Right((b"ACL", b"CAT"), INFO, "ACL CAT does not list the proxy's commands."),
        Right(
            (b"SCAN", b"0"),
            INFO,
            "The doctor does not find keys that are missing from the schedule.",
        ),
        Right(
            (b"CLIENT", b"LIST"),
            INFO,
            "All clients that use CLIENT TRACKING are counted as proxies.",
        ),
        Right(
            (b"CLIENT", b"NO-EVICT", b"ON"),
            INFO,
            "Redis may disconnect the reaper when memory is short.",
        ),
        Right((b"CLIENT", b"NO-TOUCH", b"ON"), INFO, "Reaps count as accesses to keys (LRU, LFU)."),
        Right((b"TYPE", ANY_KEY), WARNING, "Expired elements of other keys are never removed."),
        Right((b"PTTL", keys.home(keys.lease)), INFO, _UNEXAMINED),
        Right((b"ZRANDMEMBER", schedule), INFO, _UNEXAMINED),
        Right((b"EXISTS", schedule), INFO, _UNMENDED),
        Right((b"FUNCTION", b"LIST"), INFO, "The doctor does not list function libraries."),
        Right((b"SLOWLOG", b"GET"), INFO, _UNTOLD),
        *(
            Right(words, INFO, _UNPURGED)
            for words in (
                (b"UNLINK", schedule),
                (b"ZSCORE", schedule, b""),
                (b"PEXPIREAT", schedule, b"0"),
            )
        ),
        Right(
            (b"GET", keys.home(keys.old_layout)),
            INFO,
            "The proxy does not notice what versions before the first release have left.",
        ),
        *(Right(words, INFO, _UNTOLD) for words in ((b"HLEN", others), (b"LINDEX", others, b"0"))),
        Right((b"SRANDMEMBER", others, b"1"), INFO, _UNEXAMINED),
        Right((b"SSCAN", others, b"0"), INFO, _MISCOUNTED),
        Right((b"SMISMEMBER", others, b""), INFO, _MISCOUNTED),
        Right((b"HEXISTS", rules, b""), INFO, _MISCOUNTED),
        Right((b"SADD", others, b""), INFO, _UNPURGED),
        Right((b"PUBLISH", ANY_CHANNEL, b""), WARNING, _SILENT),
        Right((b"SPUBLISH", ANY_CHANNEL, b""), WARNING, _SILENT),
    )


def scripted(names: Iterable[str] = tuple(SCRIPTS)) -> dict[bytes, tuple[Severity, str]]:
    """Command that these scripts call -> the worst (severity, what happens) if it is refused."""
    scripts, found = Scripts(b""), dict[bytes, tuple[Severity, str]]()
    for name in names:
        for word in _words(scripts[name].text):
            found[word] = max(found.get(word, (INFO, "")), SCRIPTS[name], key=_badness)
    return found


def all_scripted(clustered: bool = True) -> set[bytes]:
    """The commands that any script calls, including scripts for clients.

    clustered: also those that are needed in front of a Cluster only
    """
    scripts = Scripts(b"")
    scripts.suit(Traits(careful=False, clustered=clustered))
    return {word for script in scripts.all() for word in _words(script.text)}


def rules(
    version: tuple[int, ...] = (6, 2), field_ttls: bool = False, clustered: bool = False
) -> list[str]:
    """The ACL SETUSER rules for the proxy's own user, including those that the doctor needs.

    field_ttls: the server has deadlines of hash fields, whatever its version
    clustered: it is a node of a Cluster
    """
    later = {rule for rule, since in SINCE.items() if since > version}
    later -= FIELD_TTLS if field_ttls else set()
    own = {right.rule for right in asked(Keys(b"", clustered))}
    theirs = {f"+{name.decode().lower()}" for name in scripted()}
    return ["~*", "&*", *sorted((own | theirs) - later), "+multi", "+discard"]


def _badness(outcome: tuple[Severity, str]) -> Severity:
    return outcome[0]


def _words(text: bytes) -> Iterator[bytes]:
    for quoted, handled in _WORD.findall(text):
        word = quoted or handled
        if word not in OPTIONS:
            yield word
