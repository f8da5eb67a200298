"""Clients that never stop asking, whatever happens to the proxy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from tests.chaos.ledger import Items, Tasks
from tests.support.redis_client import Client, Word

HASHES = 20
STREAM, FIRED = "delivered", "fired"
WORK, BUSY = "work", "busy"
LEASE_MS = 400
_SOON_MS = (20, 800)
_PAUSE_S = 0.004


class InDoubtError(Exception):
    """The connection broke before there was a reply."""


class Caller:
    """Asks one of the proxies; if that is gone, another one."""

    def __init__(self, ports: Sequence[int], chance: Random) -> None:
        self._ports = ports
        self._chance = chance
        self._client: Client | None = None

    def ask(self, *words: Word) -> Any:
        """The reply, or None for an error. Raises InDoubtError."""
        try:
            if self._client is None:
                self._client = Client(self._chance.choice(self._ports))
            reply = self._client.ask(*words)
        except (ConnectionError, TimeoutError, OSError):
            self.close()
            raise InDoubtError from None
        return None if isinstance(reply, ResponseError) else reply

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class Part:
    """What all clients of a run share: the ports, what they know, and when to stop."""

    def __init__(self, ports: Sequence[int], now_ms: Callable[[], int], seed: int) -> None:
        self.deferred, self.fields, self.items = Tasks(), Tasks(), Items()
        self.stop = threading.Event()
        self.troubles: list[BaseException] = []
        self._ports = ports
        self._now_ms = now_ms
        self._seed = seed

    def clients(self) -> list[threading.Thread]:
        """One of each kind, and two workers."""
        steps = [_defer, _undefer, _date, _remove, _read, _push, _work, _work]
        return [
            threading.Thread(target=self._run, args=(step, number), name=step.__name__)
            for number, step in enumerate(steps)
        ]

    def _run(self, step: Callable[[Part, Caller, Random, str], None], number: int) -> None:
        chance = Random(f"{self._seed}:{number}")
        caller = Caller(self._ports, chance)
        count = 0
        try:
            while not self.stop.wait(_PAUSE_S):
                count += 1
                step(self, caller, chance, f"{number}-{count}")
        except BaseException as trouble:
            self.troubles.append(trouble)
            raise
        finally:
            caller.close()

    def due_ms(self, chance: Random) -> int:
        return self._now_ms() + chance.randint(*_SOON_MS)


def _write(tasks: Tasks, task: str, due_ms: int, ask: Callable[[], Any]) -> None:
    tasks.due_ms[task] = due_ms
    with suppress(InDoubtError):
        if ask() is not None:
            tasks.written.add(task)


def _cancel(tasks: Tasks, chance: Random, ask: Callable[[str], Any]) -> None:
    if not tasks.written:
        return
    task = chance.choice(list(tasks.written)[-100:])
    try:
        if ask(task) == 1:
            tasks.cancelled.add(task)
    except InDoubtError:
        tasks.doubted.add(task)


def _defer(part: Part, caller: Caller, chance: Random, name: str) -> None:
    due_ms = part.due_ms(chance)
    words = ("DEFER", "PXAT", due_ms, "ID", name, "XADD", STREAM, "*", "task", name)
    _write(part.deferred, name, due_ms, lambda: caller.ask(*words))


def _undefer(part: Part, caller: Caller, chance: Random, name: str) -> None:
    _cancel(part.deferred, chance, lambda task: caller.ask("UNDEFER", STREAM, task))


def _key(task: str) -> str:
    return f"h:{int(task.split('-')[1]) % HASHES}"


def _date(part: Part, caller: Caller, chance: Random, name: str) -> None:
    due_ms = part.due_ms(chance)
    words = ("HSETEX", _key(name), "PXAT", due_ms, "FIELDS", 1, name, name)
    _write(part.fields, name, due_ms, lambda: caller.ask(*words))


def _remove(part: Part, caller: Caller, chance: Random, name: str) -> None:
    _cancel(part.fields, chance, lambda task: caller.ask("HDEL", _key(task), task))


def _read(part: Part, caller: Caller, chance: Random, name: str) -> None:
    words = chance.choice([("HGETALL", _key(name)), ("HLEN", _key(name)), ("DUE", _key(name))])
    with suppress(InDoubtError):
        caller.ask(*words)


def _push(part: Part, caller: Caller, chance: Random, name: str) -> None:
    part.items.asked.add(name)
    with suppress(InDoubtError):
        if caller.ask("LPUSH", WORK, name) is not None:
            part.items.written.add(name)


def _work(part: Part, caller: Caller, chance: Random, name: str) -> None:
    """Some workers die while they hold a leased item."""
    try:
        lent = caller.ask("LEASE", WORK, BUSY, "PX", LEASE_MS, "BLOCK", 500)
    except InDoubtError:
        return
    if lent is None or chance.random() < 0.3:
        return
    item = lent.decode()
    try:
        part.items.done[item] += caller.ask("SREM", BUSY, item) or 0
    except InDoubtError:
        part.items.doubted.add(item)
