"""The heartbeat: looks at Redis once a second, and at once if there is a reason.

It is the link's own connection. What it learns stands in the context, the known server and the
registry. Between two heartbeats it looks at what clients' requests may have changed.
"""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.link.acl import Acl
from ttlproxy.link.address_watch import AddressWatch
from ttlproxy.link.announcements import Announcements
from ttlproxy.link.beats import Beats
from ttlproxy.link.compatibility import check_slots
from ttlproxy.link.confirmations import Confirmations
from ttlproxy.link.context import Context
from ttlproxy.link.known_server import KnownServer
from ttlproxy.link.outage_log import OutageLog
from ttlproxy.link.pipeline import error, run, valid
from ttlproxy.link.registry_loader import RegistryLoader
from ttlproxy.link.script_cache import EVENTS, ScriptCache
from ttlproxy.link.server_identity import INFO, Identity, fields
from ttlproxy.link.serving import Serving
from ttlproxy.link.shared_state import SharedState
from ttlproxy.link.upkeep import Upkeep

# Its connection may be lost so often in a row before its server counts as away.
_MOST_LOSSES = 3


class Heartbeat:
    """
    answers: how many heartbeats were answered
    round_trip_ms: how long the last one's requests took, as the event loop saw it
    """

    def __init__(
        self,
        context: Context,
        serving: Serving,
        server: KnownServer,
        address: AddressWatch,
        acl: Acl,
        scripts: ScriptCache,
        loader: RegistryLoader,
        announcements: Announcements,
        confirmations: Confirmations,
        shared_state: SharedState,
        outage_log: OutageLog,
    ) -> None:
        self.answers = 0
        self.round_trip_ms = 0.0
        self._beats = Beats()
        self._context = context
        self._serving = serving
        self._server = server
        self._address = address
        self._acl = acl
        self._scripts = scripts
        self._loader = loader
        self._announcements = announcements
        self._confirmations = confirmations
        self._shared_state = shared_state
        self._outage_log = outage_log

    async def run(self, redis: Redis, upkeep: Upkeep) -> None:
        """Beats until cancelled, for one life of the link.

        Raises ServerChanged, what check_slots raises, redis-py's ConnectionError after several
        losses in a row, and its other errors until clients are served.
        """
        self._beats = Beats()
        losses = 0
        while True:
            self._beats.begin()
            try:
                await self._beat(redis, upkeep)
                self.answers += 1
                await self._confirmations.until_beat(self._beats.left_s, redis, self._look)
                losses = 0
            except RedisConnectionError:
                losses += 1
                if losses > _MOST_LOSSES:
                    raise  # else it is opened again at the next request
            except ResponseError as refusal:  # it was not refused at the beginning, or may pass
                if not self._serving.now:
                    raise
                self._loader.want()
                self._context.refusals.note("the heartbeat", refusal)
                await asyncio.sleep(max(self._beats.left_s, 0))

    def look_again(self) -> None:
        """A request may have changed what was seen: looks at everything at once.

        It looks again a second later, because the request may not have been carried out yet.
        """
        self._beats.be_thorough()
        self._confirmations.beat()

    async def _beat(self, redis: Redis, upkeep: Upkeep) -> None:
        has_told = await self._refresh(redis)
        if has_told:
            await self._keep_serving(redis)
        await self._shared_state.keep(redis)
        if has_told and self._beats.regular:
            await upkeep.run(redis)

    async def _refresh(self, redis: Redis) -> bool:
        """Looks at what may change without a push; returns whether Redis has told that.

        BUSY and the like pass by themselves, and nothing is missed meanwhile.
        """
        context, scripts = self._context, self._context.scripts
        greetings, traits = self._announcements.greetings, scripts.traits
        sent = context.clock.reading()
        requests = (INFO, (b"TIME",), self._scripts.question())
        info, now, known = await run(redis, [(0, words) for words in requests])
        self.round_trip_ms = context.clock.reading() - sent
        refused = [refusal for reply in (info, now, known) if (refusal := error(reply))]
        lacks_right = all(isinstance(refusal, NoPermissionError) for refusal in refused)
        if not lacks_right:
            return False
        for refusal in refused:
            context.refusals.note("the heartbeat", refusal)
        if not error(now):
            context.clock.learn_time(valid(now), sent)
        if not error(info):
            self._recognize(Identity.of(fields(valid(info))), greetings)
        events = await self._look_thoroughly(redis) if self._beats.thorough else None
        if not error(known):
            await self._scripts.learn(redis, traits, known, events)
        else:
            scripts.loaded = False  # as far as can be known
        return True

    def _recognize(self, found: Identity, greetings: int) -> None:
        """Redis has answered; `greetings`: how many had come from other proxies before."""
        if self._server.seen(found):
            self._loader.want()
            self.look_again()
        if self._server.is_demoted:
            self._address.look()  # the address may move to the new master at any time
        # A replica gets other proxies' announcements by replication, and counts only its own.
        alone = found.is_master and found.trackers <= 1
        self._context.registry.others(not alone or greetings != self._announcements.greetings)

    async def _look_thoroughly(self, redis: Redis) -> object:
        """Looks at what seldom changes: users, commands and slots; returns the keyspace events."""
        if self._context.keys.clustered:
            await check_slots(redis, all_of_them=not self._context.is_one_of_several)
        await self._acl.learn_users(redis)
        await self._acl.learn_categories(redis, self._context.router.categories)
        (events,) = await run(redis, [(0, EVENTS)])
        return events

    async def _keep_serving(self, redis: Redis) -> None:
        """Reads the registry if it may lack something; serves clients when it is whole."""
        if self._beats.regular:
            await self._loader.look(redis)
        if self._announcements.connection is None:
            return
        if self._beats.regular or not self._loader.is_whole:
            await self._loader.load_if_needed(redis)
        if self._loader.is_whole and not self._serving.now:
            self._serving.start()
            self._outage_log.over(len(self._context.registry))

    async def _look(self, redis: Redis) -> bool:
        """Looks at what a client's request may have changed; returns whether anything has."""
        traits = self._context.scripts.traits
        changed = await self._acl.learn_users(redis)
        known, events = await run(redis, [(0, self._scripts.question()), (0, EVENTS)])
        if not error(known):
            changed = await self._scripts.learn(redis, traits, known, events) or changed
        return changed
