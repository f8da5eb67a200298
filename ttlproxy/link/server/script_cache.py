"""Knows which of our scripts Redis has, and whether they suit what it is set to publish.

All are loaded when one is first called, so a server has none before; that call sends the text. What
a client's request may have changed counts as doubtful until the second look after its reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis

from ttlproxy.link.connecting.known_server import cached_scripts
from ttlproxy.link.connecting.pipeline import error, run, valid
from ttlproxy.link.server import compatibility
from ttlproxy.link.server.compatibility import setting
from ttlproxy.link.shared.context import Context
from ttlproxy.scripts import Traits

# Asks which keyspace events the server publishes.
EVENTS: Final = (b"CONFIG", b"GET", b"notify-keyspace-events")
# The questions to a new server.
AT_FIRST: Final = (EVENTS, *compatibility.TRIALS)
_HASH_DEADLINES: Final = {"HPEXPIRETIME", "HPEXPIREAT", "HPERSIST"}


class ScriptCache:
    """Loads scripts that Redis does not have; `Context.scripts` has what is believed of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._given: Traits | None = None  # the traits of the scripts that were last loaded
        self._loaded: Traits | None = None  # the same, while Redis surely has them all
        self._doubts: int | None = 0  # about scripts, at the last look, if all were answered
        self._cached = 0  # how many scripts Redis had, if their number is asked for
        self._least = 0  # how many it had at least, after the last load
        self._notifies = ""  # notify-keyspace-events, as last read

    def start_anew(
        self, said: Mapping[str, str], names: Iterable[str], replies: Sequence[object]
    ) -> None:
        """Suits the scripts to a new server; `said`: the fields of INFO, `names`: its commands,
        `replies`: to AT_FIRST. Raises UnfitUpstream if it runs no scripts."""
        scripts, commands = self._scripts, set(names)
        scripts.loaded = False
        self._context.pauses_script = compatibility.pauses_script(said)
        events, *trials = replies
        self._notifies = setting(events)
        traits = Traits(
            commands >= _HASH_DEADLINES,
            compatibility.has_subkey_events(said),
            counting=scripts.traits.counting,
            ruled=scripts.traits.ruled,
            flags="EVAL_RO" in commands,
            careful=scripts.traits.careful,
            clustered=compatibility.is_clustered(said),
        )
        scripts.suit(traits.notifying(self._notifies))
        scripts.by_text = compatibility.wants_text(trials)

    def question(self) -> tuple[bytes, ...]:
        """Returns a question for one script, because a flush removes all; for their number, if a
        pause delays SCRIPT."""
        if self._context.pauses_script:
            return (b"INFO", b"memory")
        return (b"SCRIPT", b"EXISTS", next(iter(self._scripts.values())).sha)

    async def update(self, redis: Redis, asked: Traits, reply: object, events: object) -> bool:
        """Takes the reply to `question`; returns whether the answer has changed.

        The question may have come before a request that has been answered meanwhile, so doubts
        count until the look after that. `asked`: the traits when the question was sent; `events`:
        the reply to EVENTS, None if that was not asked. Raises Redis's error.
        """
        scripts, is_known = self._scripts, self._found(reply)
        is_calm = self._doubts == scripts.doubts
        self._doubts = self._known_doubts
        knows_events = events is not None and not error(events)
        notifies = setting(events) if knows_events else self._notifies
        is_flushed = asked == self._given and not is_known
        # If there are other proxies, they may not have noticed: then all are loaded again at once,
        # for them.
        if is_flushed and self._context.fleet.attached <= 1:
            self._given, self._least, scripts.called = None, 0, False
        changed = notifies != self._notifies or is_flushed
        scripts.changed |= changed
        self._notifies = notifies
        if scripts.traits == asked:
            suited = asked.notifying if is_calm else asked.perhaps_notifying
            scripts.suit(suited(notifies))
        if not (is_calm and is_known):
            self._loaded = None  # until all are asked for: the next count may look unchanged
        if is_calm and not (scripts.traits == asked == self._loaded):
            if not scripts.called:
                scripts.loaded = False
            elif not await self._context.would_wait():
                await self.load(redis)
        elif is_calm:
            scripts.loaded = not scripts.by_text
        return changed

    async def begin(self, redis: Redis) -> None:
        """Begins a life: loads the scripts that are missing, if another proxy has loaded some.
        Builds them all in any case, which takes a while."""
        scripts = self._scripts.all()
        (known,) = await run(redis, [(0, (b"SCRIPT", b"EXISTS", scripts[0].sha))])
        self._scripts.loaded, self._scripts.called = False, any(valid(known))
        if self._scripts.called:
            await self.load(redis)

    async def load_called(self, redis: Redis) -> None:
        """Loads the scripts if one has been called."""
        if self._scripts.called and not (self._scripts.loaded or await self._context.would_wait()):
            await self.load(redis)

    async def load(self, redis: Redis) -> None:
        """Loads all scripts, in their order, if Redis lacks any.

        A flush right after the question would also remove those that it had, and only the first is
        asked for later.
        """
        if self._scripts.by_text:
            self._scripts.loaded = False
            return
        traits, doubts = self._scripts.traits, self._known_doubts
        scripts = self._scripts.all()
        words = (b"SCRIPT", b"EXISTS", *(script.sha for script in scripts))
        (known,) = await run(redis, [(0, words)])
        missing = [] if all(valid(known)) else scripts
        self._scripts.loaded = self._scripts.loaded and not missing
        for reply in await run(redis, [(0, (b"SCRIPT", b"LOAD", each.text)) for each in missing]):
            valid(reply)
        self._given = self._loaded = traits
        self._least = len(scripts)
        self._scripts.changed |= bool(missing)  # after the last one: a flush may have come between
        is_same = (self._scripts.traits, self._known_doubts) == (traits, doubts)
        self._scripts.loaded = is_same and doubts is not None

    @property
    def _known_doubts(self) -> int | None:
        """How many requests may have changed the scripts; None if one may still come."""
        return None if self._scripts.unanswered else self._scripts.doubts

    def _found(self, reply: object) -> bool:
        """Whether Redis has the script, or as many as before, by the reply to `question`."""
        if not self._context.pauses_script:
            return all(valid(reply))
        before, self._cached = self._cached, cached_scripts(valid(reply))
        return self._cached >= max(before, self._least)
