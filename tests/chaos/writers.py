"""Clients that write and read through any running proxy, and remember the replies."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from tests.chaos.history import GONE, Excuses, Key, Read, State, Window, Write, meets, within
from tests.chaos.kinds import KINDS, Kind, Words
from tests.chaos.ledger import Items, Tasks
from tests.chaos.system import machine_ms
from tests.support.processes import attempts
from tests.support.redis_client import Client, Word
from tests.support.servers import Proxy

_PAUSE_S = 0.004
_FAR_MS = 3_600_000
# Another proxy hears a moment after the reply that a key is to expire earlier.
_LEAST_MS = 300
_PATIENCE_S = 60.0
# The most elements of one client in a key; and how often it replaces one by a new one.
_MOST = 12
_ANEW = 0.2
# An element without a deadline, so that a key with an expiry is not empty before that.
_ANCHOR = "anchor"
# How often a key's expiry is changed before it has come, and set again afterwards.
_CHANGED, _AGAIN = 0.02, 0.05
_LEASE_MS, _BLOCK_MS = 400, 200


class InDoubtError(Exception):
    """The connection broke before all replies had come."""


class Served(Protocol):
    """What clients need of the processes: the proxies, when servers lacked memory, and what their
    clock shows."""

    proxies: list[Proxy]

    @property
    def evicting(self) -> list[Window]: ...

    @property
    def now_ms(self) -> float: ...


class Caller:
    """A connection to one of the proxies; if it is lost, to another.

    name: of the proxy; good_ms: when the connection was last known to be good
    """

    def __init__(self, system: Served, chance: Random, protocol: int = 2) -> None:
        self._system = system
        self._chance = chance
        self._protocol = protocol
        self._client: Client | None = None
        self.name = ""
        self.good_ms = machine_ms()

    def ask(self, requests: Sequence[Words], *, transaction: bool = False) -> list[Any]:
        """The replies, errors as exceptions. Raises InDoubtError."""
        try:
            if self._client is None:
                number = self._chance.randrange(len(self._system.proxies))
                self.name = f"proxy {number}"
                self.good_ms = machine_ms()
                self._client = Client(self._system.proxies[number].port, protocol=self._protocol)
            if len(requests) == 1 and not transaction:
                replies = [self._client.ask(*requests[0])]
            else:
                replies = self._client.ask_many(requests, transaction=transaction)
        except ResponseError as refusal:  # EXEC's error
            replies = [refusal] * len(requests)
        except (ConnectionError, TimeoutError, OSError) as lost:
            self.close()
            raise InDoubtError(str(lost)) from None
        self.good_ms = machine_ms()
        return replies

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class Step(NamedTuple):
    """A request about an element, and the state that its reply implies, or None if nothing changed.

    A missing reply is None: any reply is possible then.
    """

    words: Words
    leaves: Callable[[Any], State | None]


def _described(requests: Sequence[Words]) -> str:
    return " | ".join(" ".join(map(str, words)) for words in requests)


def _words(steps: Sequence[Step]) -> str:
    return _described([step.words for step in steps])


class Round:
    """What clients do and learn in one round, on keys of its own.

    deferred, ruled: tasks that must be delivered once each, by DEFER and by a rule of ONEXPIRE,
    into the first and the second of `streams`; items: they go from the first of `lists` into the
    second by a lease, and back by a rule
    has_rule: whether there are rules
    """

    keys_of_a_type = 2
    near_ms = (150, 3000)  # until the deadlines, of nearly all elements

    def __init__(self, system: Served, number: int, seed: int) -> None:
        self.name = f"r{number}"
        self.system = system
        self.stop = threading.Event()
        self.failures: list[BaseException] = []
        self.last_due_ms = 0.0  # the last of the near deadlines
        self._requests: Counter[str] = Counter()
        self.keys = {
            (kind, at): Key(self.key_name(kind, at))
            for kind in KINDS
            for at in range(self.keys_of_a_type)
        }
        self.deferred, self.ruled = Tasks(), Tasks()
        self.items = Items()
        self.streams = f"{self.name}:deferred", f"{self.name}:fired"
        self.lists = f"{self.name}:work", f"{self.name}:busy"
        self.ruled_keys = RuledKeys(f"{self.name}:ruled")
        self._seed = seed
        self._lock = threading.Lock()

    kinds_of_clients: Sequence[type[Actor]] = ()

    @property
    def has_rule(self) -> bool:
        return Random(f"{self._seed}:{self.name}").random() < 0.7

    @property
    def rules(self) -> dict[str, tuple[str, str]]:
        """The patterns of ONEXPIRE, and what they do."""
        work, busy = self.lists
        return {f"{self.name}:ruled:*": ("XADD", self.streams[1]), busy: ("RPUSH", work)}

    def key_name(self, kind: Kind, at: int) -> str:
        return f"{self.name}:{kind.letter.lower()}:{at}"

    @property
    def is_cautious(self) -> bool:
        """Whether acknowledged writes may be lost soon, so that none may build upon another."""
        return False

    def clients(self) -> list[threading.Thread]:
        kinds = self.kinds_of_clients or _CLIENTS
        return [
            threading.Thread(target=self._run, args=(kind, number), name=kind.__name__)
            for number, kind in enumerate(kinds)
        ]

    @property
    def expiring_keys(self) -> list[tuple[Kind, Key]]:
        """One of each type."""
        return [(kind, key) for (kind, at), key in self.keys.items() if at == 0]

    @property
    def counts(self) -> Counter[str]:
        """The numbers of the round."""
        return self._requests + Counter(
            {
                "elements": sum(len(key.writes) for key in self.keys.values()),
                "looks at a key": sum(len(key.reads) for key in self.keys.values()),
                "expiries of keys": sum(len(key.expiry) for key in self.keys.values()),
                "tasks": len(self.deferred.written) + len(self.ruled.written),
                "items done": self.items.done.total(),
            }
        )

    def asked(self, requests: Sequence[Words], replies: Sequence[object] | None) -> None:
        """Counts requests; None if not all were answered."""
        with self._lock:
            self._requests["requests"] += len(requests)
            if replies is None:
                self._requests["in doubt"] += len(requests)
            else:
                refused = [reply for reply in replies if isinstance(reply, ResponseError)]
                self._requests["refused"] += len(refused)

    def failed(self, requests: Sequence[Words], how: str, since_ms: float) -> None:
        """A client has got an error, or lost its connection.

        since_ms: when the connection was last known to be good
        """

    def _run(self, kind: type[Actor], number: int) -> None:
        chance = Random(f"{self._seed}:{self.name}:{number}")
        client = kind(self, chance, number)
        try:
            while not self.stop.wait(chance.uniform(0, 2 * _PAUSE_S)):
                client.step()
        except BaseException as trouble:
            self.failures.append(trouble)
            raise
        finally:
            client.close()
            client.caller.close()

    def due(self, chance: Random, *, may_be_far: bool = False) -> int:
        """A deadline: near, except for one in ten of those that may be far."""
        now_ms = round(self.system.now_ms)
        if may_be_far and chance.random() < 0.1:
            return now_ms + _FAR_MS
        due_ms = now_ms + chance.randint(*self.near_ms)
        self.last_due_ms = max(self.last_due_ms, due_ms)
        return due_ms


class Actor:
    """A client with a connection of its own, which does one thing after the other."""

    protocol = 2

    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        self.caller = Caller(round_.system, chance, self.protocol)
        self._round = round_
        self._chance = chance
        self._number = number
        self._count = 0

    def step(self) -> None:
        """Does one thing."""

    def close(self) -> None:
        """Ends what it has beside its caller."""

    def _name(self) -> str:
        self._count += 1
        return f"{self._number}-{self._count}"

    def _ask(self, requests: Sequence[Words], *, transaction: bool = False) -> list[Any]:
        since_ms = self.caller.good_ms
        try:
            replies = self.caller.ask(requests, transaction=transaction)
        except InDoubtError as lost:
            self._round.asked(requests, None)
            self._round.failed(requests, f"{self.caller.name}: {lost}", since_ms)
            raise
        self._round.asked(requests, replies)
        for words, reply in zip(requests, replies, strict=True):
            if isinstance(reply, ResponseError):
                how = f"{self.caller.name}: {type(reply).__name__} {reply}"
                self._round.failed([words], how, since_ms)
        return replies

    def _note(self, key: Key, name: str, write: Write) -> None:
        writes = key.writes.get(name, [])
        key.writes[name] = [*writes, write]  # a new list: another thread may be reading the old one

    def look(self, kind: Kind, key: Key) -> None:
        """Reads a whole key, sometimes in a transaction."""
        begun_ms = machine_ms()
        with suppress(InDoubtError):
            in_multi = self._chance.random() < 0.2
            (reply,) = self._ask([kind.look(key.name)], transaction=in_multi)
            if not isinstance(reply, ResponseError):
                shown = kind.shown(reply)
                key.reads.append(Read(begun_ms, machine_ms(), shown, self.caller.name))

    def _begin_task(
        self, tasks: Tasks, name: str, due_ms: int, requests: Sequence[Words]
    ) -> list[Any] | None:
        """Asks for a task. The replies; None if there are none."""
        tasks.due_ms[name] = due_ms
        try:
            replies = self._ask(requests, transaction=len(requests) > 1)
        except InDoubtError:
            return None
        if not isinstance(replies[0], ResponseError):
            tasks.written.add(name)
        return replies


class Reader(Actor):
    """Reads whole keys."""

    def step(self) -> None:
        kind, at = self._chance.choice(list(self._round.keys))
        self.look(kind, self._round.keys[kind, at])


class Writer(Actor):
    """Writes elements of its own, and reads at once on the same connection."""

    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        super().__init__(round_, chance, number)
        self._states: dict[tuple[str, str], State] = {}

    def step(self) -> None:
        kind, at = self._chance.choice(list(self._round.keys))
        key = self._round.keys[kind, at]
        self._write(kind, key, self._chosen(key))
        if self._chance.random() < 0.2:
            self.look(kind, key)

    def _chosen(self, key: Key) -> str:
        """An element of its own, or a new one."""
        if self._round.is_cautious:
            self._states.clear()  # what is not known for certain is written no more
        own = [name for of, name in self._states if of == key.name]
        if len(own) >= _MOST and self._chance.random() >= _ANEW:
            return self._chance.choice(own)
        if len(own) >= _MOST:
            del self._states[key.name, self._chance.choice(own)]
        return self._name()

    def _write(self, kind: Kind, key: Key, name: str) -> None:
        begun_ms = machine_ms()
        steps = self._steps(kind, key.name, name)
        in_multi = len(steps) > 1 and self._chance.random() < 0.5
        how = f"{self.caller.name}{', MULTI' * in_multi}"
        try:
            replies = self._ask([step.words for step in steps], transaction=in_multi)
        except InDoubtError:
            self._lost(key, name, steps, begun_ms, how)
        else:
            self._written(key, name, steps, replies, begun_ms, how)

    def _lost(self, key: Key, name: str, steps: Sequence[Step], begun_ms: float, how: str) -> None:
        """Not all of the replies have come."""
        may = tuple(state for step in steps if (state := step.leaves(None)) is not None)
        words = f"{_words(steps)} ({how}) -> ?"
        write = Write(begun_ms, math.inf, may, words, given_up_ms=machine_ms())
        self._note(key, name, write)
        self._states.pop((key.name, name), None)

    def _written(
        self,
        key: Key,
        name: str,
        steps: Sequence[Step],
        replies: Sequence[Any],
        begun_ms: float,
        how: str,
    ) -> None:
        ended_ms = machine_ms()
        left = [
            state
            for step, reply in zip(steps, replies, strict=True)
            if not isinstance(reply, ResponseError) and (state := step.leaves(reply)) is not None
        ]
        if left:
            described = f"{_words(steps)} ({how}) -> {replies}"
            self._note(key, name, Write(begun_ms, ended_ms, tuple(left), described))
            self._states[key.name, name] = left[-1]

    def _steps(self, kind: Kind, key: str, name: str) -> list[Step]:
        """What to ask for: one thing, or a deadline and at once something that ends it."""
        chance = self._chance
        kept = self._states.get((key, name), GONE).value
        value = str(self._count * 1000 + chance.randrange(1000)) if kind.has_values else ""
        due_ms = self._round.due(chance, may_be_far=True)
        dated = Step(
            kind.dated(key, name, value, ("PXAT", due_ms)),
            lambda reply: State(value, due_ms, due_ms),
        )
        *first, last = kind.plain(key, name, value)
        plain = [Step(request, lambda reply: GONE) for request in first]
        plain.append(Step(last, lambda reply: State(value)))
        remove = Step(kind.remove(key, name), lambda reply: GONE)
        choice = chance.randrange(10)
        if choice < 3:
            return [dated]
        if choice < 5:
            return plain
        if choice < 7:
            return [dated, *plain]
        if choice < 8:
            return [remove]
        if kept is None or self._round.is_cautious:
            return [dated]
        if choice < 9:
            words = (f"{kind.letter}PEXPIREAT{kind.noun}", key, name, due_ms)
            later = State(kept, due_ms, due_ms)
            # If the deadline is past, it stays until it is reaped, where there are rules.
            return [Step(words, {1: later, 2: later, None: later}.get)]
        persist = (f"{kind.letter}PERSIST{kind.noun}", key, name)
        return [Step(persist, {1: State(kept), None: State(kept)}.get)]


class Expirer(Actor):
    """Sets and removes the expiry of whole keys, each time with an element that stays until then.

    Outside MULTI an expiry is certain only if the key cannot have ended meanwhile, with the element
    of last time.
    """

    def step(self) -> None:
        round_, chance = self._round, self._chance
        kind, key = chance.choice(round_.expiring_keys)
        last = key.expiry[-1] if key.expiry else None
        if last is not None:
            is_over = round_.system.now_ms > last.states[-1].most_ms
            if last.in_doubt or chance.random() > (_AGAIN if is_over else _CHANGED):
                return
        anchor = State("1" if kind.has_values else "")
        words, due = self._expiry(key.name)
        requests = [kind.plain(key.name, _ANCHOR, str(anchor.value))[-1], words]
        in_multi = round_.is_cautious or chance.random() < 0.5
        begun_ms, shown_ms = machine_ms(), round_.system.now_ms
        how = f"{_described(requests)} ({self.caller.name}{', MULTI' * in_multi})"
        try:
            replies = self._ask(requests, transaction=in_multi)
        except InDoubtError:
            write = Write(begun_ms, math.inf, (anchor,), f"{how} -> ?", given_up_ms=machine_ms())
            self._note(key, _ANCHOR, write)
            key.expiry.append(replace(write, states=(due(-math.inf, math.inf),)))
            return
        ended_ms, most_ms = machine_ms(), round_.system.now_ms
        write = Write(begun_ms, ended_ms, (anchor,), f"{how} -> {replies}")
        is_there = not isinstance(replies[0], ResponseError)
        if is_there:
            self._note(key, _ANCHOR, write)
        if replies[1] == 1 or (replies[1] == 0 and words[0] == "PERSIST"):
            is_certain = is_there and (
                in_multi or last is None or self._lasts(last, shown_ms, most_ms)
            )
            states = (due(min(shown_ms, most_ms), max(shown_ms, most_ms)),)
            key.expiry.append(replace(write, states=states, may_be_lost=not is_certain))

    def _lasts(self, last: Write, shown_ms: float, most_ms: float) -> bool:
        """Whether the key with that expiry cannot have ended."""
        evicting = self._round.system.evicting
        return (
            not last.may_be_lost
            and max(shown_ms, most_ms) < last.states[-1].least_ms
            and not meets(evicting, last.begun_ms, math.inf)
        )

    def _expiry(self, key: str) -> tuple[Words, Callable[[float, float], State]]:
        """A request, and the expiry that it leaves if the clock showed these times meanwhile."""
        due_ms = self._round.due(self._chance, may_be_far=True) + _LEAST_MS
        to_live_ms = due_ms - round(self._round.system.now_ms)
        up_ms = -(-due_ms // 1000) * 1000
        requests: list[tuple[Words, Callable[[float, float], State]]] = [
            (("PERSIST", key), lambda least, most: GONE),
            (("PEXPIREAT", key, due_ms), lambda least, most: State("", due_ms, due_ms)),
            (("EXPIREAT", key, up_ms // 1000), lambda least, most: State("", up_ms, up_ms)),
            (
                ("PEXPIRE", key, to_live_ms),
                lambda least, most: State("", least + to_live_ms - 1, most + to_live_ms),
            ),
        ]
        return self._chance.choice(requests)


class RuledKeys:
    """The keys of elements that a rule hands on. Some expire when the last of their elements is
    due, or a moment later: one key of each client, so that nobody else changes that.

    of: the key of each task; told: its requests and replies, and when these had come
    """

    def __init__(self, name: str) -> None:
        self.of: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self._name = name
        self._given_up = 0
        self._last_ms: dict[str, int] = {}
        self._ends_ms: dict[str, int] = {}
        # When the tasks were written whose key expires; those that may have gone with it.
        self._expiring: dict[str, float] = {}
        self._gone: set[str] = set()

    def write(
        self,
        task: str,
        due_ms: int,
        chance: Random,
        now_ms: float,
        ask: Callable[[Sequence[Words]], list[Any] | None],
    ) -> None:
        """Writes a field for the task; `ask`: None if there is no reply."""
        client, number = task.split("-")
        expires = chance.random() < 0.5
        last = f"expires:{client}:{self._given_up}" if expires else number[-1]
        self.of[task] = key = f"{self._name}:{last}"
        requests: list[Words] = [("HSETEX", key, "PXAT", due_ms, "FIELDS", 1, task, task)]
        ended_ms = self._ends_ms.get(key, 0)
        if expires:
            self._expiring[task] = machine_ms()
            self._last_ms[client] = last_ms = max(self._last_ms.get(client, 0), due_ms)
            self._ends_ms[key] = last_ms + chance.choice([0, 1, 20])
            requests.append(("PEXPIREAT", key, self._ends_ms[key]))
        replies = ask(requests)
        self.told[task] = f"{_described(requests)} -> {replies} at {machine_ms():.0f}"
        if replies is None:
            self._given_up += 1  # it may still change the expiry of that key: there are others
        elif replies[1:] == [0] and now_ms <= ended_ms:
            self._gone.add(task)  # the key ended meanwhile

    def lost(self, excuses: Excuses) -> set[str]:
        """Tasks whose keys may have been evicted, or had ended when they were written."""
        return self._gone | {
            task
            for task, at_ms in self._expiring.items()
            if meets(excuses.evicting, at_ms, math.inf) or within(excuses.ahead, at_ms)
        }

    def described(self, fault: str) -> str:
        """A fault of a task, with what was asked for."""
        return f"{fault}: {self.told.get(fault.split()[0])}"


class TaskWriter(Actor):
    """Defers, cancels, and writes fields that a rule hands on."""

    def step(self) -> None:
        round_, name = self._round, self._name()
        due_ms = round_.due(self._chance)
        task = ("XADD", round_.streams[0], "*", "task", name)
        match self._chance.randrange(4):
            case 2 if round_.has_rule:
                begin = partial(self._begin_task, round_.ruled, name, due_ms)
                now_ms = round_.system.now_ms
                round_.ruled_keys.write(name, due_ms, self._chance, now_ms, begin)
            case 0 | 1 | 2:
                words: Words = ("DEFER", "PXAT", due_ms, "ID", name, *task)
                self._begin_task(round_.deferred, name, due_ms, [words])
            case _ if self._chance.random() < 0.5:
                self._cancel(round_.deferred, lambda name: ("UNDEFER", round_.streams[0], name))
            case _:
                self._cancel(round_.ruled, lambda name: ("HDEL", round_.ruled_keys.of[name], name))

    def _cancel(self, tasks: Tasks, words: Callable[[str], Words]) -> None:
        if not tasks.written:
            return
        name = self._chance.choice(sorted(tasks.written)[-100:])
        try:
            if self._ask([words(name)]) == [1]:
                tasks.cancelled.add(name)
        except InDoubtError:
            tasks.doubted.add(name)


class Leaser(Actor):
    """Pushes items, takes some by a lease, and holds some of these until they go back."""

    def step(self) -> None:
        if not self._round.has_rule:
            return
        items, (work, busy) = self._round.items, self._round.lists
        with suppress(InDoubtError):
            match self._chance.randrange(4):
                case 0:
                    items.asked.add(name := self._name())
                    (reply,) = self._ask([("LPUSH", work, name)])
                    if not isinstance(reply, ResponseError):
                        items.written.add(name)
                case 1:
                    looks: list[Words] = [("SMEMBERS", busy), ("LRANGE", work, 0, -1)]
                    lent, left = self._ask(looks, transaction=True)
                    if not isinstance(lent, ResponseError):
                        items.twice.update(item.decode() for item in set(lent) & set(left))
                case _:
                    self._take(("LEASE", work, busy, "PX", _LEASE_MS, "BLOCK", _BLOCK_MS))

    def _take(self, lease: Words) -> None:
        """Some workers die while they hold a leased item."""
        (lent,) = self._ask([lease])
        if not isinstance(lent, bytes) or self._chance.random() < 0.3:
            return
        items, item = self._round.items, lent.decode()
        try:
            if self._ask([("SREM", lease[2], item)]) == [1]:  # else its lease was over
                items.done[item] += 1
        except InDoubtError:
            items.doubted.add(item)


_CLIENTS = (Writer, Writer, Writer, Expirer, Reader, TaskWriter, Leaser, Leaser)


def through(system: Served, *words: Word) -> Any:
    """A reply without an error, through a proxy; repeats the request until there is one."""
    reply: object = None
    try:
        for _ in attempts(_PATIENCE_S, f"a reply to {words[0]!r}"):
            try:
                with Client(system.proxies[0].port) as client:
                    reply = client.ask(*words)
            except (RedisError, OSError) as trouble:
                reply = trouble
            if not isinstance(reply, Exception):
                break
    except TimeoutError as late:
        raise TimeoutError(f"{late}, but {reply!r}") from None
    return reply
