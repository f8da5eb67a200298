"""Script calls as requests for Redis. Knows what a script's header asks for, and no connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from ttlproxy.commands import Call
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.unconfirmed import Claims

Section: TypeAlias = Callable[[], bytes]
"""INFO's section about the proxy, as of now."""


class Caller:
    """Turns calls into requests for Redis; shared by all sessions and the link.

    keys: the names of internal keys; claims: what clients may have changed of what is shared;
    signer: of what clients write down for the link.
    """

    __slots__ = ("_scripts", "_section", "claims", "keys", "signer")

    def __init__(
        self, scripts: Scripts, keys: Keys, section: Section, signer: Signer | None = None
    ) -> None:
        """`signer`: where nothing is signed, none is needed."""
        self.signer = signer or Signer(b"")
        self._section = section
        self._scripts = scripts
        self.keys = keys
        self.claims = Claims(scripts)

    def words(
        self, call: Call, db: bytes, resp: bytes = b"2", by_text: bool = False
    ) -> tuple[bytes, ...]:
        """The words of an EVALSHA; of an EVAL with the script's text where Redis may not know it.

        `resp` is b"3" where the client may be in RESP3. `by_text`: also where it is believed to,
        such as inside MULTI, for a NOSCRIPT inside EXEC could be neither retried nor undone.
        """
        script = self._scripts[call.script]
        as_text = by_text or not self._scripts.loaded
        head = (b"EVAL", script.text) if as_text else (b"EVALSHA", script.sha)
        keys = [name for role in script.keys for name in _ROLES[role](self.keys, call.keys)]
        argv = call.argv
        with_ours = _FIRST.get(script.argv[0]) if script.argv else None
        if with_ours is not None:
            argv = with_ours(argv, db, resp, self._section)
        if (signed := _SIGNED.get(call.script)) is not None:
            at, kind, words = signed
            argv = (*argv[:at], self.signer.sign(kind, argv[words]), *argv[at:])
        return (*head, b"%d" % len(keys), *keys, *argv)

    def reads(self, call: Call) -> bool:
        """Whether it writes nothing."""
        return self._scripts[call.script].reads

    def flushed(self) -> None:
        """Redis has said that it does not know a script."""
        self._scripts.flushed()


# What a script's header calls its KEYS, for these data keys.
_ROLES: Final[dict[str, Callable[[Keys, Sequence[bytes]], Iterable[bytes]]]] = {
    "data": lambda keys, data: (data[0],),
    "index": lambda keys, data: (keys.index(data[0]),),
    "target": lambda keys, data: (data[1],),
    "target_index": lambda keys, data: (keys.index(data[1]),),
    "later": lambda keys, data: (keys.later(data[0]),),
    "later_index": lambda keys, data: (keys.index(keys.later(data[0])),),
    "others": lambda keys, data: (keys.others,),
    "state": lambda keys, data: (keys.state,),
    "old_counts": lambda keys, data: (keys.old_counts,),
    "old_layout": lambda keys, data: (keys.old_layout,),
    "schedule": lambda keys, data: (keys.schedule,),
    "key...": lambda keys, data: (*data, *map(keys.index, data)),
    "rule": lambda keys, data: (keys.rule(data[0]),),
    "sample...": lambda keys, data: data[1:],
    "rules": lambda keys, data: (keys.rules,),
    "kept": lambda keys, data: (keys.kept(data[0]),),
    "lease": lambda keys, data: (keys.lease,),
    "fixed...": lambda keys, data: keys.fixed,
}

# A call's words with what no command knows, for scripts whose header names that first.
_FIRST: Final[dict[str, Callable[[Sequence[bytes], bytes, bytes, Section], Sequence[bytes]]]] = {
    "db": lambda argv, db, resp, section: (db, *argv),
    "origin": lambda argv, db, resp, section: (b"%s %s" % (db, argv[0]), *argv[1:]),
    "resp": lambda argv, db, resp, section: (resp, *argv),
    "section": lambda argv, db, resp, section: (section(), *argv),
}

# Scripts that write down what the link will act on: where the signature goes among the words, what
# kind it is of, and which of the words before it is put there are signed.
_SIGNED: Final[dict[str, tuple[int, bytes, slice]]] = {
    "later_set": (3, b"defer", slice(3, None)),
    "rule_set": (3, b"rule", slice(1, 3)),
}
