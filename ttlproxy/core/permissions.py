"""Clients' permissions: which users may run scripts, read indexes and call ACL CAT, and whether
clients may see internal keys.

Read from ACL LIST, which Redis 6.2 has too. Knows no connection: the link brings the lines, every
ten seconds and after a request that may change them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from ttlproxy.core.glob import matching

# The names that an ACL rule may use for EVAL and EVALSHA: their own or their categories.
_SCRIPTING = frozenset({b"@all", b"@scripting", b"@slow"})
_CALLS = (_SCRIPTING | {b"eval"}, _SCRIPTING | {b"evalsha"})
# Commands that the script for DBSIZE calls: scripts/keys_count.lua.
COUNTING = ("DBSIZE", "EXISTS", "ZCARD", "SCARD")
_BOTH = re.compile(rb"(?:^|[ (])(?:%RW)?~([^ )]*)")
_PATTERN = re.compile(rb"(?:^|[ (])(?:%RW|%R)?~([^ )]*)")
_WRITTEN = re.compile(rb"(?:^|[ (])(?:%RW|%W)?~([^ )]*)")
_SELECTOR = re.compile(rb"\(([^)]*)\)")
_WILDCARD = re.compile(rb"[*?\[\\]")
DEFAULT_USER = b"default"


class Rights:
    """The rights that a session checks before it sends a script that its client did not ask for.

    index: the name of any index
    asks_login: whether Redis refuses requests of clients that have not logged in
    trusts_schedules: whether every user who may write to a schedule is known to have all keys
    shows_internal: whether clients may name and see internal keys
    all_have_all: whether no user is known to lack a right that a script for it needs
    """

    __slots__ = (
        "_acl_cat",
        "_acl_refused",
        "_barred",
        "_by_slot",
        "_cannot_count",
        "_counting",
        "_fixed",
        "_index",
        "_internal",
        "_kept_out",
        "_lines",
        "_names",
        "_schedule",
        "_whole",
        "_written",
        "all_have_all",
        "asks_login",
        "shows_internal",
        "trusts_schedules",
    )

    def __init__(
        self,
        index: bytes = b"__ttl:",
        shows_internal: bool = False,
        schedule: bytes = b"__ttl:schedule",
        fixed: Sequence[bytes] = (),
        internal: Callable[[bytes], Iterable[bytes]] = lambda pattern: (),
    ) -> None:
        """`schedule`, `fixed`: see `place`.

        `internal`: for a pattern of data keys, the patterns of what scripts write beside them.
        """
        self._by_slot = False
        self._fixed = fixed
        self._internal = internal
        self._written: tuple[frozenset[bytes], ...] = ()
        self._whole: frozenset[bytes] | None = None  # nobody has asked yet
        self.all_have_all = True
        self._lines: Sequence[bytes] = ()
        self._names: frozenset[bytes] | None = None  # not known
        self._counting: tuple[frozenset[bytes], ...] = ()
        self._cannot_count: frozenset[bytes] = frozenset()
        self.trusts_schedules = False
        self._schedule = schedule
        self.shows_internal = shows_internal
        self.asks_login = False
        self._index = index
        self._barred: frozenset[bytes] = frozenset()
        self._kept_out: frozenset[bytes] = frozenset()
        self._acl_refused: frozenset[bytes] = frozenset()
        self._acl_cat: frozenset[bytes] = frozenset()

    def suit(
        self,
        acl_cat: frozenset[bytes],
        counting: Iterable[frozenset[bytes]] = (),
        written: Iterable[frozenset[bytes]] = (),
    ) -> None:
        """Takes the names that a rule may use for ACL CAT, and each of COUNTING, on this server.

        `written`: the same for each command of a script that writes.
        """
        self._acl_cat = acl_cat
        self._counting = tuple(counting)
        self._written = tuple(written)

    def place(self, schedule: bytes, fixed: Sequence[bytes], by_slot: bool) -> None:
        """Sets the names of internal keys on this server, for the next `set_users`.

        fixed: the keys that the script for DBSIZE names; by_slot: it is a Cluster, and `schedule`
        is how the names of all schedules begin
        """
        self._schedule, self._fixed, self._by_slot = schedule, fixed, by_slot

    def learn_refused(self, hidden: bool) -> None:
        """Redis refuses ACL LIST: then the last lines stay valid, and schedules are not trusted.

        If Redis never shows them to us, we assume that every user has the rights that
        docs/security.md asks for. `hidden`: users may have changed, and only we may not see them;
        then scripts check those rights. Not where the server has no ACL or is busy.
        """
        self.trusts_schedules = False
        if hidden:
            self.all_have_all = False
            self._whole = frozenset()

    def set_users(self, lines: Sequence[bytes]) -> bool:
        """Takes the lines of ACL LIST; returns whether they have changed."""
        has_changed, self._lines = lines != self._lines, lines
        users = [line.split(b" ", 2) for line in lines]
        self._names = frozenset(name for _, name, _ in users)
        self._barred = frozenset(name for _, name, rules in users if not _may(name, rules, _CALLS))
        self._acl_refused = frozenset(
            name for _, name, rules in users if not _may(name, rules, (self._acl_cat,))
        )
        self._cannot_count = frozenset(
            name
            for _, name, rules in users
            if not (_may(name, rules, self._counting) and _touches(rules, self._fixed))
        )
        self._whole = frozenset(name for _, name, rules in users if self._has_all(name, rules))
        self.all_have_all = len(self._whole) == len(users)
        self.asks_login = asks_login(lines)
        self._kept_out = frozenset(
            name for _, name, rules in users if not _reads(rules, self._index)
        )
        reaches = may_reach_narrowly if self._by_slot else reaches_narrowly
        self.trusts_schedules = not any(reaches(rules, self._schedule) for _, _, rules in users)
        return has_changed

    def may_script(self, users: Iterable[bytes]) -> bool:
        """Whether no existing user of these is barred from scripts."""
        return self._barred.isdisjoint(users)

    def may_ask_acl(self, users: Iterable[bytes]) -> bool:
        """Whether Redis would let all these users call ACL CAT."""
        return self._acl_refused.isdisjoint(users)

    def knows(self, user: bytes) -> bool:
        """Whether ACL LIST last had this user; true if Redis does not show users."""
        return self._names is None or user in self._names

    def may_count(self, users: Iterable[bytes]) -> bool:
        """Whether Redis would let all these users run the script for DBSIZE."""
        return self._cannot_count.isdisjoint(users)

    def have_all(self, users: Iterable[bytes]) -> bool:
        """Whether all these users are known to have each right that a script for them needs."""
        return self._whole is None or self._whole.issuperset(users)

    def _has_all(self, name: bytes, rules: bytes) -> bool:
        """False if unsure: with selectors, a right may hold for some keys only."""
        words = rules.split()
        if name == DEFAULT_USER and b"off" in words:
            return True  # nobody is this user
        keys = _BOTH.findall(rules)
        beside = {name for pattern in keys for name in self._internal(pattern)}
        return (
            not _SELECTOR.search(rules)
            and all(_allows(words, call) for call in (*_CALLS, *self._written))
            and all(any(_covers(pattern, name) for pattern in keys) for name in beside)
        )

    def may_watch(self, users: Iterable[bytes]) -> bool:
        """Whether all these users may read indexes."""
        return self._kept_out.isdisjoint(users)


def asks_login(lines: Iterable[bytes]) -> bool:
    """Whether, by these lines of ACL LIST, Redis refuses clients that have not logged in."""
    users = (line.split() for line in lines)
    return any(
        name == DEFAULT_USER and (b"off" in rules or b"nopass" not in rules)
        for _, name, *rules in users
    )


def reaches_narrowly(rules: bytes, key: bytes) -> bool:
    """Whether a user with these rules is enabled and may write to `key`, but not to all keys."""
    return any(matching(each).fullmatch(key) for each in _narrowly_written(rules))


def may_reach_narrowly(rules: bytes, beginning: bytes) -> bool:
    """Whether that may be so for any key whose name begins like this; true if unsure."""
    heads = [_WILDCARD.split(pattern, 1)[0] for pattern in _narrowly_written(rules)]
    return any(head.startswith(beginning) or beginning.startswith(head) for head in heads)


def _narrowly_written(rules: bytes) -> list[bytes]:
    """The patterns of keys that a user may write to; none if it is disabled, or has all keys."""
    patterns = _WRITTEN.findall(rules) if b"on" in rules.split() else []
    return [] if b"*" in patterns else patterns


def _reads(rules: bytes, key: bytes) -> bool:
    """Whether a key pattern in the rules, selectors included, allows to read `key`."""
    return any(fnmatchcase(key, pattern) for pattern in _PATTERN.findall(rules))


def _touches(rules: bytes, keys: Iterable[bytes]) -> bool:
    """Whether the rules allow a script that may write to name all these keys."""
    patterns = [matching(pattern) for pattern in _BOTH.findall(rules)]
    return all(any(each.fullmatch(key) for each in patterns) for key in keys)


def _covers(pattern: bytes, narrower: bytes) -> bool:
    """Whether a pattern is known to match all that another one matches."""
    beginning = pattern[:-1] if pattern.endswith(b"*") else b"\\"
    is_plain = not set(beginning) & set(b"*?[\\")
    return pattern == narrower or (is_plain and narrower.startswith(beginning))


def _may(name: bytes, rules: bytes, calls: Iterable[frozenset[bytes]]) -> bool:
    """Whether the rules of a user, selectors included, allow all these calls."""
    own = _SELECTOR.sub(b"", rules)
    if name == DEFAULT_USER and b"off" in own.split():
        return True  # nobody is this user: Redis answers NOAUTH before it looks at rights
    sets = [own, *_SELECTOR.findall(rules)]
    return all(any(_allows(each.split(), call) for each in sets) for call in calls)


def _allows(rules: Iterable[bytes], call: frozenset[bytes]) -> bool:
    """Whether the rules allow a call; a later rule overrides an earlier one."""
    allowed = False
    for rule in rules:
        if rule[1:] in call:
            allowed = rule[:1] == b"+"
    return allowed
