"""Clients that write and read through any running proxy, and remember the replies."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from tests.chaos.history import GONE, Key, Read, State, Write
from tests.chaos.ledger import Tasks
from tests.chaos.system import System, machine_ms
from tests.support.redis_client import Client, Word

_PAUSE_S = 0.004
_NEAR_MS, _FAR_MS = (20, 3000), 3_600_000
# The most elements of one client in a key; and how often it replaces one by a new one.
_MOST = 12
_ANEW = 0.2
_KEYS_OF_A_TYPE = 2

Words = Sequence[Word]


class InDoubtError(Exception):
    """The connection broke before all replies had come."""


class Caller:
    """A connection to one of the proxies; if it is lost, to another."""

    def __init__(self, system: System, chance: Random) -> None:
        self._system = system
        self._chance = chance
        self._client: Client | None = None
        self.name = ""

    def ask(self, requests: Sequence[Words], *, transaction: bool = False) -> list[Any]:
        """The replies, errors as exceptions. Raises InDoubtError."""
        try:
            if self._client is None:
                number = self._chance.randrange(len(self._system.proxies))
                self.name = f"proxy {number}"
                self._client = Client(self._system.proxies[number].port)
            if len(requests) == 1 and not transaction:
                return [self._client.ask(*requests[0])]
            return self._client.ask_many(requests, transaction=transaction)
        except ResponseError as refusal:  # EXEC's error
            return [refusal] * len(requests)
        except (ConnectionError, TimeoutError, OSError):
            self.close()
            raise InDoubtError from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _Step(NamedTuple):
    """A request about an element, and the state that its reply implies, or None if nothing changed.

    A missing reply is None: any reply is possible then.
    """

    words: Words
    leaves: Callable[[Any], State | None]


class Kind(NamedTuple):
    """How elements of a type are written and read.

    dated(key, element, value, deadline): the request that writes an element with a deadline
    plain(key, element, value): the requests that write it without one
    shown: a reply to `look` as elements and values
    has_values: its elements have values of their own
    """

    letter: str
    noun: str
    dated: Callable[[str, str, str, Words], Words]
    plain: Callable[[str, str, str], Sequence[Words]]
    remove: Callable[[str, str], Words]
    look: Callable[[str], Words]
    shown: Callable[[list[bytes]], dict[str, str]]
    has_values: bool


def _pairs(reply: list[bytes]) -> dict[str, str]:
    words = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


def _bare(reply: list[bytes]) -> dict[str, str]:
    return {word.decode(): "" for word in reply}


KINDS = (
    Kind(
        "H",
        "FIELD",
        lambda key, name, value, expiry: ("HSETEX", key, *expiry, "FIELDS", 1, name, value),
        lambda key, name, value: [("HSET", key, name, value)],
        lambda key, name: ("HDEL", key, name),
        lambda key: ("HGETALL", key),
        _pairs,
        True,
    ),
    Kind(
        "S",
        "MEMBER",
        lambda key, name, value, expiry: ("SADDEX", key, *expiry, "MEMBERS", 1, name),
        lambda key, name, value: [("SREM", key, name), ("SADD", key, name)],
        lambda key, name: ("SREM", key, name),
        lambda key: ("SMEMBERS", key),
        _bare,
        False,
    ),
    Kind(
        "Z",
        "MEMBER",
        lambda key, name, value, expiry: ("ZADDEX", key, *expiry, "MEMBERS", 1, value, name),
        lambda key, name, value: [("ZADD", key, value, name)],
        lambda key, name: ("ZREM", key, name),
        lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        _pairs,
        True,
    ),
    Kind(
        "L",
        "ELEMENT",
        lambda key, name, value, expiry: ("RPUSHEX", key, *expiry, "ELEMENTS", 1, name),
        lambda key, name, value: [("LREM", key, 0, name), ("RPUSH", key, name)],
        lambda key, name: ("LREM", key, 0, name),
        lambda key: ("LRANGE", key, 0, -1),
        _bare,
        False,
    ),
)


class Round:
    """What clients do and learn in one round, on keys of its own.

    deferred, ruled: tasks that must be delivered once each, by DEFER and by a rule of ONEXPIRE
    """

    def __init__(self, system: System, number: int, seed: int) -> None:
        self.name = f"r{number}"
        self.system = system
        self.stop = threading.Event()
        self.failures: list[BaseException] = []
        self.last_due_ms = 0.0  # the last of the near deadlines
        self._requests: Counter[str] = Counter()
        self.keys = {
            (kind, at): Key(f"{self.name}:{kind.letter.lower()}:{at}")
            for kind in KINDS
            for at in range(_KEYS_OF_A_TYPE)
        }
        self.deferred, self.ruled = Tasks(), Tasks()
        self.stream, self.fired = f"{self.name}:deferred", f"{self.name}:fired"
        self._seed = seed
        self._lock = threading.Lock()

    def clients(self) -> list[threading.Thread]:
        steps = [_Writer, _Writer, _Writer, _Reader, _Tasks]
        return [
            threading.Thread(target=self._run, args=(step, number), name=step.__name__)
            for number, step in enumerate(steps)
        ]

    def ruled_key(self, task: str) -> str:
        return self.ruled_keys[int(task[-1])]

    @property
    def ruled_keys(self) -> list[str]:
        return [f"{self.name}:ruled:{number}" for number in range(10)]

    @property
    def counts(self) -> Counter[str]:
        """The numbers of the round."""
        return self._requests + Counter(
            {
                "elements": sum(len(key.writes) for key in self.keys.values()),
                "looks at a key": sum(len(key.reads) for key in self.keys.values()),
                "tasks": len(self.deferred.written) + len(self.ruled.written),
            }
        )

    def asked(self, requests: int, replies: Sequence[object] | None) -> None:
        """Counts requests; None if not all were answered."""
        with self._lock:
            self._requests["requests"] += requests
            if replies is None:
                self._requests["in doubt"] += requests
            else:
                refused = [reply for reply in replies if isinstance(reply, ResponseError)]
                self._requests["refused"] += len(refused)

    def _run(self, kind: type[_Client], number: int) -> None:
        chance = Random(f"{self._seed}:{self.name}:{number}")
        client = kind(self, chance, number)
        try:
            while not self.stop.wait(chance.uniform(0, 2 * _PAUSE_S)):
                client.step()
        except BaseException as trouble:
            self.failures.append(trouble)
            raise
        finally:
            client.caller.close()

    def due(self, chance: Random, *, may_be_far: bool = False) -> int:
        """A deadline: near, except for one in ten of those that may be far."""
        now_ms = round(self.system.now_ms)
        if may_be_far and chance.random() < 0.1:
            return now_ms + _FAR_MS
        due_ms = now_ms + chance.randint(*_NEAR_MS)
        self.last_due_ms = max(self.last_due_ms, due_ms)
        return due_ms


class _Client:
    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        self.caller = Caller(round_.system, chance)
        self._round = round_
        self._chance = chance
        self._number = number
        self._count = 0

    def step(self) -> None:
        """Does one thing."""

    def _name(self) -> str:
        self._count += 1
        return f"{self._number}-{self._count}"

    def _ask(self, requests: Sequence[Words], *, transaction: bool = False) -> list[Any]:
        try:
            replies = self.caller.ask(requests, transaction=transaction)
        except InDoubtError:
            self._round.asked(len(requests), None)
            raise
        self._round.asked(len(requests), replies)
        return replies

    def look(self, kind: Kind, key: Key) -> None:
        """Reads a whole key, sometimes in a transaction."""
        begun_ms = machine_ms()
        with suppress(InDoubtError):
            in_multi = self._chance.random() < 0.2
            (reply,) = self._ask([kind.look(key.name)], transaction=in_multi)
            if not isinstance(reply, ResponseError):
                shown = kind.shown(reply)
                key.reads.append(Read(begun_ms, machine_ms(), shown, self.caller.name))


class _Reader(_Client):
    """Reads whole keys."""

    def step(self) -> None:
        kind, at = self._chance.choice(list(self._round.keys))
        self.look(kind, self._round.keys[kind, at])


class _Writer(_Client):
    """Writes elements of its own, and reads at once on the same connection."""

    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        super().__init__(round_, chance, number)
        self._states: dict[tuple[str, str], State] = {}

    def step(self) -> None:
        kind, at = self._chance.choice(list(self._round.keys))
        key = self._round.keys[kind, at]
        own = [name for of, name in self._states if of == key.name]
        if len(own) < _MOST or self._chance.random() < _ANEW:
            name = self._name()
            if len(own) >= _MOST:
                del self._states[key.name, self._chance.choice(own)]
        else:
            name = self._chance.choice(own)
        self._write(kind, key, name)
        if self._chance.random() < 0.2:
            self.look(kind, key)

    def _write(self, kind: Kind, key: Key, name: str) -> None:
        before = self._states.get((key.name, name), GONE)
        begun_ms = machine_ms()
        steps = self._steps(kind, key.name, name, before)
        in_multi = len(steps) > 1 and self._chance.random() < 0.5
        words = " | ".join(" ".join(map(str, step.words)) for step in steps)
        words += f" ({self.caller.name}{', MULTI' * in_multi})"
        try:
            replies = self._ask([step.words for step in steps], transaction=in_multi)
        except InDoubtError:
            may = tuple(state for step in steps if (state := step.leaves(None)) is not None)
            self._note(key, name, Write(begun_ms, math.inf, may, f"{words} -> ?"))
            self._states.pop((key.name, name), None)
            return
        ended_ms = machine_ms()
        left = [
            state
            for step, reply in zip(steps, replies, strict=True)
            if not isinstance(reply, ResponseError) and (state := step.leaves(reply)) is not None
        ]
        if left:
            described = f"{words} -> {replies}"
            self._note(key, name, Write(begun_ms, ended_ms, tuple(left), described))
            self._states[key.name, name] = left[-1]

    def _note(self, key: Key, name: str, write: Write) -> None:
        writes = key.writes.get(name, [])
        key.writes[name] = [*writes, write]  # a new list: another thread may be reading the old one

    def _steps(self, kind: Kind, key: str, name: str, before: State) -> list[_Step]:
        """What to ask for: one thing, or a deadline and at once something that ends it."""
        chance = self._chance
        value = str(self._count * 1000 + chance.randrange(1000)) if kind.has_values else ""
        due_ms = self._round.due(chance, may_be_far=True)
        dated = _Step(
            kind.dated(key, name, value, ("PXAT", due_ms)),
            lambda reply: State(value, due_ms, due_ms),
        )
        *first, last = kind.plain(key, name, value)
        plain = [_Step(request, lambda reply: GONE) for request in first]
        plain.append(_Step(last, lambda reply: State(value)))
        remove = _Step(kind.remove(key, name), lambda reply: GONE)
        choice = chance.randrange(10)
        if choice < 3:
            return [dated]
        if choice < 5:
            return plain
        if choice < 7:
            return [dated, *plain]
        if choice < 8:
            return [remove]
        kept = before.value
        if kept is None:
            return [dated]
        if choice < 9:
            words = (f"{kind.letter}PEXPIREAT{kind.noun}", key, name, due_ms)
            later = State(kept, due_ms, due_ms)
            return [_Step(words, {1: later, 2: GONE, None: later}.get)]
        persist = (f"{kind.letter}PERSIST{kind.noun}", key, name)
        return [_Step(persist, {1: State(kept), None: State(kept)}.get)]


class _Tasks(_Client):
    """Defers, cancels, and writes fields that a rule hands on."""

    def step(self) -> None:
        round_, name = self._round, self._name()
        due_ms = round_.due(self._chance)
        task = ("XADD", round_.stream, "*", "task", name)
        key = round_.ruled_key(name)
        match self._chance.randrange(4):
            case 0 | 1:
                words: Words = ("DEFER", "PXAT", due_ms, "ID", name, *task)
                self._begin(round_.deferred, name, due_ms, words)
            case 2:
                words = ("HSETEX", key, "PXAT", due_ms, "FIELDS", 1, name, name)
                self._begin(round_.ruled, name, due_ms, words)
            case _ if self._chance.random() < 0.5:
                self._cancel(round_.deferred, lambda name: ("UNDEFER", round_.stream, name))
            case _:
                self._cancel(round_.ruled, lambda name: ("HDEL", round_.ruled_key(name), name))

    def _begin(self, tasks: Tasks, name: str, due_ms: int, words: Words) -> None:
        tasks.due_ms[name] = due_ms
        with suppress(InDoubtError):
            (reply,) = self._ask([words])
            if not isinstance(reply, ResponseError):
                tasks.written.add(name)

    def _cancel(self, tasks: Tasks, words: Callable[[str], Words]) -> None:
        if not tasks.written:
            return
        name = self._chance.choice(sorted(tasks.written)[-100:])
        try:
            if self._ask([words(name)]) == [1]:
                tasks.cancelled.add(name)
        except InDoubtError:
            tasks.doubted.add(name)
