"""The oracle under a clock known only to lie between two readings: every model it may by now be.

Knows the model and no socket. A command between two readings of Redis's clock ran at one of the
instants between them; each is tried in each world, and a world that answers otherwise is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tests.oracle.data import Error, Reply, Value
from tests.oracle.model import Model, Step

MAX_RUNS = 5000  # of the model for one write; some 0.2 s


class DisagreementError(AssertionError):
    """No instant between the two readings explains the reply."""


class TooManyError(Exception):
    """The clock moved so far in the meantime that trying every instant would take too long.

    The caller rather reads from the server what is true."""


class Worlds:
    def __init__(self, model: Model) -> None:
        self.models = [model]

    def follow(self, steps: list[tuple[Step, Reply]], before_ms: int, after_ms: int) -> None:
        """Runs what one write sent, each step with the server's reply, between the two readings."""
        runs_left = MAX_RUNS
        # What was past before a request was sent is gone for it and for all that follow.
        settled = [model.as_of(before_ms) for model in self.models]
        worlds = [(each, before_ms) for each in {one.frozen(): one for one in settled}.values()]
        for step, seen in steps:
            trials = [
                (model, *instants)
                for model, at_ms in worlds
                for instants in _instants(model, step, before_ms, at_ms, after_ms)
            ]
            runs_left -= len(trials)
            if runs_left < 0:
                raise TooManyError
            worlds = _run(trials, step, seen)
        self.models = [model for model, _ in worlds]

    def narrow(self, now_ms: int, seen: Hashable) -> bool:
        """Drops the worlds whose content at `now_ms` is not `seen`; False, undone, if all are."""
        left = [model for model in self.models if model.as_of(now_ms).frozen() == seen]
        self.models = left or self.models
        return bool(left)

    def deadlines(self) -> Iterator[int]:
        return (deadline for model in self.models for deadline in _deadlines(model))


def _run(trials: list[tuple[Model, int, int]], step: Step, seen: Reply) -> list[tuple[Model, int]]:
    """Of (model, reaped_ms, now_ms) those that answer as the server did; the models and now_ms."""
    answers: set[str] = set()
    left: dict[Hashable, tuple[Model, int]] = {}
    for model, reaped_ms, now_ms in trials:
        twin = model.copy()
        answer = twin.run(step.db, step.args, now_ms, reaped_ms=reaped_ms, seen=seen)
        if not same(step.args, answer, seen):
            answers.add(repr(answer))
            continue
        # Of two equal worlds the earlier one has all the other's futures.
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
    """(reaped_ms, now_ms) as they may have been; one where the clock makes no difference."""
    straddled = any(before_ms <= deadline < after_ms for deadline in _named(model, step.args))
    if not straddled and not _reads_clock(step.args, before_ms, after_ms):
        yield at_ms, at_ms
        return
    for now_ms in range(at_ms, after_ms + 1):
        for reaped_ms in range(before_ms if straddled else now_ms, now_ms + 1):
            yield reaped_ms, now_ms


def _reads_clock(args: list[bytes], before_ms: int, after_ms: int) -> bool:
    """Whether the clock makes a difference; to an absolute time only where it is about now."""
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
    """The deadlines of the keys in the words, or of all of them."""
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
    """Equal where Redis promises it: the order of fields and members is its own affair.

    Lists are compared flat, for under RESP3 pairs are lists of their own.
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
    """Without the codes that redis-py keeps to itself."""
    return error.text.removeprefix("ERR ").removeprefix("EXECABORT ")


def _pairs(words: list[Reply]) -> list[tuple[str, str]]:
    return sorted(zip(map(repr, words[::2]), map(repr, words[1::2]), strict=True))
