"""The pages' questions to the schedules of a Cluster's slots, of which there are 16,384."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import choices
from typing import Final, NamedTuple

from ttlproxy.admin.redis_queries import Inquiry
from ttlproxy.errors import Unanswered

# Slots that one script looks at, in about 1 ms of Redis.
EACH: Final = 1024
# Keys of a slot that are read first; if these are not enough, more are read.
_FEW: Final = 8
_DEEPEST: Final = 2000

Due = tuple[bytes, int, int]
"""A key that needs attention: the beginning of its name, the name's length, and when in ms."""


class Slot(NamedTuple):
    """A slot with managed keys. first_ms: when the first of them needs attention"""

    number: int
    keys: int
    first_ms: int


class KeySurvey(NamedTuple):
    """keys: the number of managed keys; before: how many of them are due before each edge, an
    estimate if there are many slots; names: some keys, chosen at random"""

    keys: int
    before: Sequence[int]
    names: Sequence[bytes]


async def occupied(inquiry: Inquiry) -> list[Slot]:
    """Returns the slots that have managed keys. Raises Unanswered."""
    found: list[Slot] = []
    for name, owned in await inquiry.slots():
        for at in range(0, len(owned), EACH):
            some = owned[at : at + EACH]
            words = map(inquiry.keys.word, some)
            for position, keys, first_ms in await inquiry.call(0, "slots_survey", (name,), *words):
                found.append(Slot(some[position], keys, first_ms))
    return found


async def survey(inquiry: Inquiry, sample: int, edges: Sequence[int]) -> KeySurvey:
    """Counts keys by their first deadline, and picks `sample` of them. Raises Unanswered.

    If there are more slots than `sample`, it draws those that it asks, large ones more often.
    """
    slots = await occupied(inquiry)
    if not slots:
        return KeySurvey(0, [0] * len(edges), [])
    numbers, sizes = [slot.number for slot in slots], [slot.keys for slot in slots]
    total, drawn = sum(sizes), Counter(choices(numbers, sizes, k=sample))
    asked = numbers if len(slots) <= sample else list(drawn)
    replies = await inquiry.call_each("schedule_survey", _in(inquiry, asked), sample, *edges)
    counts = [
        (before, 1 if asked is numbers else total * drawn[number] / (sample * max(size, 1)))
        for number, (size, before, _) in zip(asked, replies, strict=True)
    ]
    names = [
        name
        for number, (_, _, some) in zip(asked, replies, strict=True)
        for name in (some if total <= sample else some[: drawn[number]])
    ]
    columns = range(len(edges))
    before = [round(sum(each[at] * weight for each, weight in counts)) for at in columns]
    return KeySurvey(total, before, names)


async def due_keys(
    inquiry: Inquiry, offset: int, count: int, most: int
) -> tuple[int, int, list[Due]]:
    """Returns (now in ms, the number of managed keys, a page of those that need attention next,
    each name cut after `most` bytes). Raises Unanswered."""
    wanted, few = offset + count, _FEW
    if wanted > _DEEPEST:
        raise Unanswered(f"in front of a Cluster only the first {_DEEPEST} keys are listed")
    slots = sorted(await occupied(inquiry), key=lambda slot: slot.first_ms)
    now_ms, first = 0, list[Due]()  # without slots, no key needs the time
    pages: dict[int, list[Due]] = {}
    # The wanted keys are in the slots whose first keys come first.
    asked = [slot.number for slot in slots[:wanted]]
    while asked:
        replies = await inquiry.call_each("schedule_page", _in(inquiry, asked), 0, few, most)
        now_ms = replies[-1][0]
        pages |= {number: page for number, (_, _, page) in zip(asked, replies, strict=True)}
        everything = (due for page in pages.values() for due in page)
        first = sorted(everything, key=lambda due: due[2])[:wanted]
        if few >= wanted:
            break
        # A slot whose page is full may have more of the first keys.
        asked = [
            number
            for number in asked
            if len(page := pages[number]) == few and page[-1][2] <= first[-1][2]
        ]
        few *= 4
    return now_ms, sum(slot.keys for slot in slots), first[offset:]


def _in(inquiry: Inquiry, numbers: Iterable[int]) -> list[tuple[bytes, ...]]:
    """Returns a key in each of these slots, for a call there."""
    return [(b"{%b}" % inquiry.keys.word(number),) for number in numbers]
