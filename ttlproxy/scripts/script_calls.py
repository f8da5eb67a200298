"""Script calls as requests for Redis. Knows the names in script headers; knows no connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

from ttlproxy.commands import Call
from ttlproxy.core.families import Families
from ttlproxy.core.keys import Keys, slot
from ttlproxy.core.limits import UNPACK_MAX
from ttlproxy.core.signing import DEFERRED, RULE, Signer
from ttlproxy.scripts import NOT_LOADED, Script, Scripts
from ttlproxy.scripts.direct_calls import DirectCalls
from ttlproxy.scripts.rule_calls import RULE_CALLS, at_home, lease_in_one_slot
from ttlproxy.scripts.unconfirmed import UnconfirmedChanges
from ttlproxy.wire import cut

Section: TypeAlias = Callable[[], bytes]
"""INFO's section about the proxy, as of now."""
_Role: TypeAlias = Callable[[Keys, Sequence[bytes]], bytes]
_RoleOfMany: TypeAlias = Callable[[Keys, Sequence[bytes]], Sequence[bytes]]


class ScriptCalls:
    """Turns calls into requests for Redis; shared by all sessions and the link.

    keys: the names of internal keys; unconfirmed: what clients may have changed for all sessions;
    signer: signs what clients write into Redis for the link to carry out;
    direct: the calls that have a fast path; counts: how many calls were made, by script.
    """

    __slots__ = (
        "_is_one_of_several",
        "_scripts",
        "_section",
        "_slots",
        "counts",
        "direct",
        "families",
        "keys",
        "managed_beside",
        "signer",
        "unconfirmed",
    )

    def __init__(
        self,
        scripts: Scripts,
        keys: Keys,
        section: Section,
        signer: Signer | None = None,
        slots: Callable[[], bytes] = bytes,
        is_one_of_several: bool = False,
        counts: dict[str, int] | None = None,
        families: Families | None = None,
    ) -> None:
        """`signer`: not needed if nothing is signed; `slots`: for slots_count.lua;
        is_one_of_several: the server is one of the masters of a Cluster; `counts`: those of all
        servers, if they are to be read; `families`: those of keys that may have deadlines."""
        self.signer = signer or Signer(b"")
        self._section = section
        self._slots = slots
        self._is_one_of_several = is_one_of_several
        self._scripts = scripts
        self.counts = {} if counts is None else counts
        for name in scripts:
            self.counts.setdefault(name, 0)
        self.keys = keys
        self.unconfirmed = UnconfirmedChanges(scripts)
        self.direct = DirectCalls(scripts, keys)
        # The number of managed keys in other databases than this one, for INFO; empty if all are to
        # be told of.
        self.managed_beside: Callable[[bytes], bytes] = lambda db: b""
        self.families = families or Families()

    @property
    def has_state(self) -> bool | None:
        """See Known, in core/families.py."""
        return self.families.known.has_state

    def words(
        self,
        call: Call,
        db: bytes,
        resp: bytes = b"2",
        by_text: bool = False,
        careful: bool = False,
        denies_oom: bool | None = None,
    ) -> tuple[bytes, ...]:
        """The words of an EVALSHA, or of an EVAL with the text if Redis may not know the script.

        `resp` is b"3" if the client may be in RESP3. `by_text` sends the text in any case, as is
        needed inside MULTI: a NOSCRIPT in EXEC could be neither retried nor undone. `careful`: the
        client may lack a right that the script needs. `denies_oom`: in a transaction, whether Redis
        refuses the command of this call when its memory is full.
        """
        clustered = self.keys.clustered
        if clustered and call.script in _FITTED:
            call = _FITTED[call.script](self, call)
        scripts = self._scripts
        script = scripts.careful(call.script) if careful else scripts[call.script]
        self.counts[call.script] += 1
        if not scripts.loaded:
            scripts.miss()
        as_text = by_text or not scripts.loaded or (careful and not scripts.traits.careful)
        text = script.text if denies_oom is None else scripts.declared(script, denies_oom)
        head = (b"EVAL", text + NOT_LOADED) if as_text else (b"EVALSHA", script.sha)
        if clustered:
            keys, db = self._in_one_slot(script, call, by_text), b"0"
        else:
            roles, of_many = _roles(script.keys)
            keys = [role(self.keys, call.keys) for role in roles]
            if of_many is not None:
                keys += of_many(self.keys, call.keys)
        argv = call.argv
        with_ours = _FIRST.get(script.argv[0]) if script.argv else None
        if with_ours is not None:
            argv = with_ours(self, argv, db, resp)
        if (signed := _SIGNED.get(call.script)) is not None:
            at, kind, words = signed
            argv = (*argv[:at], self.signer.sign(kind, argv[words]), *argv[at:])
        return (*head, b"%d" % len(keys), *keys, *argv)

    def signed_anew(self, data: bytes, former: Signer) -> bytes:
        """`data` with signatures by the present secret in place of those by a former one, which
        another proxy's has replaced while these requests waited for the shared state."""
        requests, _ = cut(data)
        for args in requests:
            if len(args) < 3 or not args[0].startswith(b"EVAL"):
                continue
            argv = args[3 + int(args[2]) :]
            for at, kind, words in _SIGNED.values():
                unsigned = (*argv[:at], *argv[at + 1 :])[words]
                if argv[at : at + 1] == [former.sign(kind, unsigned)]:
                    data = data.replace(argv[at], self.signer.sign(kind, unsigned), 1)
        return data

    def declaration(self, call: Call, denies_oom: bool) -> tuple[bytes, ...] | None:
        """A command that does nothing, has the same flags as the command that a call is for, and
        is allowed where the call is; None where scripts have flags themselves, or none is needed.

        Its key does not exist. Neither form counts as a change then, nor makes an event.
        """
        if self._scripts.traits.flags or not call.keys or self.reads(call):
            return None
        if self.keys.clustered and call.script in RULE_CALLS:
            return None  # the rules are in another slot than their pattern
        key = self.keys.scratch(call.keys[0])
        return (b"ZADD", key, b"XX", b"0", b"") if denies_oom else (b"ZREM", key, b"")

    def _in_one_slot(self, script: Script, call: Call, by_text: bool) -> list[bytes]:
        """The keys of a call to a Cluster; without data keys it is for the server's own slot."""
        if not script.keys:
            is_of_master = call.script == _OF_A_MASTER and not by_text
            return [self.keys.guard(self.keys.here)] if is_of_master else []
        keys, data = self.keys, call.keys or (self.keys.here,)
        roles, of_many = _slot_roles(script.keys)
        number = slot(data[0])
        found = [keys.guard_in(number)]
        for role in roles:
            if isinstance(role, str):
                found.append(keys.shared_in(number, getattr(keys, role)))
            else:
                found.append(role(keys, data))
        return found if of_many is None else [*found, *of_many(keys, data)]

    def unindexed(self, keys: Sequence[bytes], args: Sequence[bytes]) -> tuple[bytes, ...] | None:
        """The words of a request on keys of which no master has an index, as an EVAL that names no
        other key; None for too many words. For slots of a Cluster that are on their way."""
        if len(args) > UNPACK_MAX:
            return None
        script = self._scripts["unindexed_call"]
        self.counts[script.name] += 1
        number, indexes = b"%d" % len(keys), map(self.keys.index, keys)
        return (b"EVAL", script.text + NOT_LOADED, number, *keys, number, *indexes, *args)

    def section(self) -> bytes:
        """INFO's section about the proxy."""
        return self._section()

    def slots(self) -> bytes:
        """The slots of a Cluster that slots_count.lua looks at."""
        return self._slots()

    def at_home(self, call: Call) -> Call:
        """A call for the rules, for their slot. The script tells slots of a rule in the same step:
        a Cluster's only master has all; of several, each is told by itself
        (link/shared/rules_of_all.py)."""
        return at_home(call, self.keys, b"" if self._is_one_of_several else self.keys.all_words)

    def reads(self, call: Call) -> bool:
        """Whether the call writes nothing."""
        return self._scripts[call.script].reads

    def flushed(self) -> None:
        """Redis has said that it does not know a script."""
        self._scripts.flushed()


# It needs no key, and names one of the master's, so that a node which has lost it sends the request
# back; but not in a transaction, which may have keys of one slot only.
_OF_A_MASTER: Final = "slots_count"

# The names that a script's header may have in KEYS -> what they mean for the call's data keys.
_ROLES: Final[dict[str, _Role]] = {
    "data": lambda keys, data: data[0],
    "index": lambda keys, data: keys.index(data[0]),
    "target": lambda keys, data: data[1],
    "target_index": lambda keys, data: keys.index(data[1]),
    "deferred": lambda keys, data: keys.deferred(data[0]),
    "deferred_index": lambda keys, data: keys.index(keys.deferred(data[0])),
    "others": lambda keys, data: keys.others,
    "state": lambda keys, data: keys.state,
    "schedule": lambda keys, data: keys.schedule,
    "rule": lambda keys, data: keys.rule(data[0]),
    "rules": lambda keys, data: keys.rules,
    "kept": lambda keys, data: keys.kept(data[0]),
    "scratch": lambda keys, data: keys.scratch(data[0]),
    "lease": lambda keys, data: keys.lease,
    "progress": lambda keys, data: keys.outbox,
}
# The name for any number of keys, if it is the last.
_ROLES_OF_MANY: Final[dict[str, _RoleOfMany]] = {
    "key...": lambda keys, data: (*data, *map(keys.index, data)),
    "sample...": lambda keys, data: data[1:],
    "fixed...": lambda keys, data: keys.fixed,
}
# Keys that each slot of a Cluster has: the name in KEYS -> that of the attribute of Keys.
_OF_A_SLOT: Final = {
    **{name: name for name in ("others", "state", "schedule", "rules", "lease")},
    "progress": "outbox",
}
# A Cluster has these differences, too.
_SLOT_ROLES: Final[dict[str, _Role]] = _ROLES | {"rule": lambda keys, data: keys.rule(data[1])}
_SLOT_ROLES_OF_MANY: Final[dict[str, _RoleOfMany]] = _ROLES_OF_MANY | {
    "sample...": lambda keys, data: (),
    "fixed...": lambda keys, data: [keys.shared_by(data[0], name) for name in keys.fixed],
}


@cache
def _roles(names: tuple[str, ...]) -> tuple[list[_Role], _RoleOfMany | None]:
    """The roles of the names in KEYS; the last name may stand for many keys."""
    of_many = _ROLES_OF_MANY.get(names[-1]) if names else None
    return [_ROLES[name] for name in (names[:-1] if of_many else names)], of_many


@cache
def _slot_roles(names: tuple[str, ...]) -> tuple[list[_Role | str], _RoleOfMany | None]:
    """The roles in front of a Cluster; for a key that each slot has, the attribute of Keys."""
    of_many = _SLOT_ROLES_OF_MANY.get(names[-1])
    alone = names[:-1] if of_many else names
    return [_OF_A_SLOT.get(name) or _SLOT_ROLES[name] for name in alone], of_many


# Words put before those of a call, by the first name in the ARGV of the script's header.
_FIRST: Final[
    dict[str, Callable[[ScriptCalls, Sequence[bytes], bytes, bytes], Sequence[bytes]]]
] = {
    "db": lambda calls, argv, db, resp: (db, *argv),
    "origin": lambda calls, argv, db, resp: (b"%s %s" % (db, argv[0]), *argv[1:]),
    "resp": lambda calls, argv, db, resp: (resp, *argv),
    "section": lambda calls, argv, db, resp: (calls.section(), calls.managed_beside(db), *argv),
    "slots": lambda calls, argv, db, resp: (calls.slots(), *argv),
}

# Calls that would be for several slots of a Cluster become these.
_FITTED: Final[dict[str, Callable[[ScriptCalls, Call], Call]]] = {
    "keys_count": lambda calls, call: call._replace(script=_OF_A_MASTER),
    **dict.fromkeys(RULE_CALLS, ScriptCalls.at_home),
    "list_lease": lambda calls, call: lease_in_one_slot(call),
}

# Scripts that write down what the link will act on -> the position of the signature among the
# words, its kind, and which words are signed (counted without the signature).
_SIGNED: Final[dict[str, tuple[int, bytes, slice]]] = {
    "deferred_set": (3, DEFERRED, slice(3, None)),
    "rule_set": (3, RULE, slice(1, 3)),
}
