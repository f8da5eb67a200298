"""The oracle under a clock that is only known to lie between two readings: all possible models.

Knows the model and no socket. A command between two readings of Redis's clock ran at one of the
instants between them. Each instant is tried in each world; worlds with another reply are dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice

from tests.oracle.data import Error, Reply, Value
from tests.oracle.model import Model, Step

MAX_RUNS = 5000  # of the model for one write; about 0.2 s


class DisagreementError(AssertionError):
    """No instant between the two readings explains the reply."""


class TooManyError(Exception):
    """The clock moved so far between the readings that trying every instant would take too long.

    The caller reads the content from the server instead.
    """


class Worlds:
    def __init__(self, model: Model) -> None:
        self.models = [model]

    def follow(self, steps: list[tuple[Step, Reply]], before_ms: int, after_ms: int) -> None:
        """Runs the steps of one write, each with the server's reply, between the two readings."""
        runs_left = MAX_RUNS
        # What was past before a request was sent is gone for this request and all later ones.
        settled = [model.as_of(before_ms) for model in self.models]
        worlds = [(each, before_ms) for each in {one.frozen(): one for one in settled}.values()]
        for step, seen in steps:
            every = (
                (model, *instants)
                for model, at_ms in worlds
                for instants in _instants(model, step, before_ms, at_ms, after_ms)
            )
            trials = list(islice(every, runs_left + 1))  # of seconds there are too many for memory
            runs_left -= len(trials)
            if runs_left < 0:
                raise TooManyError
            worlds = _run(trials, step, seen)
        self.models = [model for model, _ in worlds]

    def narrow(self, now_ms: int, seen: Hashable) -> bool:
        """Drops the worlds whose content at `now_ms` is not `seen`; False: none fits, all stay."""
        left = [model for model in self.models if model.as_of(now_ms).frozen() == seen]
        self.models = left or self.models
        return bool(left)

    def deadlines(self) -> Iterator[int]:
        return (deadline for model in self.models for deadline in _deadlines(model))


def _run(trials: list[tuple[Model, int, int]], step: Step, seen: Reply) -> list[tuple[Model, int]]:
    """Keeps the trials (model, reaped_ms, now_ms) with the server's reply: (model, now_ms)."""
    answers: set[str] = set()
    left: dict[Hashable, tuple[Model, int]] = {}
    for model, reaped_ms, now_ms in trials:
        twin = model.copy()
        answer = twin.run(step.db, step.args, now_ms, reaped_ms=reaped_ms, seen=seen)
        if not same(step.args, answer, seen):
            answers.add(repr(answer))
            continue
        # If two worlds are equal, the earlier one allows all that the later one allows.
        key = twin.frozen()
        if key not in left or now_ms < left[key][1]:
            left[key] = twin, now_ms
    if not left:
        raise DisagreementError(
            f"{step.args} in db {step.db}\n"
            f"   answered {seen!r}\n   expected {' or '.join(sorted(answers))}"
        )
    return list(left.values())


def _instants(
    model: Model, step: Step, before_ms: int, at_ms: int, after_ms: int
) -> Iterator[tuple[int, int]]:
    """The possible pairs (reaped_ms, now_ms); a single one if the clock makes no difference."""
    straddled = any(before_ms <= deadline < after_ms for deadline in _named(model, step.args))
    if not straddled and not _reads_clock(step.args, before_ms, after_ms):
        yield at_ms, at_ms
        return
    for now_ms in range(at_ms, after_ms + 1):
        for reaped_ms in range(before_ms if straddled else now_ms, now_ms + 1):
            yield reaped_ms, now_ms


def _reads_clock(args: list[bytes], before_ms: int, after_ms: int) -> bool:
    """Whether the clock matters; for absolute times only if one lies between the two readings."""
    name = args[0].lower()
    if b"expiretime" in name:
        return False
    words = {word.upper() for word in args}
    if b"expireat" in name or words & {b"EXAT", b"PXAT"}:
        times = [int(word) for word in args if word.isdigit()]
        return any(before_ms <= ms <= after_ms for time in times for ms in (time, time * 1000))
    return b"expire" in name or b"ttl" in name or name.endswith(b"ex") or name == b"set"


_OF_ALL = {b"keys", b"scan"}


def _named(model: Model, args: list[bytes]) -> Iterator[int]:
    """The deadlines of the keys among the words; for KEYS and SCAN those of all keys."""
    for database in model.databases:
        for key in database if args[0].lower() in _OF_ALL else set(args[1:]):
            if key in database:
                yield from _of(database[key])


def _deadlines(model: Model) -> Iterator[int]:
    for database in model.databases:
        for value in database.values():
            yield from _of(value)


def _of(value: Value) -> Iterator[int]:
    yield from value.deadlines.values()
    if value.expires_ms is not None:
        yield value.expires_ms


_UNORDERED = {b"smembers", b"sunion", b"sinter", b"sdiff", b"keys", b"scan", b"spop"}


def same(args: list[bytes], expected: Reply, seen: Reply) -> bool:
    """Whether replies are equal as far as Redis promises; fields and members may be in any order.

    Lists are compared flat, because under RESP3 pairs are lists of their own.
    """
    if isinstance(expected, Error) and isinstance(seen, Error):
        return _bare(expected) == _bare(seen)
    if isinstance(expected, list) and isinstance(seen, list):
        name = args[0].lower()
        words, others = list(_flat(expected)), list(_flat(seen))
        if name == b"hgetall":
            return _pairs(words) == _pairs(others)
        if name in _UNORDERED:
            return sorted(map(repr, words)) == sorted(map(repr, others))
        return words == others
    return type(expected) is type(seen) and expected == seen


def _flat(replies: list[Reply]) -> Iterator[Reply]:
    for reply in replies:
        if isinstance(reply, list):
            yield from _flat(reply)
        else:
            yield reply


def _bare(error: Error) -> str:
    """The text without the error codes that redis-py removes."""
    return error.text.removeprefix("ERR ").removeprefix("EXECABORT ")


def _pairs(words: list[Reply]) -> list[tuple[str, str]]:
    return sorted(zip(map(repr, words[::2]), map(repr, words[1::2]), strict=True))
