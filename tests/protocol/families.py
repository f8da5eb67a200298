"""Proxies that share one Redis, and a family of keys that gets its first deadline: a model.

docs/decisions/0036 has the protocol in words. One key with one element, one family, any number of
proxies with one connection each for their clients (bytes arrive in order, after any delay) and one
for pushes. Each proxy decides on a request and sends it in two steps, and takes each step of the
protocol whenever it likes: so a proxy that pauses, lags or hangs is among the states. A deadline
may pass at any step after it is stored, and the reaper comes at any step after that.

Faults: the element is removed by a deadline that is older than it ("stale"), and it is written
without the deadline of a rule that is in force ("unruled"). Each is CAUSAL if the write was sent
after the reply to what it fails to respect, else CONCURRENT.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, TypeVar

Thing = TypeVar("Thing")

CAUSAL, CONCURRENT = "causal", "concurrent"
# What clients ask for: to set a deadline, to make a rule, to write, to add under a rule, to flush.
SET_DEADLINE, MAKE_RULE, WRITE, ADD, FLUSH = "HSETEX", "ONWRITE", "HSET", "SADD", "FLUSHALL"
# What becomes of a request: as it came, with the clearing of its deadline in the same step, or a
# script. A script that stores something is sent only where that is sure.
RAW, PAIR, SCRIPT = "raw", "paired", "script"
# The states of a client's connection: opened, named, and known to be named while its proxy is
# registered.
DOWN, OPEN, NAMED, READY = "down", "open", "named", "ready"
# What may go wrong, besides delays: of one proxy, by its number.
BREAK, CUT, RESTART = "break", "cut", "restart"


class Rules(NamedTuple):
    """The rules of the protocol, to be left out one at a time."""

    pushes_only: bool = False  # the design of decisions 0007 and 0026: who has heard of it acts so
    named_first: bool = True  # raw requests and setters go over named connections only
    verified: bool = True  # ... whose proxy was registered after the name was there
    joins: bool = True  # raw requests only after a look at who else is there, and what they know
    kills_orphans: bool = True  # ... that finds no connection of a proxy which is not registered
    reads_schedule: bool = True  # ... and what is stored
    one_look: bool = True  # all of this is one step of Redis
    drains: bool = True  # who acknowledges has no raw request under way, or decided
    counts_lost: bool = True  # ... nor on connections that were lost
    asks_all: bool = True  # setters wait until all that are registered have acknowledged
    looks_for_orphans: bool = True  # ... and there is no connection of others
    bound: bool = True  # a decision is for its connection
    forgets_sureness: bool = True  # who was cut off is not sure any more
    keeps_known: bool = True  # who comes back says at once what it knows


Ask: TypeAlias = tuple[int, str, bool]
"""A request: whose it is, what, and whether its client has had the reply to a setter before."""


class Proxy(NamedTuple):
    """life: it is another process after a restart; registered: as far as it knows; inbox: requests
    that were read; decided: one that is about to be sent, as what, and whether the connection is
    still the one it was decided for; raws: how many raw ones have no reply; lost_raws: whether some
    were on connections that were lost; alive: whether Redis still has the connection;
    seen: whether the family was known at the first look, where two are taken"""

    life: int = 0
    registered: bool = False
    joined: bool = False
    knows: bool = False
    sure: bool = False
    has_news: bool = False
    said: bool = False
    announced: bool = False
    conn: str = DOWN
    alive: bool = False
    out: tuple[tuple[str, Ask], ...] = ()
    inbox: tuple[Ask, ...] = ()
    decided: tuple[Ask, str, bool] | None = None
    raws: int = 0
    lost_raws: bool = False
    seen: bool | None = None


class Lost(NamedTuple):
    """A connection that its proxy has lost, and the bytes that Redis may still carry out."""

    proxy: int
    life: int
    named: bool
    out: tuple[tuple[str, Ask], ...]


class Redis(NamedTuple):
    """registered: (proxy, life, whether it has acknowledged); value: "" if there is none;
    stale: how the value was written beside the deadline, "" if that is its own"""

    registered: frozenset[tuple[int, int, bool]] = frozenset()
    lost: tuple[Lost, ...] = ()
    value: str = ""
    deadline: bool = False
    past: bool = False
    stale: str = ""
    rule: bool = False


class World(NamedTuple):
    """clients: of each how many of its requests are answered, and whether one is under way"""

    redis: Redis
    proxies: tuple[Proxy, ...]
    clients: tuple[tuple[int, bool], ...]
    told: bool = False
    troubles: tuple[tuple[str, int], ...] = ()
    faults: frozenset[str] = frozenset()


Steps: TypeAlias = Iterator[tuple[str, World]]


class Model:
    """programs: for each client its requests, as (proxy, what); a FLUSH goes to Redis itself"""

    def __init__(
        self,
        rules: Rules,
        programs: tuple[tuple[tuple[int, str], ...], ...],
        troubles: tuple[tuple[str, int], ...] = (),
        late: tuple[int, ...] = (),
        proxies: int = 2,
    ) -> None:
        """`late`: the proxies that start at any time; the others have registered."""
        self.rules, self.programs = rules, programs
        up = Proxy(registered=True, joined=True, conn=READY, alive=True)
        self.first = World(
            Redis(frozenset((each, 0, False) for each in range(proxies) if each not in late)),
            tuple(Proxy() if each in late else up for each in range(proxies)),
            tuple((0, False) for _ in programs),
            troubles=troubles,
        )

    def has_ended(self, world: World) -> bool:
        return all(
            done == len(program)
            for (done, _), program in zip(world.clients, self.programs, strict=True)
        )

    @staticmethod
    def faults(world: World) -> frozenset[str]:
        return world.faults

    def steps(self, world: World) -> Steps:
        yield from self._clients(world)
        for each in range(len(world.proxies)):
            for label, after in self._proxy(world, each):
                yield f"{'ABCDE'[each]} {label}", after
        yield from self._redis(world)
        yield from self._troubles(world)

    # Clients.

    def _clients(self, world: World) -> Steps:
        for who, ((done, waits), program) in enumerate(
            zip(world.clients, self.programs, strict=True)
        ):
            if waits or done == len(program):
                continue
            to, what = program[done]
            clients = _put(world.clients, who, (done, True))
            if what == FLUSH:
                redis = world.redis._replace(
                    value="", deadline=False, past=False, stale="", rule=False
                )
                after = _answered(world, who)._replace(redis=redis)
                yield f"client {who}: FLUSHALL", after
                continue
            proxy = world.proxies[to]
            proxy = proxy._replace(inbox=(*proxy.inbox, (who, what, world.told)))
            yield (
                f"client {who} sends {what} to {'ABCDE'[to]}",
                _with(world._replace(clients=clients), to, proxy),
            )

    # What a proxy does.

    def _proxy(self, world: World, each: int) -> Steps:
        proxy = world.proxies[each]
        if not self.rules.pushes_only:
            yield from self._registers(world, each, proxy)
            yield from self._activates(world, each, proxy)
        yield from self._connects(world, each, proxy)
        yield from self._serves(world, each, proxy)
        if proxy.has_news:
            yield (
                "hears of the family",
                _with(world, each, proxy._replace(has_news=False, knows=True)),
            )

    def _registers(self, world: World, each: int, proxy: Proxy) -> Steps:
        redis, rules = world.redis, self.rules
        mine = (each, proxy.life)
        there = [entry for entry in redis.registered if entry[:2] == mine]
        if not proxy.registered:
            says = proxy.knows and proxy.said and rules.keeps_known
            redis = redis._replace(registered=redis.registered | {(*mine, says)})
            proxy = proxy._replace(registered=True, joined=not rules.joins, said=says, seen=None)
            yield "registers", _with(world._replace(redis=redis), each, proxy)
            return
        if not there:
            back = proxy._replace(
                registered=False,
                joined=False,
                announced=False,
                has_news=False,
                sure=proxy.sure and not rules.forgets_sureness,
                conn=NAMED if proxy.conn == READY else proxy.conn,
            )
            yield "sees that it is not registered any more", _with(world, each, back)
            return
        if not proxy.joined:
            orphans = _orphans(redis, world.proxies) and rules.kills_orphans
            learns = any(entry[2] for entry in redis.registered)
            learns |= rules.reads_schedule and (redis.deadline or redis.rule)
            if rules.one_look and not orphans:
                joined = proxy._replace(joined=True, knows=proxy.knows or learns)
                yield "looks at who is there, and joins", _with(world, each, joined)
            if not rules.one_look and proxy.seen is None:
                yield (
                    "looks at what is known",
                    _with(world, each, proxy._replace(seen=learns)),
                )
            if not rules.one_look and proxy.seen is not None and not orphans:
                joined = proxy._replace(joined=True, knows=proxy.knows or proxy.seen, seen=None)
                yield "looks at who is there, and joins", _with(world, each, joined)
            if orphans:
                yield "kills connections that nobody answers for", _without_orphans(world)
        if proxy.knows and not proxy.said and self._is_drained(proxy):
            redis = redis._replace(registered=redis.registered - {*there} | {(*mine, True)})
            said = proxy._replace(said=True)
            yield "acknowledges", _with(world._replace(redis=redis), each, said)
        if proxy.lost_raws and proxy.knows and rules.counts_lost:
            lost = tuple(one for one in redis.lost if (one.proxy, one.life) != mine)
            after = world._replace(redis=redis._replace(lost=lost))
            yield (
                "kills the connections that it has lost",
                _with(after, each, proxy._replace(lost_raws=False)),
            )

    def _is_drained(self, proxy: Proxy) -> bool:
        if not self.rules.drains:
            return True
        decided = proxy.decided is not None and proxy.decided[1] == RAW
        return not (proxy.raws or decided or (proxy.lost_raws and self.rules.counts_lost))

    def _activates(self, world: World, each: int, proxy: Proxy) -> Steps:
        """A request waits for the family to be known by all."""
        wants = any(what in (SET_DEADLINE, MAKE_RULE) for _, what, _ in proxy.inbox[:1])
        if not wants or proxy.sure or not proxy.joined or not proxy.registered:
            return
        redis, rules = world.redis, self.rules
        if not proxy.knows:
            yield (
                "takes the family for one with deadlines",
                _with(world, each, proxy._replace(knows=True)),
            )
        if proxy.knows and proxy.said and not proxy.announced:
            told = {one for one, life, _ in redis.registered if life == world.proxies[one].life}
            proxies = tuple(
                other._replace(has_news=other.has_news or (at in told and at != each))
                for at, other in enumerate(world.proxies)
            )
            after = world._replace(proxies=proxies)
            yield "announces the family", _with(after, each, proxy._replace(announced=True))
        if not proxy.announced:
            return
        mine = (each, proxy.life, True)
        missing = {entry for entry in redis.registered if not entry[2]} if rules.asks_all else set()
        orphans = _orphans(redis, world.proxies) and rules.looks_for_orphans
        if mine in redis.registered and not missing and not orphans:
            yield "sees that all know the family", _with(world, each, proxy._replace(sure=True))
        for entry in missing:
            after = world._replace(redis=redis._replace(registered=redis.registered - {entry}))
            yield f"kills the registration of {'ABCDE'[entry[0]]}", after
        if orphans:
            yield "kills connections that nobody answers for", _without_orphans(world)

    def _connects(self, world: World, each: int, proxy: Proxy) -> Steps:
        if proxy.conn == DOWN:
            decided = proxy.decided and (*proxy.decided[:2], False)
            up = proxy._replace(conn=OPEN, alive=True, decided=decided)
            yield "opens a connection", _with(world, each, up)
        elif not proxy.alive:
            yield "sees that its connection was killed", self._lose(world, each, keeps=False)
        elif proxy.conn == OPEN:
            yield "names its connection", _with(world, each, proxy._replace(conn=NAMED))
        elif proxy.conn == NAMED and proxy.joined:
            mine = (each, proxy.life)
            is_there = any(entry[:2] == mine for entry in world.redis.registered)
            if is_there or not self.rules.verified:
                yield "verifies its connection", _with(world, each, proxy._replace(conn=READY))

    def _serves(self, world: World, each: int, proxy: Proxy) -> Steps:
        if proxy.decided is not None:
            ask, how, is_same = proxy.decided
            if proxy.conn != DOWN and (is_same or not self.rules.bound):
                sent = proxy._replace(decided=None, raws=proxy.raws + (how == RAW))
                if proxy.alive:
                    sent = sent._replace(out=(*proxy.out, (how, ask)))
                yield f"sends {ask[1]}, {how}", _with(world, each, sent)
            elif proxy.conn != DOWN:
                anew = proxy._replace(decided=None, inbox=(ask, *proxy.inbox))
                yield "decides anew, as the connection is another one", _with(world, each, anew)
        elif proxy.inbox and (how := self._decision(proxy, proxy.inbox[0][1])):
            ask = proxy.inbox[0]
            decided = proxy._replace(inbox=proxy.inbox[1:], decided=(ask, how, True))
            yield f"decides to send {ask[1]}, {how}", _with(world, each, decided)

    def _decision(self, proxy: Proxy, what: str) -> str:
        """How a request goes to Redis; "" if it waits."""
        if self.rules.pushes_only:
            return SCRIPT if what in (SET_DEADLINE, MAKE_RULE) or proxy.knows else RAW
        usable = (READY,) if self.rules.named_first else (OPEN, NAMED, READY)
        is_usable = proxy.conn in usable and proxy.registered
        if what in (SET_DEADLINE, MAKE_RULE):
            return SCRIPT if proxy.sure and is_usable else ""
        if proxy.conn == DOWN:
            return ""
        if not proxy.knows and proxy.joined and is_usable:
            return RAW
        if what == WRITE:
            return PAIR
        return SCRIPT if proxy.knows and proxy.joined and is_usable else ""

    def _lose(self, world: World, each: int, *, keeps: bool) -> World:
        """A proxy loses its connection; `keeps`: Redis may have more of its bytes."""
        proxy, redis = world.proxies[each], world.redis
        if keeps and proxy.alive and proxy.out:
            lost = Lost(each, proxy.life, proxy.conn in (NAMED, READY), proxy.out)
            redis = redis._replace(lost=(*redis.lost, lost))
        waiting = {who for who, (done, waits) in enumerate(world.clients) if waits}
        kept = {ask[0] for ask in proxy.inbox}
        kept |= {proxy.decided[0][0]} if proxy.decided is not None else set()
        after = world._replace(redis=redis)
        for who in waiting - kept:
            done, _ = world.clients[who]
            if self.programs[who][done][0] == each:
                after = _answered(after, who)
        down = proxy._replace(
            conn=DOWN, alive=False, out=(), raws=0, lost_raws=proxy.lost_raws or proxy.raws > 0
        )
        return _with(after, each, down)

    # What Redis and time do.

    def _redis(self, world: World) -> Steps:
        for each, proxy in enumerate(world.proxies):
            if proxy.out and proxy.alive:
                how, ask = proxy.out[0]
                rest = proxy._replace(out=proxy.out[1:], raws=proxy.raws - (how == RAW))
                after = self._carried_out(_with(world, each, rest), each, how, ask)
                yield f"Redis: {ask[1]} of {'ABCDE'[each]}, {how}", _answered(after, ask[0], ask[1])
        redis = world.redis
        for at, lost in enumerate(redis.lost):
            how, ask = lost.out[0]
            others = (*redis.lost[:at], *redis.lost[at + 1 :])
            left = (lost._replace(out=lost.out[1:]),) if lost.out[1:] else ()
            after = world._replace(redis=redis._replace(lost=(*others, *left)))
            after = self._carried_out(after, lost.proxy, how, ask)
            yield f"Redis: {ask[1]} of {'ABCDE'[lost.proxy]}, {how}, of a lost connection", after
            yield (
                "the rest of a lost connection never comes",
                world._replace(redis=redis._replace(lost=others)),
            )
        alive = {(each, proxy.life) for each, proxy in enumerate(world.proxies)}
        for entry in redis.registered:
            if entry[:2] not in alive:
                after = world._replace(redis=redis._replace(registered=redis.registered - {entry}))
                yield "Redis sees that a process is gone", after
        if redis.deadline and not redis.past:
            yield "the deadline passes", world._replace(redis=redis._replace(past=True))
        if redis.deadline and redis.past:
            faults = world.faults | (
                {f"stale, {redis.stale}"} if redis.stale and redis.value else set()
            )
            gone = redis._replace(value="", deadline=False, past=False, stale="")
            yield f"the reaper removes {redis.value!r}", world._replace(redis=gone, faults=faults)

    def _carried_out(self, world: World, each: int, how: str, ask: Ask) -> World:
        redis, (_, what, told) = world.redis, ask
        kind = CAUSAL if told else CONCURRENT
        if what == SET_DEADLINE:
            redis = redis._replace(value="old", deadline=True, past=False, stale="")
        elif what == MAKE_RULE:
            redis = redis._replace(rule=True)
        elif what == WRITE and how == RAW:
            redis = redis._replace(value="new", stale=kind if redis.deadline else "")
        elif what == WRITE:
            redis = redis._replace(value="new", deadline=False, past=False, stale="")
        elif redis.rule and how == RAW:
            return world._replace(faults=world.faults | {f"unruled, {kind}"})
        if self.rules.pushes_only and what in (SET_DEADLINE, MAKE_RULE):
            proxies = tuple(
                proxy._replace(has_news=proxy.has_news or (at != each and not proxy.knows))
                for at, proxy in enumerate(world.proxies)
            )
            world = world._replace(proxies=proxies)
        return world._replace(redis=redis)

    def _troubles(self, world: World) -> Steps:
        for at, (trouble, each) in enumerate(world.troubles):
            left = (*world.troubles[:at], *world.troubles[at + 1 :])
            proxy, after = world.proxies[each], world._replace(troubles=left)
            name = "ABCDE"[each]
            if trouble == BREAK and proxy.conn != DOWN and proxy.alive:
                yield f"{name} loses its connection", self._lose(after, each, keeps=True)
            mine = {one for one in world.redis.registered if one[:2] == (each, proxy.life)}
            if trouble == CUT and mine:
                redis = world.redis._replace(registered=world.redis.registered - mine)
                cut = proxy._replace(has_news=False)
                yield (
                    f"{name} loses its registration",
                    _with(after._replace(redis=redis), each, cut),
                )
            if trouble == RESTART:
                yield f"{name} is killed, and starts again", self._restarted(after, each)

    def _restarted(self, world: World, each: int) -> World:
        after = world
        for who, (done, waits) in enumerate(world.clients):
            if waits and self.programs[who][done][0] == each:
                after = _answered(after, who)
        clients = after.clients
        after = self._lose(after, each, keeps=True)._replace(clients=clients)
        return _with(after, each, Proxy(life=world.proxies[each].life + 1))


def _put(things: tuple[Thing, ...], at: int, thing: Thing) -> tuple[Thing, ...]:
    return (*things[:at], thing, *things[at + 1 :])


def _with(world: World, each: int, proxy: Proxy) -> World:
    return world._replace(proxies=_put(world.proxies, each, proxy))


def _answered(world: World, who: int, what: str = "") -> World:
    """A client has its reply, or an error in place of it."""
    done, _ = world.clients[who]
    told = world.told or what in (SET_DEADLINE, MAKE_RULE)
    return world._replace(clients=_put(world.clients, who, (done + 1, False)), told=told)


def _orphans(redis: Redis, proxies: tuple[Proxy, ...]) -> bool:
    """Whether Redis has a named connection of a process that is not registered."""
    known = {entry[:2] for entry in redis.registered}
    named = [
        (each, proxy.life)
        for each, proxy in enumerate(proxies)
        if proxy.alive and proxy.conn in (NAMED, READY)
    ]
    named += [(lost.proxy, lost.life) for lost in redis.lost if lost.named]
    return not known.issuperset(named)


def _without_orphans(world: World) -> World:
    redis = world.redis
    known = {entry[:2] for entry in redis.registered}
    proxies = tuple(
        proxy._replace(alive=False, out=())
        if proxy.alive and proxy.conn in (NAMED, READY) and (each, proxy.life) not in known
        else proxy
        for each, proxy in enumerate(world.proxies)
    )
    lost = tuple(one for one in redis.lost if not one.named or (one.proxy, one.life) in known)
    return world._replace(proxies=proxies, redis=redis._replace(lost=lost))
