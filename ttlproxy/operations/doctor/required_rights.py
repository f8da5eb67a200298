"""The rights that the proxy's own user needs: one table, for docs/security.md and for the doctor.

The commands that scripts call are read from the scripts, including names that scripts build at run
time. Each request that the proxy and its subcommands send themselves is in a row; a test compares
the rows with the sources. Knows no connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ttlproxy.core.keys import MEETING, Keys
from ttlproxy.operations.doctor.finding import ERROR, INFO, WARNING, Severity
from ttlproxy.scripts import Scripts, Traits

_STARTS: Final = "The proxy cannot serve clients."
_UNSHARED: Final = "Proxies ignore the rules and deferred commands that others have signed."
_FIRES: Final = "Scripts call these: expired elements are not removed or not delivered."
_DATELESS: Final = "Keys of a new family get no deadlines."
_UNTOLD_SLOTS: Final = "Rules of ONEXPIRE cannot be set."
_UNCARRIED: Final = "Rules of ONEXPIRE with OUTBOX do not deliver to other slots."
_UNTOLD: Final = "The status page is incomplete."
_UNEXAMINED: Final = "The doctor cannot check deadlines."
_MISCOUNTED: Final = "DBSIZE may count internal keys of the proxy."

CONTAINERS: Final = frozenset(
    {b"ACL", b"CLIENT", b"CLUSTER", b"CONFIG", b"PUBSUB", b"SCRIPT", b"SLOWLOG"}
)
# The Redis versions that introduced these; older servers refuse an ACL rule with them.
SINCE: Final[Mapping[str, tuple[int, int]]] = {
    "+client|no-evict": (7, 0),
    "+spublish": (7, 0),
    "+client|no-touch": (7, 2),
    "+client|setinfo": (7, 2),
    "+hpersist": (7, 4),
    "+hpexpireat": (7, 4),
    "+hpexpiretime": (7, 4),
    # Valkey 9.1 has it, and gives its Redis version as 7.2: only clients that call it need it.
    "+clusterscan": (99, 0),
}
# Valkey has these since 9.0, which gives its Redis version as 7.2.
FIELD_TTLS: Final = frozenset({"+hpersist", "+hpexpireat", "+hpexpiretime"})
# Script -> how bad it is if one of its commands is refused, and what happens then.
SCRIPTS: Final[Mapping[str, tuple[Severity, str]]] = {
    **dict.fromkeys(("reap", "sweep", "keys_first", "lease_take", "lease_drop"), (ERROR, _FIRES)),
    "state_keep": (WARNING, _UNSHARED),
    **dict.fromkeys(("announce", "state_families"), (ERROR, _DATELESS)),
    "state_drop": (INFO, "A key of the proxy's stays where nobody needs it any more."),
    "key_date": (
        WARNING,
        "What RENAME, STORE forms and the like put into keys gets no deadline by rules of ONWRITE.",
    ),
    "keys_recheck": (WARNING, "The proxy notices late that keys with deadlines were deleted."),
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
    "others_survey": (INFO, "The metrics do not show deferred commands and kept elements."),
    **dict.fromkeys(("key_inspect", "keys_survey", "rule_list"), (INFO, _UNTOLD)),
    **dict.fromkeys(("write_rule_list", "schedule_page", "schedule_survey"), (INFO, _UNTOLD)),
    **dict.fromkeys(("deferred_page", "slots_survey"), (INFO, _UNTOLD)),
}
_WORD: Final = re.compile(rb"'([A-Z]{3,})'|\bhandlers\.([A-Z]{3,})\b")
# Words in scripts that look like a command but are an option, a reply or a name of ours.
OPTIONS: Final = frozenset(
    b"BYLEX BYSCORE COUNT ELEMENT ENX EVENT FIELDS FLOAT FXX KEEP KEEPTTL LEFT LIMIT LIST MYID PXAT"
    b" REPLACE REV RIGHT SATURATE VALUE WITHSCORES WRONGTYPE".split()
)


class Right(NamedTuple):
    """words: a request that needs the right; severity: if it is missing; without: what happens
    without it"""

    words: tuple[bytes, ...]
    severity: Severity
    without: str

    @property
    def rule(self) -> str:
        """The rule for ACL SETUSER."""
        count = 2 if self.words[0] in CONTAINERS else 1
        return "+" + b"|".join(self.words[:count]).decode().lower()


_Row: TypeAlias = tuple[Severity, str, str]
"""The severity if rights are missing, what happens then, and the requests that need them, which the
link, the reaper, the pages and the subcommands send. KEY and CHANNEL are a client's; words in {}
are internal names."""
_IN_CLUSTER: Final[tuple[_Row, ...]] = (
    (ERROR, _STARTS, "CLUSTER NODES"),
    (
        WARNING,
        "Nodes of a Cluster are reached by IP address, also if they want to be named.",
        "CLUSTER SLOTS",
    ),
    (WARNING, _UNTOLD_SLOTS, "ASKING"),
)
_ASKED: Final[tuple[_Row, ...]] = (
    (
        ERROR,
        _STARTS,
        "CLIENT SETNAME n, CLIENT TRACKING ON, INFO, TIME, SCRIPT LOAD x, SCRIPT EXISTS x,"
        " EVALSHA x 0, EVAL x 0, ZSCAN {schedule} 0, HGETALL {rules}, MGET {rules}",
    ),
    (ERROR, "Expired elements are not removed.", "ZRANGEBYSCORE {schedule} 0 0"),
    (ERROR, "Deadlines work in database 0 only.", "SELECT 0"),
    (WARNING, _UNSHARED, "HMGET {state} secret"),
    (WARNING, "The proxy remembers keys for longer than it has to.", "ZCARD {schedule}"),
    (WARNING, "Keys that are missing from the schedule are not found.", "ZMSCORE {schedule} x"),
    (WARNING, "The page does not show which elements wait.", "ZRANGE {schedule} 0 0"),
    (
        WARNING,
        "A value that is written through another proxy may keep the deadline that this one has"
        " just set, and be deleted.",
        "SUBSCRIBE {broadcast}, SUBSCRIBE {told}, UNSUBSCRIBE {told}, PUBLISH {meeting} x, PUBSUB"
        " NUMSUB",
    ),
    (
        WARNING,
        "If another proxy hangs, the first deadlines of new families of keys wait for it.",
        "CLIENT KILL ID 0",
    ),
    (
        WARNING,
        "A proxy does not notice others with another prefix or signing key, and data is lost.",
        "PUBSUB CHANNELS",
    ),
    (WARNING, "Other proxies may learn of deadlines late.", "SET {hello} x, DEL {hello}"),
    (WARNING, "LEASE ... BLOCK does not wait.", "BLMOVE KEY KEY LEFT LEFT 0, LLEN KEY"),
    (
        WARNING,
        "The proxy takes every word of a request for a key, and reaps more than needed.",
        "COMMAND",
    ),
    (WARNING, "Expired elements of other keys are never removed.", "TYPE KEY"),
    (
        WARNING,
        "ONEXPIRE and DEFER cannot publish, and there are no element events.",
        "PUBLISH CHANNEL x, SPUBLISH CHANNEL x",
    ),
    (INFO, "CLIENT LIST shows no library name.", "CLIENT SETINFO lib-name n"),
    (INFO, "The proxy asks INFO for the role, which costs Redis more.", "ROLE"),
    (INFO, "A proxy that starts reads the names of all keys with deadlines.", "HKEYS {state}"),
    (
        INFO,
        "Each proxy that starts asks for all commands, which takes Redis a millisecond.",
        "HGET {state} commands, HSET {state} commands x",
    ),
    (INFO, "The metrics do not show what is overdue.", "ZCOUNT {schedule} 0 0"),
    (INFO, "No element events are published.", "CONFIG GET x"),
    (
        INFO,
        "Each script checks its client's rights first, which takes two to four times as long.",
        "ACL LIST",
    ),
    (INFO, "ACL CAT does not list the proxy's commands.", "ACL CAT"),
    (INFO, "The doctor does not find keys that are missing from the schedule.", "SCAN 0"),
    (INFO, "All clients that use CLIENT TRACKING are counted as proxies.", "CLIENT LIST"),
    (INFO, "Redis may disconnect the reaper when memory is short.", "CLIENT NO-EVICT ON"),
    (INFO, "Reaps count as accesses to keys (LRU, LFU).", "CLIENT NO-TOUCH ON"),
    (INFO, _UNEXAMINED, "ZRANDMEMBER {schedule}, SRANDMEMBER {others} 1"),
    (INFO, "ttlproxy doctor --apply fails.", "EXISTS {schedule}"),
    (INFO, _UNTOLD, "SLOWLOG GET, HLEN {others}, LINDEX {others} 0"),
    (
        INFO,
        "ttlproxy purge fails.",
        "UNLINK {schedule}, ZSCORE {schedule} x, PTTL KEY, PEXPIREAT {schedule} 0, SADD {others} x",
    ),
    (
        INFO,
        "The proxy does not notice what versions before the first release have left.",
        "GET {old_layout}",
    ),
    (INFO, _MISCOUNTED, "SSCAN {others} 0, SMISMEMBER {others} x, HEXISTS {rules} x"),
)


def asked(keys: Keys) -> list[Right]:
    """Returns the requests of the proxy and its subcommands, with the names of internal keys."""
    homes = ("schedule", "state", "rules", "others", "old_layout")
    named = {f"{{{name}}}": keys.home(getattr(keys, name)) for name in homes}
    named |= {"{hello}": keys.hello, "{broadcast}": keys.broadcast, "{meeting}": MEETING}
    named |= {"{told}": keys.news_channel(b"")}
    return [
        Right(tuple(named.get(word, word.encode()) for word in text.split()), severity, without)
        for severity, without, requests in ((*_IN_CLUSTER, *_ASKED) if keys.clustered else _ASKED)
        for text in requests.split(", ")
    ]


def scripted(names: Iterable[str] = tuple(SCRIPTS)) -> dict[bytes, tuple[Severity, str]]:
    """Returns for each command that these scripts call the worst (severity, what happens) if it is
    refused."""
    scripts, found = Scripts(b""), dict[bytes, tuple[Severity, str]]()
    for name in names:
        for word in _words(scripts[name].text):
            before = found.get(word, (INFO, ""))
            found[word] = max(before, SCRIPTS[name], key=lambda outcome: outcome[0])
    return found


def all_scripted(clustered: bool = True) -> set[bytes]:
    """Returns the commands that any script calls, including scripts for clients.

    clustered: whether those are included that are needed only in front of a Cluster
    """
    scripts = Scripts(b"")
    scripts.suit(Traits(careful=False, clustered=clustered))
    return {word for script in scripts.all() for word in _words(script.text)}


def rules(
    version: tuple[int, ...] = (6, 2), field_ttls: bool = False, clustered: bool = False
) -> list[str]:
    """Returns the ACL SETUSER rules for the proxy's own user, including those that the doctor
    needs.

    field_ttls: whether the server has deadlines of hash fields, whatever its version
    clustered: whether it is a node of a Cluster
    """
    later = {rule for rule, since in SINCE.items() if since > version}
    later -= FIELD_TTLS if field_ttls else set()
    own = {right.rule for right in asked(Keys(b"", clustered))}
    theirs = {f"+{name.decode().lower()}" for name in scripted()}
    return ["~*", "&*", *sorted((own | theirs) - later), "+multi", "+discard"]


def _words(text: bytes) -> Iterator[bytes]:
    for quoted, handled in _WORD.findall(text):
        word = quoted or handled
        if word not in OPTIONS:
            yield word
