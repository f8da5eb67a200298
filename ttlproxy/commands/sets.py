"""Set members: the commands that Redis lacks, and those of Redis that have to do more."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy import errors
from ttlproxy.commands import grammar
from ttlproxy.commands.elements import family, packed
from ttlproxy.commands.grammar import Noun, Options, Refused
from ttlproxy.commands.overrides import on_key, on_two_keys, rest
from ttlproxy.commands.spec import Call, Virtual
from ttlproxy.commands.writes import untyped_refusal

NOUN = Noun(type="set", prefix="S", one="member", many="members")


def _short_form(args: Sequence[bytes]) -> Options | None:
    """`key [KEEPTTL] seconds member ...`, known by the integer; None for the long form."""
    keep = args[2].upper() == b"KEEPTTL"
    at = 3 if keep else 2
    if not grammar.is_integer(args[at]):
        return None
    time = grammar.time(args[at], 1000, b"1", "SADDEX")
    members = args[at + 1 :]
    if not members:
        raise Refused(errors.wrong_arity("SADDEX"), time)
    return Options(time, keep, b"", members)


def _plan_addex(args: Sequence[bytes]) -> Call:
    try:
        options = _short_form(args) or grammar.write_options(
            NOUN, args, "SADDEX", (b"NX", b"XX"), 1
        )
    except Refused as refused:
        return untyped_refusal("SADDEX", refused)
    keep = b"1" if options.keep else b"0"
    argv = (b"saddex", packed(keep, options.condition, options.time), *options.rest)
    return Call("set_addex", (args[1],), argv)


VIRTUALS = (
    *family(NOUN, fill="SADD s a b", key="s", elements=("a", "b")),
    Virtual(
        name="SADDEX",
        summary="Adds members to a set and sets their time to live in one step.",
        group="set",
        forms=(
            "key [KEEPTTL] seconds member [member ...]",
            "key [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-seconds"
            "|PXAT unix-time-milliseconds|KEEPTTL] MEMBERS nummembers member [member ...]",
        ),
        reply="how many members are new",
        complexity="O(N*log(M)), N members named, M with a deadline",
        since="0.1.0",
        plan=_plan_addex,
        example=(
            ("SADDEX s 100 a b", "(integer) 2"),
            ("SADDEX s XX EX 200 MEMBERS 2 a c", "(integer) 0"),
            ("STTLMEMBER s MEMBERS 2 a b", "1) (integer) 200\n2) (integer) 100"),
            ("SADDEX s KEEPTTL 300 a c", "(integer) 1"),
            ("STTLMEMBER s MEMBERS 2 a c", "1) (integer) 200\n2) (integer) 300"),
        ),
        sets_deadlines=True,
    ),
)

OVERRIDES = (
    on_key("SADD", "set_add", rest),
    on_key("SREM", "set_rem", rest),
    on_key("SPOP", "set_pop", rest),
    on_two_keys("SMOVE", "set_move", lambda args: args[3:4]),
)
