"""Hash fields: the commands that Redis lacks, and those of Redis that have to do more."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands import hash_forms, hash_grammar
from ttlproxy.commands.elements import family, packed
from ttlproxy.commands.grammar import Refused
from ttlproxy.commands.hash_grammar import NOUN, Form
from ttlproxy.commands.overrides import named, on_key, rest
from ttlproxy.commands.spec import Call, Virtual
from ttlproxy.commands.writes import untyped_refusal

_HSETEX = Form("HSETEX", width=2, keep=b"KEEPTTL", conditions=(b"FNX", b"FXX"))


def _plan_setex(args: Sequence[bytes]) -> Call:
    try:
        options = hash_grammar.options(_HSETEX, args)
    except Refused as refused:
        return untyped_refusal("HSETEX", refused)
    keep = b"1" if options.keep else b"0"
    argv = (b"hsetex", packed(keep, options.condition, options.time), *options.rest)
    return Call("hash_setex", (args[1],), argv)


VIRTUALS = (
    *hash_forms.VIRTUALS,
    *family(NOUN, fill="HSET h a 1 b 2", key="h", elements=("a", "b")),
    Virtual(
        name="HSETEX",
        summary="Sets hash fields and their time to live in one step.",
        group="hash",
        forms=(
            "key [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds"
            "|PXAT unix-time-milliseconds|KEEPTTL] FIELDS numfields field value [field value ...]",
        ),
        reply="1 the fields were written, 0 condition not met",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=_plan_setex,
        example=(
            ("HSETEX h FNX EX 100 FIELDS 2 a 1 b 2", "(integer) 1"),
            ("HSETEX h FNX EX 100 FIELDS 1 a 3", "(integer) 0"),
            ("HSETEX h KEEPTTL FIELDS 1 a 4", "(integer) 1"),
            ("HTTLFIELD h a", "(integer) 100"),
        ),
        sets_deadlines=True,
    ),
)

OVERRIDES = (
    on_key("HSET", "hash_set", named),
    on_key("HMSET", "hash_set", named),
    on_key("HSETNX", "hash_keep", named),
    on_key("HINCRBYFLOAT", "hash_keep", named),
    on_key("HDEL", "hash_del", rest),
)

# Writes that leave an index as true as it was. HINCRBY has no script because Lua would round its
# reply beyond 2^53; its field keeps its deadline, and one that had expired has been reaped before.
HARMLESS = ("HINCRBY",)
