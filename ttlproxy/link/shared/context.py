"""Objects that the link, the reaper and all sessions of a proxy share; built before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias
from weakref import WeakSet

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Router
from ttlproxy.config import Settings
from ttlproxy.core.counters import Connections, Counters, NodeCounts
from ttlproxy.core.expiry_actions import VERSION
from ttlproxy.core.families import Families, Known
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import DbKey, Registry
from ttlproxy.core.signing import Signer, new_secret
from ttlproxy.link.connecting.failures import Refusals
from ttlproxy.link.connecting.known_server import ServerClock, Serving
from ttlproxy.link.connecting.pipeline import AskForKeys, run
from ttlproxy.link.shared.action_cache import ActionCache
from ttlproxy.link.shared.agenda import Agenda
from ttlproxy.link.shared.fleet import Fleet
from ttlproxy.link.shared.info_section import info_section
from ttlproxy.link.shared.rules_of_all import RulesOfAll
from ttlproxy.link.shared.schedule_queries import Overdue, ScheduleQueries
from ttlproxy.link.shared.slot_schedules import SlotSchedules, SlotSurvey
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

IsPaused: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether writes may be paused: then one would keep the heartbeat waiting as long as they are."""


async def _nothing(_: object) -> None:
    """Replaces `look_at_state` and `be_sure` while there is no link."""


async def _no() -> bool:
    """Replaces `is_paused` while there is no link."""
    return False


async def _no_slots() -> Collection[int]:
    """Replaces `known_slots` if nothing is known about the server."""
    return ()


def first_signer(settings: Settings) -> Signer:
    """Returns a signer with the secret of the settings, or a new one until the one in Redis is
    known."""
    key_file = settings.signing_key_file
    return Signer(key_file.at_start.encode() if key_file else new_secret())


class StateLink(Protocol):
    """The part of a link that keeps the state that proxies share (link/server/shared_state.py)."""

    @property
    def is_needed(self) -> bool: ...

    @property
    def read(self) -> Collection[int]: ...

    def look_soon(self) -> None: ...

    def release_sessions(self) -> None: ...


class Teller(Protocol):
    """The part of a link that announces news to the proxies of its server
    (link/knowledge/activation.py)."""

    async def until_all_have_acknowledged(self, news: Collection[bytes]) -> None: ...


class Context:
    """A proxy's knowledge of Redis and of managed keys.

    settings: the proxy's; serving: whether clients are served
    keys: names of internal keys; scripts, script_calls: their texts, and how they are called
    registry: the managed keys that need attention soon
    managed: how many managed keys there are by database, at the last heartbeat that has told
    actions: the rules of ONEXPIRE and ONWRITE; rights: those of the clients' users
    router: for the commands of the server that the link met last; the link replaces it
    command_families: of the same server's commands: see command_table.families_of
    clock: the server's; agenda: what the reaper does next; fleet: how many proxies are attached
    schedule_queries: asks schedules; in front of a Cluster it is slot_schedules
    announced: takes announcements; the registry's own method unless in front of a Cluster
    on_stray(key, deadline_ms): called for announcements in slots that are another master's
    on_awaiting_ttl(places): called for places of `apply_ttl_later` that had to be left
    known_slots(): the slots of which all families are known although the server was met just now
    on_gap: called when the push connection is lost; tellers(): of the other masters of the Cluster
    overdue: keys that should have been reaped, at the last heartbeat
    refusals: what Redis refused, for the log and the metrics
    node_counts, connections: about the present server; the link begins new counts at another one
    is_one_of_several: whether the server is one of the masters of a Cluster
    has_own_secret: whether the secret for signing comes from a file, and is not kept in Redis
    ask_for_keys(redis, requests): works as `run`, for requests that name a key each; the link
    replaces it by a function that follows slots which move
    look_at_state(redis): asks this server for the state that proxies share; the link replaces it
    is_paused(), be_sure(places): the link replaces them by Barriers.may_hold and Activation.add
    pauses_script: whether a pause of writes delays SCRIPT
    state_links: the links to all servers that have one state
    """

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        signer: Signer | None = None,
        rules_of_all: RulesOfAll | None = None,
        known: Known | None = None,
        state_links: WeakSet[StateLink] | None = None,
    ) -> None:
        """`signer`, `rules_of_all`, `known` (families) and `state_links` belong to all masters of a
        Cluster; a single server's context makes its own."""
        self.settings = settings
        self.serving = Serving()
        self.state_links = WeakSet[StateLink]() if state_links is None else state_links
        self.is_one_of_several = signer is not None
        prefix, key_file = settings.prefix.encode(), settings.signing_key_file
        self.has_own_secret = key_file is not None
        signer = signer or first_signer(settings)
        self.keys = keys = Keys(prefix)
        self.scripts = Scripts(prefix)
        self.agenda = Agenda()
        self.fleet = Fleet()
        self.clock = ServerClock(self._clock_was_set)
        self.node_counts = NodeCounts()
        counters.nodes.add(self.node_counts)
        self.counters = counters
        self.connections = Connections()
        self.refusals = Refusals(counters, self.node_counts)
        self._rules_of_all = rules_of_all
        self.actions = (
            rules_of_all.actions if rules_of_all else ActionCache(keys, signer, self.refusals)
        )
        self.actions.add_observer(self.scripts.ruled)
        self.slot_schedules = SlotSchedules(keys)
        self.slot_schedules.survey = SlotSurvey(self)
        self.schedule_queries = ScheduleQueries(keys)
        families = Families(known)
        self._known_families = families.known
        actions = self.actions
        self.registry = Registry(
            self.agenda.announced, actions.has_action, actions.rules, families.known
        )
        self.managed: dict[int, int] = {}
        self._known_families.add_observer(self.registry.families_changed)
        self.registry.families_changed()
        self.announced: Callable[[int, bytes, int], None] = self.registry.announced
        self.has_ended = False
        self.on_stray: Callable[[bytes, int], None] = lambda key, deadline_ms: None
        self.on_awaiting_ttl: Callable[[Iterable[DbKey]], None] = self.apply_ttl_later
        self.known_slots: Callable[[], Awaitable[Collection[int]]] = _no_slots
        self.on_gap: Callable[[], None] = lambda: None
        self.tellers: Callable[[], Collection[Teller]] = lambda: ()
        self.overdue = Overdue()
        self._began_ms = self.clock.reading()
        self.script_calls = ScriptCalls(
            self.scripts,
            keys,
            self._info_section,
            signer,
            lambda: self.schedule_queries.to_count(self.may_have_rules),
            self.is_one_of_several,
            counters.script_calls,
            families,
        )
        self.script_calls.managed_beside = self._managed_beside
        shows_internal = settings.show_internal_keys == "yes"
        self.rights = Rights(
            keys.index(b"k"), shows_internal, keys.schedule, keys.fixed, keys.beside
        )
        self.router = Router()
        self.command_families: dict[str, str] = {}
        self.ask_for_keys: AskForKeys = run
        self.look_at_state: Callable[[Redis], Awaitable[None]] = _nothing
        self.is_paused: IsPaused = _no
        self.be_sure: Callable[[Iterable[DbKey]], Awaitable[None]] = _nothing
        self.pauses_script = False

    def set_clustered(self, clustered: bool) -> None:
        """Takes whether a new server is a node of a Cluster, which decides where things are
        kept."""
        keys = self.keys
        if clustered != keys.clustered:
            keys.clustered = clustered
            if clustered:
                self.schedule_queries, self.announced = self.slot_schedules, self._announced_in
            else:
                self.schedule_queries = ScheduleQueries(keys)
                self.announced = self.registry.announced
            schedule = keys.schedule + b":{" if clustered else keys.schedule
            self.rights.place(schedule, keys.counted, by_slot=clustered)

    @property
    def managed_keys(self) -> int:
        """The number of managed keys in all databases."""
        return sum(self.managed.values())

    def _info_section(self) -> bytes:
        managed, counters = self.managed_keys, self.counters
        return info_section(self._began_ms, self.clock, managed, counters, self.overdue)

    def _managed_beside(self, db: bytes) -> bytes:
        """Returns the number of managed keys in other databases than `db`; empty if that is not
        certain, as behind a SELECT."""
        if self.keys.clustered or not db.isdigit():
            return b""
        return b"%d" % (self.managed_keys - self.managed.get(int(db), 0))

    def _clock_was_set(self) -> None:
        """Forgets what was planned by the old clock: deadlines that scripts do not announce may be
        due sooner."""
        self.agenda.look_now()
        self.registry.forget_all()

    async def would_wait(self) -> bool:
        """Whether SCRIPT and all scripts would wait, because writes are paused."""
        return self.pauses_script and await self.is_paused()

    async def take_known_slots(self) -> Collection[int]:
        """Returns `known_slots`, once: later the server may have other data."""
        known, self.known_slots = self.known_slots, _no_slots
        return await known()

    def end(self) -> None:
        """Ends the use of this context: the master is left for good, and another one has its slots,
        or will have them."""
        self.has_ended = True
        self.actions.remove_observer(self.scripts.ruled)
        self._known_families.remove_observer(self.registry.families_changed)
        self.counters.nodes.discard(self.node_counts)

    @property
    def has_rules(self) -> bool:
        """Whether the rules of ONEXPIRE are kept at this server."""
        return not self.is_one_of_several or self.keys.are_home

    @property
    def may_have_rules(self) -> bool:
        """Whether slots may know a version of the rules, as far as they have been read."""
        return not self.actions.knows(0) or bool(self.actions.of(0).version)

    async def may_be_indexed(self, redis: Redis, places: Sequence[DbKey]) -> list[bool]:
        """Returns for each place whether it may have an index, also if its slot moves."""
        requests = [(db, (b"EXISTS", self.keys.index(key))) for db, key in places]
        return [reply != 0 for reply in await self.ask_for_keys(redis, requests)]

    async def learn_rules(self, redis: Redis, db: int) -> None:
        """Reads the rules of a database, unless they are known. `redis`: this server.

        Raises redis-py's RedisError; ResponseError if another master has them and does not answer.
        """
        if self._rules_of_all is None or self.keys.are_home:
            await self.actions.read(redis, db)
        elif not self.actions.knows(db):
            await self._rules_of_all.read()

    async def learn_missed_rules(self, redis: Redis) -> None:
        """Reads rules that may have changed unnoticed. `redis`, and what is raised: as
        `learn_rules`.

        In front of a Cluster each slot knows the version. If it is not newer than the one that is
        known here, the master with the rules need not be there.
        """
        if not self.is_one_of_several:
            self.actions.forget_all()
            return
        name = self.keys.shared_by(self.keys.here, self.keys.rules)
        (reply,) = await run(redis, [(0, (b"HGET", name, VERSION))])
        version = reply if isinstance(reply, bytes) else b""
        if isinstance(reply, ResponseError):
            self.actions.forget_all()
        elif self.has_rules:
            self.actions.home_has(version)
        elif version:
            self.actions.version_announced(version)
        await self.learn_rules(redis, 0)

    def _announced_in(self, db: int, key: bytes, deadline_ms: int) -> None:
        number = self.slot_schedules.noted(key, deadline_ms)
        self.registry.announced(db, key, deadline_ms)
        if number not in self.slot_schedules.owned:
            self.on_stray(key, deadline_ms)

    def suit_scripts_to_users(self) -> None:
        """Suits the scripts to the users' rights, which were read anew."""
        self.scripts.wanted(careful=not self.rights.all_have_all)

    def apply_ttl_later(self, places: Iterable[DbKey]) -> None:
        """Plans that elements there without a deadline get that of a rule of ONWRITE."""
        if self.has_ended:
            self.on_awaiting_ttl(places)
        else:
            self.agenda.apply_ttl(places, self.clock.now_ms())

    def sweep_later(self, places: Iterable[DbKey]) -> None:
        """Plans a sweep: a request or a reap may leave index entries there whose element is
        gone."""
        self.agenda.sweep(places, self.clock.now_ms())
