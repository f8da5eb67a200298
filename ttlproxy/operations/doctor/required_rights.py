"""The rights that the proxy's own user needs: one table, for docs/security.md and for the doctor.

The commands that scripts call are read from the scripts, also names that scripts build at run time.
Each command that the proxy and its subcommands send themselves is a row; a test compares the rows
with the sources. Knows no connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ttlproxy.core.keys import Keys
from ttlproxy.operations.doctor.finding import ERROR, INFO, WARNING, Severity
from ttlproxy.scripts import Scripts

# Placeholders for keys and channels that clients choose.
ANY_KEY: Final = b"any-key-of-a-client"
ANY_CHANNEL: Final = b"any-channel-of-a-client"

_STARTS: Final = "The proxy serves nobody."
_UNSHARED: Final = "What one proxy signs, another does not carry out."
_LATE: Final = "Another proxy may see deadlines late."
_FIRES: Final = "What is due is not removed, or not handed on, where a script calls these."
_SILENT: Final = "Neither ONEXPIRE nor DEFER publishes, nor are there events of elements."
_WAITS: Final = "LEASE ... BLOCK does not wait."
_UNPURGED: Final = "ttlproxy purge does not get through."
_UNTOLD: Final = "The status page does not show all."
_UNEXAMINED: Final = "The doctor cannot look at deadlines."
_UNCONVERTED: Final = "What version 0.1 has left is neither in force nor carried out."
_MISCOUNTED: Final = "DBSIZE may count keys of the proxy's own."
_UNMENDED: Final = "The doctor cannot mend."

CONTAINERS: Final = frozenset({b"ACL", b"CLIENT", b"CONFIG", b"FUNCTION", b"SCRIPT", b"SLOWLOG"})
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
}
# Valkey has these since 9.0, which gives its Redis version as 7.2.
FIELD_TTLS: Final = frozenset({"+hpersist", "+hpexpireat", "+hpexpiretime"})
# Script -> how bad it is if one of its commands is refused, and what happens then.
SCRIPTS: Final[Mapping[str, tuple[Severity, str]]] = {
    **dict.fromkeys(("reap", "sweep", "keys_first", "lease_take", "lease_drop"), (ERROR, _FIRES)),
    **dict.fromkeys(("state_keep",), (WARNING, _UNSHARED)),
    "keys_recheck": (WARNING, "A key that others delete counts as one with deadlines for longer."),
    "barrier": (WARNING, "Reads wait, too, while the server holds back writes."),
    "hash_adopt": (WARNING, "Deadlines of the server's own are not handed on."),
    "schedule_mend": (WARNING, "What the schedule has lost is not found again."),
    **dict.fromkeys(("old_rule", "old_deferred", "old_counts"), (WARNING, _UNCONVERTED)),
    "schedule_clear": (WARNING, "What stands in the place of a schedule stays there."),
    "others_tidy": (INFO, _MISCOUNTED),
    "later_examine": (INFO, _UNEXAMINED),
    "key_examine": (INFO, _UNEXAMINED),
    **dict.fromkeys(
        ("key_inspect", "keys_survey", "rule_list", "schedule_page", "schedule_survey"),
        (INFO, _UNTOLD),
    ),
}
_WORD: Final = re.compile(rb"'([A-Z]{3,})'|\bhandlers\.([A-Z]{3,})\b")
# Words in scripts that look like a command but are an option, a reply or a name of ours.
OPTIONS: Final = frozenset(
    b"BYLEX BYSCORE COUNT ELEMENT ENX EVENT FIELDS FLOAT FXX KEEP KEEPTTL LEFT LIMIT LIST PXAT"
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


def asked(keys: Keys) -> tuple[Right, ...]:
    """The requests that the link, the reaper, the pages and the subcommands send themselves."""
    schedule = keys.schedule
    return (
        Right((b"CLIENT", b"SETNAME", b"n"), ERROR, _STARTS),
        Right((b"CLIENT", b"SETINFO", b"lib-name", b"n"), INFO, "CLIENT LIST tells no library."),
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
        Right((b"ZCOUNT", schedule, b"0", b"0"), INFO, "The metrics do not tell what is overdue."),
        Right((b"ZCARD", schedule), WARNING, "The proxy remembers keys for longer than it has to."),
        Right((b"ZMSCORE", schedule, b""), WARNING, "What the schedule has lost is not found."),
        Right((b"SELECT", b"0"), ERROR, "Only database 0 has deadlines that are kept."),
        Right((b"SET", keys.hello, b""), WARNING, _LATE),
        Right((b"DEL", keys.hello), WARNING, _LATE),
        Right((b"BLMOVE", ANY_KEY, ANY_KEY, b"LEFT", b"LEFT", b"0"), WARNING, _WAITS),
        Right((b"LLEN", ANY_KEY), WARNING, _WAITS),
        Right((b"COMMAND",), WARNING, "Every word of a request may be a key, which costs reaps."),
        Right((b"CONFIG", b"GET", b"x"), INFO, "No events of elements are published."),
        Right((b"ACL", b"LIST"), INFO, "Each client is taken to have the right to scripts."),
        Right((b"ACL", b"CAT"), INFO, "ACL CAT does not name the proxy's commands."),
        Right((b"SCAN", b"0"), INFO, "The doctor cannot look for what no schedule names."),
        Right((b"CLIENT", b"LIST"), INFO, "Clients that track keys are taken for proxies."),
        Right((b"CLIENT", b"NO-EVICT", b"ON"), INFO, "A full server may drop the reaper."),
        Right((b"CLIENT", b"NO-TOUCH", b"ON"), INFO, "Reaps count as uses of keys, for eviction."),
        Right((b"TYPE", ANY_KEY), WARNING, "Elements of other keys are never reaped."),
        Right((b"HGET", keys.state, b"layout"), INFO, _UNEXAMINED),
        Right((b"PTTL", keys.lease), INFO, _UNEXAMINED),
        Right((b"ZRANDMEMBER", schedule), INFO, _UNEXAMINED),
        Right((b"EXISTS", schedule), INFO, _UNMENDED),
        Right((b"FUNCTION", b"LIST"), INFO, "The doctor does not name users' functions."),
        Right((b"SLOWLOG", b"GET"), INFO, _UNTOLD),
        Right((b"UNLINK", schedule), INFO, _UNPURGED),
        Right((b"GET", keys.old_layout), WARNING, _UNCONVERTED),
        Right((b"SRANDMEMBER", keys.others, b"1"), INFO, _UNEXAMINED),
        Right((b"SSCAN", keys.others, b"0"), INFO, _MISCOUNTED),
        Right((b"SADD", keys.others, b""), INFO, _UNPURGED),
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


def all_scripted() -> set[bytes]:
    """The commands that any script calls, including scripts for clients."""
    return {word for script in Scripts(b"").values() for word in _words(script.text)}


def rules(version: tuple[int, ...] = (6, 2), field_ttls: bool = False) -> list[str]:
    """The ACL SETUSER rules for the proxy's own user, including those that the doctor needs.

    field_ttls: the server has deadlines of hash fields, whatever its version
    """
    later = {rule for rule, since in SINCE.items() if since > version}
    later -= FIELD_TTLS if field_ttls else set()
    own = {right.rule for right in asked(Keys(b""))}
    theirs = {f"+{name.decode().lower()}" for name in scripted()}
    return ["~*", "&*", *sorted((own | theirs) - later), "+multi", "+discard"]


def _badness(outcome: tuple[Severity, str]) -> Severity:
    return outcome[0]


def _words(text: bytes) -> Iterator[bytes]:
    for quoted, handled in _WORD.findall(text):
        word = quoted or handled
        if word not in OPTIONS:
            yield word
