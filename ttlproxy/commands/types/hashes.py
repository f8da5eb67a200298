"""Hash fields: the commands that Redis lacks, and those of Redis that must do more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttlproxy.commands.families import timed_writes
from ttlproxy.commands.families.elements import family
from ttlproxy.commands.grammar import hash_options
from ttlproxy.commands.grammar.hash_options import NOUN
from ttlproxy.commands.grammar.options import Form, one_of
from ttlproxy.commands.grammar.parsing import Refused
from ttlproxy.commands.model.overrides import on_key, rest, with_name
from ttlproxy.commands.model.repeats import repeating
from ttlproxy.commands.model.spec import Call, OnWrite, Plan, Virtual
from ttlproxy.commands.types import hash_forms

HSETEX = Form("HSETEX", NOUN, width=2, conditions=one_of(b"FNX", b"FXX"), capped=True)


def planning_setex(form: Form) -> Plan:
    """The plan of HSETEX in this form, and in Dragonfly's."""

    def read(args: Sequence[bytes]) -> Call:
        options = hash_options.short_options(form, args) or hash_options.options(form, args)
        return timed_writes.call(form, "hash_setex", args[1], options)

    def begin(args: Sequence[bytes]) -> int:
        return hash_options.behind_seconds(args) or NOUN.elements_at(args)

    return timed_writes.refusing(form, repeating(read, begin))


def _is_only_ours(args: Sequence[bytes]) -> bool:
    """Whether it is Dragonfly's form, or MAXLEN is one of the options, and not only one of the
    fields."""
    if hash_options.behind_seconds(args):
        return True
    try:
        return bool(hash_options.options(HSETEX, args).cap)
    except Refused:
        return b"MAXLEN" in map(bytes.upper, args[2:])


VIRTUALS = (
    *hash_forms.VIRTUALS,
    *family(NOUN, fill="HSET h a 1 b 2"),
    Virtual(
        name="HSETEX",
        summary="Sets hash fields and their time to live in one step.",
        group="hash",
        forms=(
            f"key [FNX|FXX] {timed_writes.OPTIONS} FIELDS numfields field value [field value ...]",
            "key [NX|FNX|FXX] [KEEPTTL] seconds field value [field value ...]",
        ),
        reply="1 the fields were written, 0 condition not met, -1 with `MAXLEN`: too many fields;"
        " in the second form, Dragonfly's, how many fields are new",
        complexity="O(N*log(M)), N fields named, M with a deadline",
        since="0.1.0",
        plan=planning_setex(HSETEX),
        is_of_no_form=hash_options.is_cut,
        example=(
            ("HSETEX h FNX EX 100 FIELDS 2 a 1 b 2", "(integer) 1"),
            ("HSETEX h FNX EX 100 FIELDS 1 a 3", "(integer) 0"),
            ("HSETEX h KEEPTTL FIELDS 1 a 4", "(integer) 1"),
            ("HTTLFIELD h a", "(integer) 100"),
            ("HSETEX h MAXLEN 2 EX 100 FIELDS 1 c 5", "(integer) -1"),
            ("HSETEX h NX 100 a 5 c 5", "(integer) 1"),
        ),
        sets_deadlines=True,
        only_ours=_is_only_ours,
    ),
)

_WRITE = OnWrite(b"hash", False, "hash_write")
_ALTER = OnWrite(b"hash", True, "hash_alter")

OVERRIDES = (
    on_key("HSET", "hash_set", with_name, on_write=_WRITE),
    on_key("HMSET", "hash_set", with_name, on_write=_WRITE),
    on_key("HSETNX", "hash_keep", with_name, on_write=_WRITE),
    on_key("HINCRBYFLOAT", "hash_keep", with_name, on_write=_ALTER),
    # Its script is for rules of ONWRITE only, because Lua rounds a reply beyond 2^53. Without one
    # its field keeps its deadline; an expired field was reaped before.
    replace(on_key("HINCRBY", "hash_alter", rest, on_write=_ALTER), direct=None, only_ruled=True),
    on_key("HDEL", "hash_del", rest),
)

# Writes after which an index is still right.
HARMLESS = ("HINCRBY",)
