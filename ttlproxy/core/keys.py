"""The names of internal keys. Only this module builds or parses them. Knows no connection."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import product, repeat
from string import ascii_letters, digits
from typing import Final

from ttlproxy.wire import index_name

SLOTS = 16384

DEFAULT_PREFIX = b"__ttl:"

# These follow the prefix: whole names, or their beginnings.
SCHEDULE: Final = b"schedule"
LEASE: Final = b"lease"
RULES: Final = b"rules"
OTHERS: Final = b"others"
TAGGED: Final = b"t:"
KEPT: Final = b"kept:"
COUNTS: Final = b"counts:"
RULE: Final = b"rule:"
LATER: Final = b"later:"
NONE: Final = b"none:"
ANNOUNCEMENT: Final = b"!"
SWAP: Final = b"!swap:"
RULES_CHANGED: Final = b"!rules:"
RULES_VERSION: Final = b"!version:"
WALKS: Final = b"!walks:"
LAYOUT_TOLD: Final = b"!layout:"
NEWS: Final = b"!news:"
_SELDOM: Final = (SWAP, RULES_CHANGED, RULES_VERSION, WALKS, LAYOUT_TOLD, NEWS)
# No name of a key, but of an entry of an index: see scripts/lib/index.lua.
KEY_EXPIRY: Final = b"ttlproxy:key-expires"
# While there are rules, Redis's expiry of a key with deadlines is so much later than its own, give
# or take the slack: MIGRATE carries the time left, which counts from the arrival, by the clock of
# another server. It is no whole number of days, as times between two writes to a key often are.
KEPT_MS: Final = 90_780_000
KEPT_SLACK_MS: Final = 60_000
# These stand before the prefix.
STATE: Final = b"ttlproxy-state:"
# The fields of families in the state begin with this.
FAMILY: Final = b"family:"
OUTBOX: Final = b"ttlproxy-outbox:"
# Channels by which proxies of any prefix find each other begin with this.
MEETING: Final = b"ttlproxy-proxies:"
TOLD: Final = b"ttlproxy-told:"


def slot(key: bytes) -> int:
    """The Cluster slot of `key`, as `CLUSTER KEYSLOT` gives it (src/cluster.c, keyHashSlot)."""
    tag = hash_tag(key) if b"{" in key else b""
    return crc_hqx(tag or key, 0) % SLOTS


def slots(keys: Sequence[bytes]) -> list[int]:
    """The slot of each key: faster than one by one if all have the same hash tag, or none."""
    if b"{" not in b"".join(keys):
        return [crc_hqx(key, 0) % SLOTS for key in keys]
    tag = keys[0][: keys[0].find(b"}") + 1]
    if tag.startswith(b"{") and len(tag) > 2 and all(map(bytes.startswith, keys, repeat(tag))):
        return [crc_hqx(tag[1:-1], 0) % SLOTS] * len(keys)
    return list(map(slot, keys))


def hash_tag(key: bytes) -> bytes:
    """The hash tag: the bytes between the first `{` and the first `}` after it; may be empty."""
    opening = key.find(b"{")
    if opening < 0:
        return b""
    closing = key.find(b"}", opening + 1)
    return key[opening + 1 : closing] if closing > 0 else b""


@cache
def _tags() -> tuple[bytes, ...]:
    """A word of three letters or digits for each slot, which hashes to it."""
    letters = [bytes([letter]) for letter in (digits + ascii_letters).encode()]
    found: dict[int, bytes] = {}
    for one, two in product(letters, repeat=2):
        begun = crc_hqx(one + two, 0)  # half the time of a CRC for each word
        for three in letters:
            number = crc_hqx(three, begun) % SLOTS
            if number not in found:
                found[number] = one + two + three
        if len(found) == SLOTS:
            break
    return tuple(found[number] for number in range(SLOTS))


@cache
def _all_words() -> bytes:
    return b"".join(_tags())


def escaped(text: bytes) -> bytes:
    """The glob that matches `text` and nothing else."""
    return b"".join(
        b"\\" + bytes([byte]) if byte in b"*?[]\\^-" else bytes([byte]) for byte in text
    )


def state_name(prefix: bytes) -> bytes:
    """The key where proxies keep their secret; no key pattern under `prefix` matches it."""
    return STATE + prefix


def outbox_name(prefix: bytes) -> bytes:
    """The beginning of the names of outboxes; no key pattern under `prefix` matches them."""
    return OUTBOX + prefix


class Keys:
    """Internal key names. All begin with one prefix, except the state's.

    An index is always in the Cluster slot of its data key: a key with a hash tag of its own keeps
    it (`<prefix>t:a{b}c`), any other gets a word that hashes to its slot (`<prefix>{x1F}:k`). The
    two forms differ in the character after the prefix, so no two data keys share an index.

    clustered: the server is a node of a Cluster. A script may only touch keys of one slot there, so
      what another server has once, such as the schedule, each slot has for itself: see `shared_by`
    here: a name in the slot of what one master has for itself, such as the lease
    """

    __slots__ = (
        "_tags",
        "all_words",
        "announcement_prefix",
        "broadcast",
        "clustered",
        "fixed",
        "hello",
        "here",
        "lease",
        "news_prefix",
        "old_layout",
        "on_demand",
        "others",
        "outbox",
        "prefix",
        "rules",
        "schedule",
        "state",
    )

    def __init__(self, prefix: bytes = DEFAULT_PREFIX, clustered: bool = False) -> None:
        self.prefix = self.here = prefix
        self.clustered = clustered
        self.schedule = prefix + SCHEDULE
        self.lease = prefix + LEASE
        self.rules = prefix + RULES
        # A set with the names of the other internal keys, without indexes; DBSIZE subtracts them.
        self.others = prefix + OTHERS
        self.fixed = (self.schedule, self.lease, self.rules, self.others)
        self.state = state_name(prefix)
        # In a Cluster, a slot's hash of this name has how far its outboxes are, and what it has
        # been brought from others'.
        self.outbox = outbox_name(prefix)
        # The key in which versions before the first release kept the number of their layout.
        self.old_layout = prefix + b"layout"
        self.announcement_prefix = prefix + ANNOUNCEMENT
        # A proxy that begins to serve sets and deletes this key: an announcement to the others.
        self.hello = self.announcement_prefix + b"hello"
        # Channels on which nothing is ever published: Redis counts their subscribers, see
        # link/knowledge/announcements.py.
        self.broadcast = prefix + b"broadcast"
        self.on_demand = prefix + b"on-demand"
        # Channels of news: who subscribes to one has acknowledged them, see
        # link/knowledge/activation.py. Their beginning is no glob pattern of anything else.
        self.news_prefix = TOLD + b"%d:" % len(prefix)
        self._tags = _tags()
        # The words of all slots, three characters each.
        self.all_words = _all_words()

    def index(self, key: bytes) -> bytes:
        """The name of the index of data key `key`."""
        return index_name(self.prefix, self.all_words, key)

    def _beside(self, kind: bytes, key: bytes) -> bytes:
        """The name of what else is kept for `key`, in the same slot."""
        return self.prefix + kind + self.index(key)[len(self.prefix) :]

    def kept(self, key: bytes) -> bytes:
        """The list where elements of `key` wait for TAKE."""
        return self._beside(KEPT, key)

    def counts(self, key: bytes) -> bytes:
        """The sorted set that counts the deliveries of each element of `key`."""
        return self._beside(COUNTS, key)

    def scratch(self, key: bytes) -> bytes:
        """A key that exists at most while a script for `key` runs."""
        return self._beside(NONE, key)

    def news_channel(self, news: bytes) -> bytes:
        """A proxy that subscribes to it has acknowledged these news."""
        return self.news_prefix + self.prefix + news

    def news_of(self, channel: bytes) -> bytes | None:
        """The news of a `news_channel`; None for any other."""
        head = self.news_prefix + self.prefix
        return channel[len(head) :] if channel.startswith(head) else None

    def shared_by(self, key: bytes, name: bytes) -> bytes:
        """The key that has the name `name`, such as `schedule`, and serves data key `key`."""
        return self.shared_in(slot(key), name) if self.clustered else name

    def shared_in(self, slot: int, name: bytes) -> bytes:
        """The key of that name in this slot of a Cluster."""
        return b"%s:{%s}" % (name, self._tags[slot])

    def home(self, name: bytes) -> bytes:
        """The key of that name that a server, or a whole Cluster, has once."""
        return self.shared_by(self.prefix, name)

    def settle(self, owned: Collection[int]) -> None:
        """The server owns these slots of a Cluster: `here` is in one of them, and stays there."""
        if slot(self.prefix) in owned:
            self.here = self.prefix
        elif owned and slot(self.here) not in owned:
            self.here = b"{%s}" % self._tags[min(owned)]

    @property
    def own_tag(self) -> bytes:
        """The name of a data key in one of the server's slots."""
        return b"{%s}" % self._tags[slot(self.here)]

    @property
    def are_home(self) -> bool:
        """Whether the server has what a whole Cluster has once, such as the proxies' secret."""
        return self.here == self.prefix

    def word(self, slot: int) -> bytes:
        """The hash tag that internal names have for this slot."""
        return self._tags[slot]

    def together(self, db: int, key: bytes) -> int:
        """A number that is the same for all keys that one script may be called for."""
        return slot(key) if self.clustered else db

    def groups(self, names: Iterable[bytes]) -> list[list[bytes]]:
        """Names of one database, in groups that one request may name."""
        found: dict[int, list[bytes]] = {}
        for name in names:
            found.setdefault(self.together(0, name), []).append(name)
        return list(found.values())

    def guard(self, key: bytes) -> bytes:
        """A key that never exists, in the slot of `key`; each script for a Cluster names it.

        While a slot moves to another node, key by key, Redis refuses a script at its first access
        to an absent key, when it may have changed others. If the script has named an absent key,
        it is refused before its first line.
        """
        return self.guard_in(slot(key))

    def guard_in(self, slot: int) -> bytes:
        """The `guard` of this slot's keys."""
        return b"%s%s{%s}" % (self.prefix, NONE, self._tags[slot])

    def rule(self, pattern: bytes) -> bytes:
        """The key of the rule of ONEXPIRE for this pattern; in a Cluster, in the home slot."""
        return self.home(self.prefix + RULE) + pattern

    def deferred(self, key: bytes) -> bytes:
        """The hash of the commands that are deferred for `key`; it is a managed key itself."""
        return self._beside(LATER, key)

    def deferring(self, name: bytes) -> bytes | None:
        """The data key whose deferred commands are in `name`; None if `name` has another form."""
        return self._is_beside(LATER, name)

    def keeping(self, name: bytes) -> bytes | None:
        """The data key whose kept elements are in `name`; None if `name` has another form."""
        return self._is_beside(KEPT, name)

    def _is_beside(self, kind: bytes, name: bytes) -> bytes | None:
        """The data key that `_beside` gave this name; None if it has another form."""
        said = self.prefix + kind
        if not name.startswith(said):
            return None
        rest = name[len(said) :]
        return rest.partition(b"}:")[2] if rest.startswith(b"{") else rest.removeprefix(TAGGED)

    def outbox_to(self, key: bytes, slot: int) -> bytes:
        """The list of what the rules for `key` send to another slot; a managed key itself."""
        return b"%s:%d" % (self.shared_by(key, self.outbox), slot)

    @property
    def outboxes_pattern(self) -> bytes:
        """The glob that matches the names of outboxes, and of how far they are."""
        return escaped(self.outbox) + b"*"

    def destination(self, name: bytes) -> int | None:
        """The slot that the entries of an outbox are for; None if `name` is that of no outbox."""
        number = name.rpartition(b"}:")[2]
        return int(number) if name.startswith(self.outbox) and number.isdigit() else None

    def data(self, index: bytes) -> bytes | None:
        """The data key of an index; None if `index` is not the name of one."""
        rest = index.removeprefix(self.prefix)
        key = rest.removeprefix(TAGGED) if rest.startswith(TAGGED) else rest.partition(b"}:")[2]
        return key if index == self.index(key) else None

    @property
    def pattern(self) -> bytes:
        """The glob that matches all names under the prefix, and no others."""
        return escaped(self.prefix) + b"*"

    def of_keys(self, pattern: bytes) -> list[bytes]:
        """Globs of the internal names of all data keys that match `pattern`.

        If `pattern` does not begin like an internal name, they match no name of another key.
        """
        prefix = escaped(self.prefix)
        forms = [b"{???}:" + pattern, TAGGED + pattern]
        kinds = [b"", LATER, TAGGED + prefix + LATER, KEPT, COUNTS, NONE]
        return [prefix + kind + form for kind in kinds for form in forms]

    def beside(self, pattern: bytes) -> list[bytes]:
        """Globs of all internal names that scripts for data keys that match `pattern` write to."""
        return [] if self.is_internal(pattern) else [*self.of_keys(pattern), *self.shared]

    @property
    def shared(self) -> list[bytes]:
        """The globs of the internal names that clients need and that belong to no data key."""
        names = [SCHEDULE, LEASE, RULES, OTHERS]
        if self.clustered:
            names = [*(name + b":{???}" for name in names), NONE + b"{???}"]
        return [escaped(self.prefix) + name for name in (*names, ANNOUNCEMENT + b"*")]

    @property
    def counted(self) -> list[bytes]:
        """The keys that the script for DBSIZE reads; in front of a Cluster, some of them."""
        if not self.clustered:
            return list(self.fixed)
        slots = (slot(self.prefix), 0, SLOTS - 1)
        shared = [self.shared_in(number, name) for number in slots for name in self.fixed]
        return [self.guard(self.prefix), *shared]

    def is_shared(self, name: bytes) -> bool:
        """Whether a server, or a slot of a Cluster, has this internal key once."""
        name = name.partition(b":{")[0] if self.clustered else name
        return name in (*self.fixed, b"") or name.startswith(self.announcement_prefix)

    def is_kept(self, name: bytes) -> bool:
        """Whether `name` is a list where elements wait for TAKE."""
        return name.startswith(self.prefix + KEPT)

    def announcement(self, db: int, deadline_ms: int, key: bytes) -> bytes:
        """The name that announces the first deadline of `key` to every proxy: see `announced`."""
        index = self.index(key).removeprefix(self.prefix)
        return b"%s%d:%d:%s" % (self.announcement_prefix, db, deadline_ms, index)

    @property
    def seldom_announced(self) -> list[bytes]:
        """The beginning of the announcements that a proxy which looks keys up hears. It is not
        `hello`: it never takes itself for the only one."""
        return [self.prefix + said for said in _SELDOM]

    def announced(self, name: bytes) -> tuple[int, int, bytes] | None:
        """(db, deadline in ms, data key) of an announcement `<prefix>!<db>:<deadline>:<index>`.

        `<index>` is without the prefix. None for any other name.
        """
        if not name.startswith(self.announcement_prefix):
            return None
        fields = name[len(self.announcement_prefix) :].split(b":", 3)
        if len(fields) < 4 or not (fields[0].isdigit() and fields[1].isdigit()):
            return None
        return int(fields[0]), int(fields[1]), fields[3]

    def swapped(self, name: bytes) -> tuple[int, int] | None:
        """The databases of an announcement `<prefix>!swap:<db>:<db>`; None for any other name."""
        said = self.prefix + SWAP
        one, _, other = name.removeprefix(said).partition(b":")
        if not (name.startswith(said) and one.isdigit() and other.isdigit()):
            return None
        return int(one), int(other)

    def walks(self, who: bytes) -> bytes:
        """The name that announces that the proxy `who` walks over the data for all."""
        tag = self.own_tag if self.clustered else b""
        return self.prefix + WALKS + who + b":" + tag

    def walking(self, name: bytes) -> bytes | None:
        """The proxy that an announcement of `walks` names; None for any other name."""
        said = self.prefix + WALKS
        return name[len(said) :].partition(b":")[0] if name.startswith(said) else None

    def layout_told(self, name: bytes) -> bytes | None:
        """The version of the layout that a proxy has just written down, in an announcement
        `<prefix>!layout:<version>`; None for any other name."""
        said = self.prefix + LAYOUT_TOLD
        return name[len(said) :].partition(b":")[0] if name.startswith(said) else None

    def telling(self, news: bytes) -> bytes:
        """The name that announces news which all proxies must acknowledge."""
        tag = self.own_tag if self.clustered else b""
        return self.prefix + NEWS + tag + news

    def told(self, name: bytes) -> bytes | None:
        """The news in an announcement of `telling`; None for any other name."""
        said = self.prefix + NEWS
        if not name.startswith(said):
            return None
        rest = name[len(said) :]
        return rest.partition(b"}")[2] if self.clustered else rest

    def ruled(self, name: bytes) -> tuple[int, bool, bytes] | None:
        """(db, whether the rule counts deliveries, pattern) of an announcement
        `<prefix>!rules:<db>:<1 or 0>:<pattern>`; None for any other name. In a Cluster it is in
        the home slot: `<prefix>!rules::{<word>}<db>:...`."""
        said = self.home(self.prefix + RULES_CHANGED)
        db, counts, pattern, *_ = (*name.removeprefix(said).split(b":", 2), b"", b"")
        if not (name.startswith(said) and db.isdigit()):
            return None
        return int(db), counts == b"1", pattern

    def rules_version(self, name: bytes) -> bytes | None:
        """The version of the rules that the slots of a Cluster's node have been told of, in an
        announcement `<prefix>!version:{<word>}<version>`; None for any other name. It is empty
        if the rules may be gone."""
        said = self.prefix + RULES_VERSION
        return name.partition(b"}")[2] if name.startswith(said) else None

    def is_internal(self, name: bytes) -> bool:
        """Whether `name` belongs to ttlproxy and not to its users."""
        if name.startswith((self.prefix, self.outbox)) or name == self.state:
            return True
        return self.clustered and name == self.home(self.state)
