"""The hash-field commands of Redis 8, for servers that lack them.

If the server has one of them itself, ours is for managed keys only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ttlproxy import errors
from ttlproxy.commands.families.long_forms import LongForms
from ttlproxy.commands.grammar import hash_options
from ttlproxy.commands.grammar.hash_options import NOUN
from ttlproxy.commands.grammar.options import SHOWN_EXPIRIES, Form
from ttlproxy.commands.grammar.parsing import Counted, Refused
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.spec import Call, Virtual

REDIS = "Redis 8"

_HGETEX = Form("HGETEX", NOUN, keep=b"PERSIST")
LONG = LongForms(
    noun=NOUN,
    dialect=REDIS,
    condition_and_elements=hash_options.condition_and_fields,
    elements=Counted.of(NOUN, errors.count_not_positive(NOUN.many)).elements,
    refuse=partial(calls.typed_refusal, NOUN),
    fill="HSET h a 1 b 2",
)


def _plan_getex(args: Sequence[bytes]) -> Call:
    try:
        found = hash_options.options(_HGETEX, args)
    except Refused as refused:
        return calls.typed_refusal(NOUN, "HGETEX", args[1], refused.text, refused.time)
    return calls.set_deadlines(
        "hash_getex", "HGETEX", args[1], found.time, found.elements, flag=found.keep
    )


VIRTUALS = (
    *LONG.rows(),
    Virtual(
        name="HGETEX",
        summary="Returns the values of hash fields and sets or removes their deadline.",
        group="hash",
        dialect=REDIS,
        forms=(f"key [{SHOWN_EXPIRIES}|PERSIST] {LONG.tail}",),
        reply="for each field its value, nil if there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_getex,
        example=(
            LONG.filled,
            ("HGETEX h EX 100 FIELDS 2 a none", '1) "1"\n2) (nil)'),
            ("HTTL h FIELDS 1 a", "1) (integer) 100"),
            ("HGETEX h PERSIST FIELDS 1 a", '1) "1"'),
        ),
        sets_deadlines=True,
    ),
    Virtual(
        name="HGETDEL",
        summary="Returns the values of hash fields and deletes them.",
        group="hash",
        dialect=REDIS,
        forms=(f"key {LONG.tail}",),
        reply="for each field its value, nil if there is none",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=LONG.plan_named("HGETDEL", "getdel"),
        example=(LONG.filled, ("HGETDEL h FIELDS 2 a a", '1) "1"\n2) (nil)')),
    ),
)
