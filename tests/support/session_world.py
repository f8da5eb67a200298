"""A session without sockets, for the tests of what a client's requests become."""

from __future__ import annotations

from dataclasses import replace

from ttlproxy.commands import KeySpec, Native, Router
from ttlproxy.commands.spec import KNOWN
from ttlproxy.core.counters import Handled
from ttlproxy.core.families import ALL, Families
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import Registry
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import Session, Step
from ttlproxy.wire import NOTHING_DUE, Requests, encode

ONE_KEY = ("GET", "HINCRBY", "HGET", "HLEN", "HSET", "HDEL", "SADD", "EXPIRE", "SET", "APPEND")
NATIVES = [
    *(Native(name, -2, frozenset({"write"}), (KeySpec("RW"),)) for name in ONE_KEY),
    Native("SISMEMBER", 3, frozenset({"readonly"}), (KeySpec("RO"),)),
    Native("PING", -1, frozenset()),
    Native("INFO", -1, frozenset()),
    Native("MULTI", 1, frozenset()),
    Native("EXEC", 1, frozenset()),
    Native("DBSIZE", 1, frozenset()),
    Native("COMMAND", -1, frozenset()),
    Native("DEL", -2, frozenset({"write"}), (KeySpec("RM", last=-1),)),
    Native("SORT", -2, frozenset({"write"}), KNOWN["SORT"]),
    Native("SUNIONSTORE", -3, frozenset({"write"}), (KeySpec("OW"), KeySpec("RO", 2, last=-1))),
    Native("BLMOVE", 6, frozenset({"write"}), KNOWN["BLMOVE"]),
    Native("BRPOPLPUSH", 4, frozenset({"write"}), KNOWN["BRPOPLPUSH"]),
    Native("HEXPIRE", -6, frozenset({"write"}), (KeySpec("RW"),)),
    Native("RENAME", 3, frozenset({"write"}), (KeySpec("RW", last=1),)),
]
NOW_MS = 1_000_000
SCRIPTS, KEYS, RULES = Scripts(b"__ttl:"), Keys(), Router(NATIVES)
_NOTHING = Step()


def read_registry() -> Registry:
    """One that knows of all keys when they need attention: those that are announced."""
    registry = Registry()
    registry.families.add_observer(registry.families_changed)
    registry.end_reading(registry.begin_reading(NOTHING_DUE), NOTHING_DUE)
    return registry


def passes(session: Session, chunk: bytes) -> int:
    """The number of requests of a chunk that goes to Redis as it is; else 0."""
    sent = session.at_once(chunk)
    return sent[1] if sent is not None and sent[0] == chunk else 0


class World:
    """A session and what it shares with others."""

    def __init__(
        self,
        max_request_bytes: int = 1 << 30,
        *,
        asks_login: bool = False,
        router: Router = RULES,
    ) -> None:
        self.owes = False  # whether Redis owes replies to earlier chunks
        self.scripts = SCRIPTS
        self.scripts.loaded = True
        self.registry = read_registry()
        self.rights = Rights()
        self.rights.asks_login = asks_login
        self.counts = Handled()
        families = Families(self.registry.families)
        families.confirm([ALL])
        script_calls = ScriptCalls(self.scripts, KEYS, bytes, families=families)
        self.session = Session(
            router,
            script_calls,
            self.registry.view((0,)),
            self.rights,
            lambda: NOW_MS,
            max_request_bytes,
            self.counts,
            lambda: self.owes,
        )
        self.step = _NOTHING

    def say(self, *requests: bytes | str) -> list[list[bytes]]:
        """What Redis reads if the client sends these in one chunk."""
        chunk = b"".join(
            request if isinstance(request, bytes) else encode(tuple(request.encode().split()))
            for request in requests
        )
        sent = self.take(chunk)
        while self.step.look:
            sent += self.take(self.step.withheld)
        return Requests().feed(sent)

    def take(self, chunk: bytes) -> bytes:
        """The bytes of a chunk that go to Redis; `step` says what else follows."""
        session = self.session
        if (sent := session.at_once(chunk)) is not None:
            to_redis, requests, told = sent
            self.step = replace(_NOTHING, to_redis=to_redis, requests=requests, told=[*told])
            if to_redis == chunk:
                self.step = _NOTHING
            return to_redis
        self.step = self.session.from_client(chunk)
        return self.step.to_redis

    def answer(self, line: bytes) -> None:
        """The replies that matter to the last step begin so."""
        for told in self.step.told:
            assert told.tell is not None
            told.tell(line)

    def names(self, *requests: str) -> list[bytes]:
        return [words[0] for words in self.say(*requests)]
