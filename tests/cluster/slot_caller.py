"""A client's requests as a proxy would send them to a Cluster, without that proxy.

In a Cluster, whatever belongs to a key is in its slot. `Caller` says what a session makes of a
request if it takes every key for a managed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tests.support.cluster import Node
from tests.support.session_world import passes, read_registry
from ttlproxy.commands import Call, Router, natives
from ttlproxy.core.counters import Handled
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import Session
from ttlproxy.wire import Requests, encode

PREFIX = b"__ttl:"
LATE_MS = 1 << 45
# The keys of the rows, in one slot.
IN_SLOT = {name: b"{slot}" + name for name in (b"k", b"to", b"new", b"nokey", b"held")}
# What a Cluster does not have, or what names keys of all slots.
ELSEWHERE = ("MOVE", "SWAPDB", "ONEXPIRE", "ONWRITE", "FLUSHDB")


@cache
def _scripts(has_flags: bool) -> Scripts:
    """The texts for a server; to make them anew would be half of a test."""
    scripts = Scripts(PREFIX)
    scripts.suit(Traits(clustered=True, flags=has_flags))
    return scripts


@cache
def _router(node: Node) -> Router:
    """The table of commands of this node, which does not change."""
    return Router(natives(node.ask("COMMAND")))


class Caller:
    """Turns requests into what goes to a node."""

    def __init__(self, node: Node, managed: Iterable[bytes], careful: bool = False) -> None:
        """`careful`: for a client that may lack a right."""
        has_flags = node.ask("COMMAND", "INFO", "EVAL_RO") != [None]
        self._rights = Rights()
        if careful:
            self._rights.learn_refused(hidden=True)
        self.keys = Keys(PREFIX, clustered=True)
        self._router = _router(node)
        self._script_calls = ScriptCalls(_scripts(has_flags), self.keys, bytes)
        self._registry = read_registry()
        for key in managed:
            self._registry.announced(0, key, LATE_MS)
        self._now_ms = node.client.now_ms

    def called(self, call: Call) -> tuple[bytes, ...]:
        """The request of one of the link's own scripts."""
        return self._script_calls.words(call, b"0")

    def sent(self, words: Sequence[bytes]) -> list[list[bytes]]:
        """The requests that go to Redis for one request of a client."""
        session = Session(
            self._router,
            self._script_calls,
            self._registry.view((0,)),
            self._rights,
            self._now_ms,
            1 << 30,
            Handled(),
            lambda: False,
        )
        chunk = encode(tuple(words))
        out = chunk if passes(session, chunk) else session.from_client(chunk).to_redis
        return Requests().feed(out)
