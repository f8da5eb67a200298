"""Set members: the commands that Redis lacks, and those of Redis that must do more."""

from __future__ import annotations

from ttlproxy.commands.calls import on_key, on_two_keys, rest
from ttlproxy.commands.element_commands import (
    TIMED_OPTIONS,
    Names,
    family,
    planning_timed,
)
from ttlproxy.commands.options import Form, one_of
from ttlproxy.commands.spec import OnWrite, Virtual
from ttlproxy.core import element_types

NOUN = element_types.SET
NAMES = Names(
    "SEXPIREMEMBER",
    "SPEXPIREMEMBER",
    "SEXPIREATMEMBER",
    "SPEXPIREATMEMBER",
    "STTLMEMBER",
    "SPTTLMEMBER",
    "SEXPIRETIMEMEMBER",
    "SPEXPIRETIMEMEMBER",
    "SPERSISTMEMBER",
)


SADDEX = Form("SADDEX", NOUN, conditions=one_of(b"NX", b"XX"), capped=True)

VIRTUALS = (
    *family(NOUN, NAMES, fill="SADD s a b"),
    Virtual(
        name="SADDEX",
        summary="Adds members to a set and sets their time to live in one step.",
        group="set",
        forms=(
            "key [KEEPTTL] seconds member [member ...]",
            f"key [NX|XX] {TIMED_OPTIONS} MEMBERS nummembers member [member ...]",
        ),
        reply="how many members are new, -1 too many members",
        complexity="O(N*log(M)), N members named, M with a deadline",
        since="0.1.0",
        plan=planning_timed(SADDEX, "set_addex"),
        example=(
            ("SADDEX s 100 a b", "(integer) 2"),
            ("SADDEX s XX EX 200 MEMBERS 2 a c", "(integer) 0"),
            ("STTLMEMBER s MEMBERS 2 a b", "1) (integer) 200\n2) (integer) 100"),
            ("SADDEX s KEEPTTL 300 a c", "(integer) 1"),
            ("STTLMEMBER s MEMBERS 2 a c", "1) (integer) 200\n2) (integer) 300"),
            ("SADDEX s MAXLEN 3 EX 100 MEMBERS 1 d", "(integer) -1"),
            ("SADDEX s MAXLEN 3 EVICT EX 100 MEMBERS 1 d", "(integer) 1"),
        ),
        sets_deadlines=True,
    ),
)

OVERRIDES = (
    on_key("SADD", "set_add", rest, on_write=OnWrite(b"set", True, "set_write")),
    on_key("SREM", "set_rem", rest),
    on_key("SPOP", "set_pop", rest),
    on_two_keys(
        "SMOVE",
        "set_move",
        lambda args: args[3:4],
        (b"set", lambda args, how: (*args[3:4], how)),
    ),
)
