"""The heartbeat: looks at Redis once a second, and at once if there is a reason.

It uses the link's own connection. Its findings go to the context, the known server and the
registry. Between two heartbeats it looks at what clients' requests may have changed. `Beats` says
when the next heartbeat is due, and whether it is thorough.

A heartbeat is one packet of cheap requests, some 8 us for Redis beside what any packet costs: INFO
alone costs 31. INFO is asked if the connection may be to another server, and seldom otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import uniform
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.errors import Demoted
from ttlproxy.link.connecting.known_server import (
    CLIENTS,
    ERRORS,
    INFO,
    KEYSPACE,
    ROLE,
    Identity,
    databases,
    fields,
    maxlen_refusals,
    trackers,
)
from ttlproxy.link.connecting.pipeline import Words, error, run, valid
from ttlproxy.link.knowledge.announcements import Pushes
from ttlproxy.link.knowledge.sample import Sample
from ttlproxy.link.life.upkeep import Upkeep
from ttlproxy.link.server import command_table
from ttlproxy.link.server.compatibility import check_slots
from ttlproxy.link.server.script_cache import EVENTS
from ttlproxy.link.shared.fleet import Fleet
from ttlproxy.scripts import Traits

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link

EVERY_S: Final = 1.0
# A pause may be shorter by this share, so that proxies that began together do not stay together.
_JITTER: Final = 0.2
# Timers have whole milliseconds, so they may end this much too early.
_EARLY_S: Final = 0.001
# One regular heartbeat in this many looks at what seldom changes; more if there is a reason.
_SELDOM: Final = 10
# Thorough heartbeats after a reason: Redis may carry out the request just after the first.
_AFTER_REASON: Final = 2


class Beats:
    """Regular heartbeats come once a second, or less often if many proxies are attached; others
    whenever `begin` is called earlier.

    regular: whether this heartbeat is a regular one
    thorough: whether it also looks at what seldom changes; has_reason: whether it does so for a
    reason
    walks: whether this proxy walks over the data for all, which takes a heartbeat each second
    """

    def __init__(self, fleet: Fleet) -> None:
        self.regular = True
        self.thorough = True
        self.has_reason = True
        self.walks = False
        self._fleet = fleet
        self._reasons = 1  # heartbeats that must still be thorough
        self._since_thorough = 0
        self._next_s = 0.0  # by the loop's clock

    def begin(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self.regular = now_s >= self._next_s - _EARLY_S
        if self.regular:
            self._next_s = now_s + self._pause_s()
            self._since_thorough += 1
        self.has_reason = self._reasons > 0
        self.thorough = self.has_reason or self._since_thorough >= _SELDOM
        self._reasons = max(self._reasons - 1, 0)
        if self.thorough:
            self._since_thorough = 0

    def be_thorough(self) -> None:
        """Makes the next two heartbeats thorough, because there is a reason."""
        self._reasons = _AFTER_REASON

    @property
    def left_s(self) -> float:
        """Seconds until the next regular heartbeat."""
        return self._next_s - asyncio.get_running_loop().time()

    def _pause_s(self) -> float:
        if self._fleet.attached <= 1:
            return EVERY_S
        longest_s = EVERY_S * (1 if self.walks else self._fleet.stretch)
        return uniform(1 - _JITTER, 1) * longest_s


Asked: TypeAlias = dict[str, Any]
"""Redis's reply to each question that was asked, by its name."""

# Its connection may be lost this often in a row before its server counts as away.
_MOST_LOSSES = 3
# Seconds until a master that says that it is a replica is asked again.
_SECOND_LOOK_S = 0.05


class Heartbeat:
    """Asks, and passes on what it finds.

    answers: how many heartbeats were answered
    round_trip_ms: how long the last one's requests took, as the event loop saw it
    """

    def __init__(self, link: Link) -> None:
        self.answers = 0
        self.round_trip_ms = 0.0
        self._beats = Beats(link.context.fleet)
        self._opened = 0  # how often its connection was opened
        self._by_info = False  # the role must be asked for by INFO
        self._greetings = 0  # before the server last told how many clients track keys
        self._counted: Pushes | None = None  # our own push connection at that time
        self._link = link
        self._context = link.context
        self._server = link.server
        self._announcements = link.announcements
        self._jobs = link.jobs
        self._jobs.look = self._look

    async def run(self, redis: Redis) -> None:
        """Beats until cancelled, for one life of the link.

        Raises ServerChanged, what check_slots raises, redis-py's ConnectionError after several
        losses in a row, and its other errors until clients are served.
        """
        self._beats = Beats(self._context.fleet)
        self._by_info, upkeep = False, Upkeep(self._link)
        losses = 0
        while True:
            self._beats.begin()
            try:
                await self._beat(redis, upkeep)
                self.answers += 1
                await self._jobs.until_beat(self._beats.left_s, redis)
                losses = 0
            except RedisConnectionError:
                losses += 1
                if losses > _MOST_LOSSES:
                    raise  # else it is opened again at the next request
            except ResponseError as refusal:  # it was not refused at the beginning, or may pass
                if not self._context.serving.now:
                    raise
                self._link.loader.want()
                self._context.refusals.note("to answer the heartbeat", refusal)
                await asyncio.sleep(max(self._beats.left_s, 0))

    def opened(self) -> None:
        """Notes that its connection was opened, maybe to another server."""
        self._opened += 1

    def look_again(self) -> None:
        """Looks at everything at once, because a request may have changed what was seen.

        It looks again a second later, because the request may not have been executed yet.
        """
        self._beats.be_thorough()
        self._jobs.beat()

    async def _beat(self, redis: Redis, upkeep: Upkeep) -> None:
        context, thorough = self._context, self._beats.thorough
        traits, sent = context.scripts.traits, context.clock.reading()
        sample = Sample(context, thorough or context.fleet.are_few)
        asked = await self._ask(redis, sample)
        self.round_trip_ms = context.clock.reading() - sent
        try:
            has_told = self._refresh(asked, sent)
        except Demoted:  # a failover may be given up in a moment, and clients need not notice
            await asyncio.sleep(_SECOND_LOOK_S)
            sent, asked = context.clock.reading(), await self._ask(redis, sample)
            has_told = self._refresh(asked, sent)
            self._link.loader.want()
            self.look_again()
        if "state" in asked:  # sessions may wait for it
            await self._link.shared_state.check(redis, asked["state"])
        if has_told:
            if "info" in asked or "keyspace" in asked:
                await self._populate(redis, sample)
            # Only a regular one has asked all databases.
            if self._beats.regular and (sizes := await sample.sizes(redis)) is not None:
                context.managed = sizes
            await self._learn(redis, asked, traits)
            await self._keep_serving(redis, sample)
        if has_told and self._beats.regular:
            await upkeep.run(redis, sample, thorough=thorough)
            self._beats.walks = upkeep.walks

    async def _ask(self, redis: Redis, sample: Sample) -> Asked:
        """Asks all in one packet; again with INFO if the server may be another one, or tells its
        role only there."""
        opened, greetings = self._opened, self._announcements.greetings
        pushes = self._announcements.connection
        questions = self._questions()
        sampled = sample.requests() if self._beats.regular else []
        replies = await run(redis, [*((0, words) for words in questions.values()), *sampled])
        asked: Asked = dict(zip(questions, replies, strict=False))
        if refusal := error(asked.get("role")):
            self._by_info = isinstance(refusal, NoPermissionError) or "unknown" in str(refusal)
        if "info" not in asked and (self._opened != opened or self._by_info):
            (asked["info"],) = await run(redis, [(0, INFO)])
        if "info" in asked or "clients" in asked:
            self._greetings, self._counted = greetings, pushes
        sample.add_replies(replies[len(questions) :])
        return asked

    def _questions(self) -> dict[str, Words]:
        thorough, info = self._beats.thorough, self._beats.has_reason or self._by_info
        are_few, hears = self._context.fleet.are_few, self._context.registry.hears
        # All proxies would count the same.
        stats = thorough and (are_few or self._beats.walks)
        users, commands = (*(self._link.acl.questions() if thorough else ()), None, None)[:2]
        asked: dict[str, Words | None] = {
            "info": INFO if info else None,
            "role": None if self._by_info else ROLE,
            # While there are few proxies, one that comes without a greeting must be noticed soon.
            "clients": CLIENTS if not info and (thorough or are_few) else None,
            "keyspace": KEYSPACE if not info and (thorough or not hears) else None,
            "time": (b"TIME",),
            "scripts": self._link.scripts.question(),
            "users": users,
            "number of commands": commands,
            "events": EVENTS if thorough else None,
            "commands": command_table.COMMAND_STATS if stats else None,
            "errors": ERRORS if stats or (thorough and self._context.actions.rules) else None,
            "proxies": self._announcements.modes.question(),
            "state": next(iter(self._link.shared_state.question()), None),
        }
        return {name: words for name, words in asked.items() if words is not None}

    def _refresh(self, asked: Asked, sent: float) -> bool:
        """Takes what may change without a push; returns whether Redis has told that.

        BUSY and similar errors pass by themselves, and nothing is missed meanwhile.
        """
        context = self._context
        needed = ["info", "clients", "keyspace", "time", "scripts"]
        needed += [] if self._by_info else ["role"]
        refused = [refusal for name in needed if (refusal := error(asked.get(name)))]
        if not all(isinstance(refusal, NoPermissionError) for refusal in refused):
            return False
        for refusal in refused:
            context.refusals.note("to answer the heartbeat", refusal)
        if not error(asked["time"]):
            context.clock.adjust_by(valid(asked["time"]), sent)
        if found := self._found(asked):
            self._recognize(found, asked["proxies"])
        return True

    def _found(self, asked: Asked) -> Identity | None:
        """Returns the server that has answered; None if it does not tell."""
        found = self._server.identity
        if "info" in asked:
            found = Identity.of(said) if (said := _said(asked, "info")) is not None else None
        if found is None:
            return None
        role = asked.get("role")
        if isinstance(role, list):
            is_master = role[:1] == [b"master"]
            if "info" in asked and is_master != found.is_master:
                self._by_info = True  # KeyDB has a role that only INFO tells
            elif not self._by_info:
                found = found._replace(is_master=is_master)
        if (said := _said(asked, "clients")) is not None:
            found = found._replace(trackers=trackers(said))
        if (said := _said(asked, "keyspace")) is not None:
            found = found._replace(databases=databases(said))
        return found

    def _recognize(self, found: Identity, counted: object) -> None:
        """Takes the server that has answered; `counted`: how many proxies there are, see Modes."""
        context, greetings = self._context, self._announcements.greetings
        if self._server.seen(found):
            self._link.loader.want()
            self.look_again()
        if self._server.is_demoted:
            self._link.address.probe_soon()  # the address may move to the new master at any time
        # The client that was counted may be another proxy's, while this one's connection was not
        # open.
        pushes = self._announcements.connection
        is_counted = pushes is not None and pushes is self._counted
        is_unchanged = is_counted and greetings == self._greetings
        # A replica gets other proxies' announcements by replication, and counts only its own.
        is_alone = found.is_master and found.trackers <= 1 and is_unchanged
        context.registry.others(not is_alone)
        attached = self._announcements.modes.attached(counted)
        if attached and found.attached:
            # Others track keys, this one at times not yet. NUMSUB of Valkey 9.1 is wrong at times.
            attached = min(attached, found.attached + 1)
        context.fleet.attached = attached or max(found.attached, 1) + greetings - self._greetings
        if is_alone and not context.fleet.is_alone:
            context.agenda.lead()
        context.fleet.is_alone = is_alone

    async def _learn(self, redis: Redis, asked: Asked, traits: Traits) -> None:
        """Takes what seldom changes, users, commands and slots, and which scripts Redis has.
        `traits`: of the scripts, when that was asked."""
        if self._beats.thorough and self._context.keys.clustered:
            await check_slots(redis, all_of_them=not self._context.is_one_of_several)
        if self._beats.thorough:
            told = [asked[name] for name in ("users", "number of commands") if name in asked]
            await self._link.acl.update(redis, told, self._context.router.categories)
        self._count(asked)
        known, events = asked["scripts"], asked.get("events")
        if not error(known):
            await self._link.scripts.update(redis, traits, known, events)
        else:
            self._context.scripts.loaded = False  # as far as can be known

    def _count(self, asked: Asked) -> None:
        """Takes what the server has counted of all its clients."""
        counts = self._context.node_counts
        if (said := _said(asked, "errors")) is not None:
            counts.errors = command_table.counted_errors(said)
            counts.maxlen_refusals = maxlen_refusals(said)
        if (said := _said(asked, "commands")) is not None:
            counts.commands = command_table.counted_commands(said, self._context.command_families)

    async def _populate(self, redis: Redis, sample: Sample) -> None:
        """Takes the databases that hold keys: not all deadlines are announced, so they were asked
        for."""
        identity = self._server.identity
        if identity is None:
            return
        if new := self._context.registry.populate(identity.databases):
            await sample.widen(redis, new)
            self._context.agenda.look_at(self._context.clock.now_ms())

    async def _keep_serving(self, redis: Redis, sample: Sample) -> None:
        """Reads what is missing, and ahead; serves clients when nothing is missing."""
        if self._beats.regular:
            await self._link.loader.check(redis)
        connection = self._announcements.connection
        if connection is None:
            return
        if self._beats.regular or not self._link.loader.is_whole:
            await self._link.loader.load_if_needed(redis)
        if self._link.loader.is_whole and not self._context.serving.now:
            self._context.serving.start()
            self._link.outage_log.over(self._context.managed_keys)

    async def _look(self, redis: Redis) -> bool:
        """Looks at what a client's request may have changed; returns whether anything has."""
        traits = self._context.scripts.traits
        changed = await self._link.acl.learn_users(redis)
        known, events = await run(redis, [(0, self._link.scripts.question()), (0, EVENTS)])
        if not error(known):
            changed = await self._link.scripts.update(redis, traits, known, events) or changed
        self._announcements.receive()
        await self._link.loader.load_changed(redis)
        return changed


def _said(asked: Asked, name: str) -> Mapping[str, str] | None:
    """Returns the fields of a reply to INFO; None if it was refused, or not asked."""
    return fields(valid(asked[name])) if name in asked and not error(asked[name]) else None
