"""Makes the sentences about an import or export that people read, from counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from ttlproxy.core.text import counted
from ttlproxy.operations.migration.elements import Outcome
from ttlproxy.operations.migration.mover import BUSY, HIDDEN, KEYS, elements


class Sentences(NamedTuple):
    """The words after the number of elements, or of keys: before anything is written, after it, and
    in the check at the end."""

    dry: str
    moved: str
    checked: str


_ROWS: Final[Mapping[str, Sentences]] = {
    Outcome.DATED: Sentences(
        "would get a deadline", "got a deadline", "have no deadline, but the source has one"
    ),
    Outcome.ADDED: Sentences("would be copied", "were copied", "are missing"),
    Outcome.DELETED: Sentences(
        "would be deleted: their deadline has passed",
        "were deleted: their deadline had passed",
        "are there, although their deadline has passed",
    ),
    Outcome.SAME: Sentences(
        "have their deadline already", "had their deadline already", "have their deadline"
    ),
    Outcome.OTHER: Sentences(
        "have another deadline, which would stay",
        "have another deadline, which stays",
        "have another deadline than in the source",
    ),
    Outcome.THERE: Sentences(
        "are there already, and have no deadline in the source",
        "were there already, and have no deadline in the source",
        "are there, and have no deadline in the source",
    ),
    Outcome.GONE: Sentences(
        "do not exist, only their deadline does",
        "do not exist, only their deadline does",
        "do not exist, only their deadline does",
    ),
    Outcome.CHANGED: Sentences(
        "have another value than in the source, and would get no deadline",
        "have another value than in the source, and got no deadline",
        "have another value than in the source, and no deadline",
    ),
    Outcome.PASSED: Sentences(
        "have a deadline that has passed, and would stay as they are",
        "have a deadline that has passed, and stay as they are",
        "have a deadline that has passed, and are as they were",
    ),
    BUSY: Sentences(
        "change all the time: nothing is known of them",
        "change all the time, and got no deadline: start it again",
        "change all the time, and were not checked: start it again",
    ),
}
UNTOLD: Final = (
    "the source does not tell when the key itself expires, because its elements have deadlines: set"
    " it again"
)
# Words of these sentences, and their form for one element.
_OF_ONE: Final[Mapping[str, str]] = {
    "are": "is",
    "were": "was",
    "have": "has",
    "do": "does",
    "change": "changes",
    "stay": "stays",
    "their": "its",
    "them": "it",
    "they": "it",
}
_PLURAL: Final = re.compile(rf"(?<!would )\b({'|'.join(_OF_ONE)})\b")
# The check at the end should find none of these.
FAULTS: Final = (Outcome.DATED, Outcome.ADDED, Outcome.DELETED, BUSY)


def lines(counts: Counter[str], column: str) -> list[str]:
    """Returns a line for each outcome that has a count; `column`: a field of Sentences."""
    found = []
    for name, sentences in _ROWS.items():
        if count := counts[name]:
            said = getattr(sentences, column)
            if count == 1:
                said = _PLURAL.sub(lambda word: _OF_ONE[word[0]], said)
            found.append(f"{counted(count, 'element')}: {said}")
    if hidden := counts[HIDDEN]:
        found.append(f"{counted(hidden, 'key')}: {UNTOLD}")
    return found


def so_far(counts: Counter[str]) -> str:
    """Returns the numbers of keys and of elements, for people."""
    return f"{counted(counts[KEYS], 'key')}, {counted(elements(counts), 'element')}"


def has_faults(counts: Counter[str]) -> bool:
    return any(counts[name] for name in FAULTS)
