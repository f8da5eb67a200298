"""The state that the proxies of one server share, beside deadlines: a secret, the layout's version,
and which families have keys with deadlines, so that a proxy that starts need not read names.

All are in a hash whose name no ACL pattern of keys under the prefix reaches. It is there before the
first deadline, rule or deferred command, and while there are several proxies; when none of these is
left, it is removed (scripts/state_drop.lua). So a server on which no such feature is used has no
key of ours. In front of a Cluster one master has it, and the links to the others wait for the link
to that one. The first proxy writes it, and the others adopt it; when it is gone, as after FLUSHALL,
any of them writes it again. A proxy that meets the layout of another version ends.

A family is noted before it counts, so before its first deadline: a replica that has that deadline
has the family, too. Their number is noted only by a proxy that knows all of them; without that
number the names are read. In front of a Cluster, where slots move, they always are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError, ResponseError

from ttlproxy import __version__
from ttlproxy.commands import Call
from ttlproxy.core.keys import FAMILY, SLOTS
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link.connecting.failures import is_wrong_type
from ttlproxy.link.connecting.pipeline import Words, answered, run, valid
from ttlproxy.link.server.compatibility import LAYOUT, check_layout, check_old_layout
from ttlproxy.link.shared.context import Context

LAYOUT_NAME: Final = b"%d" % LAYOUT
_FIELDS: Final = (b"secret", b"layout", b"program", b"families")


class SharedState:
    """Keeps in Redis the layout's version, the secret of `script_calls.signer` if no file has it,
    and the families that are known.

    look_soon: called when `keep` is to be called soon
    knows_all(): whether this proxy knows all families of the server
    """

    def __init__(self, context: Context) -> None:
        self.look_soon: Callable[[], None] = lambda: None
        self.knows_all: Callable[[], bool] = lambda: False
        self._noted = -1  # families in the state; -1: not known whether these are all
        self._seen = frozenset[bytes]()  # some of these
        self._context = context
        self._script_calls = context.script_calls
        self._refusals = context.refusals
        self._families = context.script_calls.families.known
        self._shares_secret = not context.has_own_secret
        self._wanted: asyncio.Future[None] | None = None  # a session waits for the state
        self._state_links = context.state_links
        self._state_links.add(self)

    def first_questions(self) -> list[Words]:
        """Returns the questions to a new server: the state, and whether it has a layout from before
        it."""
        keys = self._script_calls.keys
        return [*self.question(), (b"GET", keys.home(keys.old_layout))] if keys.are_home else []

    def adopt(self, replies: Sequence[object]) -> None:
        """Adopts the state of a new server. `replies`: to `first_questions`. Raises UnfitUpstream
        as `check` does."""
        if not replies:
            return  # another master of the Cluster has it
        state, old_layout = replies
        check_old_layout(self._script_calls.keys.prefix, old_layout)
        self._families.has_state = False  # unless `_take` finds it
        self._take(state)

    async def keep(self, redis: Redis) -> None:
        """Checks the state now."""
        for reply in await run(redis, [(0, words) for words in self.question()]):
            await self.check(redis, reply)

    def question(self) -> list[Words]:
        """Returns the question for the state; empty if another master of the Cluster has it."""
        keys = self._script_calls.keys
        name = keys.home(keys.state)
        return [(b"HMGET", name, *_FIELDS)] if keys.are_home else []

    async def check(self, redis: Redis, reply: object) -> None:
        """Takes the reply, in each heartbeat: the state may be gone, or another proxy may have
        written it.

        Raises UnfitUpstream if it has another layout, or is not ttlproxy's, and redis-py's
        ConnectionError or TimeoutError.
        """
        is_there = self._take(reply)
        if is_there or not self._is_needed_by_any:
            self._release_all()
        elif not await self._context.is_paused():
            await self.claim(redis)
            self._release_all()
        if self._lacks_families and not await self._context.is_paused():
            await self._note_all(redis)

    def stored(self) -> asyncio.Future[None]:
        """Returns a future that is done when the state is in Redis, or Redis has refused it."""
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().create_future()
            self._families.has_state = None  # from now on there may be something to hide
            self._look_soon()
        return self._wanted

    def may_be_gone(self) -> None:
        """Has the state looked at soon, if it was on this server; if it was not there, it still is
        not."""
        if not self._script_calls.keys.are_home:
            return
        if self._families.has_state:
            self._families.has_state = None
        self._look_soon()

    def may_be_there(self) -> None:
        """Has the state looked at soon, because another proxy has announced something."""
        if not self._families.has_state:
            self._families.has_state = None
            self._look_soon()

    def _look_soon(self) -> None:
        for each in self._state_links:
            each.look_soon()

    def noting(self, families: Iterable[bytes], *, whole: bool = False) -> Call:
        """Returns the call that notes families in the state; `whole`: these are all that the server
        has."""
        return Call("state_families", (), (b"1" if whole else b"", *families))

    async def families(self, redis: Redis) -> list[bytes] | None:
        """Returns all families of which the server has keys with deadlines; None if that is not
        noted."""
        keys = self._script_calls.keys
        if keys.clustered:
            return None
        asked = (b"HKEYS", keys.state), (b"HGET", keys.state, b"families")
        names, number = await run(redis, [(0, words) for words in asked])
        if not isinstance(names, list):
            return None
        found = [name.removeprefix(FAMILY) for name in names if name.startswith(FAMILY)]
        if number != b"%d" % len(found):
            return None
        self._seen = frozenset(found)
        return found

    @property
    def _lacks_families(self) -> bool:
        """Whether this proxy can note families that the state does not have."""
        if self._script_calls.keys.clustered or not self._families.has_state:
            return False
        known = self._families.all
        return (self._noted < len(known) or not known <= self._seen) and self.knows_all()

    async def _note_all(self, redis: Redis) -> None:
        known = frozenset(self._families.all)
        reply = await answered(redis, self._script_calls, 0, self.noting(known, whole=True))
        if isinstance(reply, int):
            self._noted, self._seen = reply, known
        elif isinstance(reply, ResponseError) and not isinstance(reply, ReadOnlyError):
            self._refusals.note("to note of which families there are deadlines", reply)

    async def drop(self, redis: Redis, databases: Iterable[int]) -> None:
        """Removes the state if nothing needs it. `databases`: those that hold keys."""
        calls, known = self._script_calls, self._families
        if known.has_state is False or not calls.keys.are_home or self._is_needed_by_any:
            return
        read = {*chain(*(each.read for each in self._state_links))}
        if self._context.is_one_of_several and len(read) < SLOTS:
            return  # a master that is away may have deadlines
        if await self._context.is_paused() or self._is_needed_by_any:
            return
        known.has_state = None  # from now on sessions wait for it
        call = Call("state_drop", (), tuple(b"%d" % db for db in databases))
        try:
            known.has_state = not valid(await answered(redis, calls, 0, call))
        except ResponseError as refusal:
            known.has_state = True
            self._refusals.note("to remove the state of the proxies", refusal)

    @property
    def is_needed(self) -> bool:
        """Whether this server has, or may soon have, what needs the state."""
        context = self._context
        if context.has_ended:
            return False
        if context.fleet.attached > 1 or self._wanted is not None:
            return True
        has_keys = context.managed_keys or context.registry.has_managed
        return bool(has_keys or context.slot_schedules.slots()) or context.actions.has_rules

    @property
    def read(self) -> Collection[int]:
        """The slots that `is_needed` takes into account."""
        return () if self._context.has_ended else self._context.slot_schedules.read

    @property
    def _is_needed_by_any(self) -> bool:
        return any(each.is_needed for each in self._state_links)

    def _release_all(self) -> None:
        for each in self._state_links:
            each.release_sessions()

    def release_sessions(self) -> None:
        """Lets sessions go on that wait for the state."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None and not wanted.done():
            wanted.set_result(None)

    async def claim(self, redis: Redis) -> None:
        """Writes what is missing, and adopts what is there. If Redis refuses the write, as a
        replica does, the proxy serves with a secret of its own."""
        secret = self._script_calls.signer.secret if self._shares_secret else b""
        call = Call("state_keep", (), (secret, LAYOUT_NAME, __version__.encode()))
        try:
            self._take(valid(await answered(redis, self._script_calls, 0, call)))
        except ReadOnlyError:
            pass
        except ResponseError as refusal:
            self._refusals.note("to store the secret of the proxies", refusal)
        self._families.has_state = True  # until the next look, if it was refused

    def _take(self, state: object) -> bool:
        """Takes the secret in Redis, if there is one; returns whether the state is whole.

        Rules that were verified with another secret are read again: a replica may get rules, and
        the secret, with the data of another master.
        """
        calls, keys, known = self._script_calls, self._script_calls.keys, self._families
        if isinstance(state, ResponseError) and is_wrong_type(state):
            raise UnfitUpstream(f"{keys.home(keys.state).decode()} is no hash of ttlproxy's")
        if not isinstance(state, list):
            known.has_state = True  # as far as can be told
            return False
        secret, layout, program, families = state
        self._noted = int(families or -1)
        check_layout(keys.prefix, layout, program)
        if self._shares_secret and secret and secret != calls.signer.secret:
            calls.signer.adopt(secret)
            self._context.actions.forget_all()
        is_whole = bool(layout and (secret or not self._shares_secret))
        # A state without a secret comes from a purge that has left elements which wait for TAKE. A
        # swap may have moved the state: there are keys to hide until it is written again, or `drop`
        # has looked.
        may_be_there = layout or self._is_needed_by_any or known.has_state is not False
        known.has_state = is_whole or (None if may_be_there else False)
        return is_whole
