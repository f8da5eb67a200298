"""The commands of Garnet, from its SortedSetCommands.cs: for sorted-set members.

Garnet checks all words before the key, and of the time only that it can be read.
"""

from __future__ import annotations

from ttlproxy import errors
from ttlproxy.commands.families.long_forms import LongForms
from ttlproxy.commands.grammar.parsing import Counted, Time
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.spec import Call
from ttlproxy.commands.types.sorted_sets import NOUN


def _refuse(name: str, key: bytes, text: bytes, time: Time) -> Call:
    return calls.refusal(name, text)


_MEMBERS = Counted(
    NOUN.keyword,
    errors.parameter_too_small(NOUN.many),
    errors.count_mismatch(NOUN.many.capitalize()),
)

VIRTUALS = LongForms(
    noun=NOUN,
    dialect="Garnet",
    condition_and_elements=_MEMBERS.condition_and_elements,
    elements=_MEMBERS.elements,
    refuse=_refuse,
    fill="ZADD z 1 a 2 b",
).rows()
