"""Counts or estimates how much falls due in the next minute, hour and day, by type.

Keys are counted by the lower bound of their first deadline in the schedule. Elements are counted in
keys that are chosen at random. If there are more keys than the sample, each chosen key stands for
several, and the survey says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from ttlproxy.admin import slots
from ttlproxy.admin.redis_queries import Answer, Inquiry

# Redis 7.0: 6 ms for 64 keys of 20 to 100 elements, in calls of 0.4 ms each.
SAMPLE: Final = 64
_TOGETHER: Final = 4

_MINUTE_MS: Final = 60_000
SPANS: Final = {
    "minute": range(0, _MINUTE_MS + 1, 3_000),
    "hour": range(0, 60 * _MINUTE_MS + 1, 3 * _MINUTE_MS),
    "day": range(0, 1440 * _MINUTE_MS + 1, 60 * _MINUTE_MS),
}
EDGES: Final = tuple(sorted(set().union(*SPANS.values())))


Counts = Sequence[int]
"""The number in all, then the number due before each of EDGES."""


class Schedule(NamedTuple):
    """The schedule of a database: counts of keys, and some of their names."""

    keys: Counts
    names: Sequence[bytes]


class Sampled(NamedTuple):
    """A key of the sample. weight: the number of keys that it stands for"""

    type: str
    elements: Counts
    weight: float


async def survey(inquiry: Inquiry) -> Answer:
    """Surveys all databases. Raises Unanswered."""
    schedules = {db: await _schedule(inquiry, db) for db in await inquiry.databases()}
    total = sum(schedule.keys[0] for schedule in schedules.values())
    sampled: list[Sampled] = []
    for db, schedule in schedules.items():
        share = ceil(SAMPLE * schedule.keys[0] / max(total, SAMPLE))
        sampled += await _look_into(inquiry, db, schedule.names[:share], schedule.keys[0])
    return summary(list(schedules.values()), sampled)


async def _schedule(inquiry: Inquiry, db: int) -> Schedule:
    if await inquiry.is_clustered():
        keys, before, names = await slots.survey(inquiry, SAMPLE, EDGES)
    else:
        keys, before, names = await inquiry.call(db, "schedule_survey", (), SAMPLE, *EDGES)
    return Schedule((keys, *before), names)


async def _look_into(inquiry: Inquiry, db: int, names: Sequence[bytes], keys: int) -> list[Sampled]:
    """Samples these keys out of `keys`, a few in each call."""
    found: list[Sampled] = []
    together = 1 if await inquiry.is_clustered() else _TOGETHER
    for at in range(0, len(names), together):
        some = names[at : at + together]
        replies = await inquiry.call(db, "keys_survey", some, *EDGES)
        for name, (kind, size, before) in zip(some, replies, strict=True):
            counts = (size, *before, *[size] * (len(EDGES) - len(before)))
            found.append(Sampled(_type(inquiry, name, kind), counts, keys / len(names)))
    return found


def _type(inquiry: Inquiry, name: bytes, kind: bytes) -> str:
    """Returns the type of a key. Deferred commands, and what waits for other slots, are managed as
    keys are."""
    if inquiry.keys.deferring(name) is not None:
        return "deferred"
    return kind.decode() if inquiry.keys.destination(name) is None else "outbox"


def summary(schedules: Sequence[Schedule], sampled: Sequence[Sampled]) -> Answer:
    """Returns a survey as a JSON object."""
    keys = _sum([(schedule.keys, 1) for schedule in schedules])
    elements = _sum([(each.elements, each.weight) for each in sampled])
    of_type: dict[str, list[Sampled]] = {}
    for each in sampled:
        of_type.setdefault(each.type, []).append(each)
    return {
        "keys": keys[0],
        "sampled": len(sampled),
        "elements": elements[0],
        "types": [
            {
                "type": kind,
                "keys": round(sum(each.weight for each in some)),
                "elements": round(sum(each.elements[0] * each.weight for each in some)),
            }
            for kind, some in sorted(of_type.items())
        ],
        "deadlines": {
            span: {
                "step_ms": edges.step,
                "keys": _between(keys, edges),
                "elements": _between(elements, edges),
            }
            for span, edges in SPANS.items()
        },
    }


def _sum(weighed: Sequence[tuple[Counts, float]]) -> list[int]:
    columns = range(len(EDGES) + 1)
    return [round(sum(counts[at] * weight for counts, weight in weighed)) for at in columns]


def _between(counts: Counts, edges: range) -> list[int]:
    """Returns the numbers due between each edge and the next; what is overdue counts in the
    first."""
    before = [counts[1 + bisect_left(EDGES, edge)] for edge in edges]
    return [before[1], *(later - earlier for earlier, later in pairwise(before[1:]))]
