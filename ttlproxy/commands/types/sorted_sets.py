"""Sorted-set members: the commands that Redis lacks, and those of Redis that must do more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ttlproxy import errors
from ttlproxy.commands.calls import on_key, rest, with_name
from ttlproxy.commands.element_commands import (
    TIMED_OPTIONS,
    Names,
    family,
    planning_timed,
)
from ttlproxy.commands.options import Conditions, Form
from ttlproxy.commands.spec import Call, Direct, OnWrite, Override, Virtual
from ttlproxy.core import element_types

Args = Sequence[bytes]

NOUN = element_types.ZSET
NAMES = Names(
    "ZEXPIREMEMBER",
    "ZPEXPIREMEMBER",
    "ZEXPIREATMEMBER",
    "ZPEXPIREATMEMBER",
    "ZTTLMEMBER",
    "ZPTTLMEMBER",
    "ZEXPIRETIMEMEMBER",
    "ZPEXPIRETIMEMEMBER",
    "ZPERSISTMEMBER",
)

# The options of ZADD and GEOADD, and their words per member (src/t_zset.c, src/geo.c).
_OPTIONS = {
    "ZADD": frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"}),
    "GEOADD": frozenset({b"NX", b"XX", b"CH"}),
}
_WIDTHS = {"ZADD": 2, "GEOADD": 3}
# The first word after the key begins with one of these if it is a number, and no option.
_NUMBERS = frozenset({b"+", b"-", b".", *(b"%d" % digit for digit in range(10))})
# Options that ZADD does not take together, in the order of its checks.
_AT_ODDS = (
    ({b"NX", b"XX"}, errors.NX_AND_XX),
    ({b"NX", b"GT"}, errors.NX_GT_LT),
    ({b"NX", b"LT"}, errors.NX_GT_LT),
    ({b"GT", b"LT"}, errors.NX_GT_LT),
)


def _refusal(options: Sequence[bytes]) -> bytes | None:
    """Returns ZADD's error if it does not take these options together, else None."""
    return next((text for pair, text in _AT_ODDS if pair.issubset(options)), None)


_ZADDEX = Form(
    "ZADDEX",
    NOUN,
    width=2,
    conditions=Conditions((b"NX", b"XX", b"GT", b"LT", b"CH"), _refusal),
    capped=True,
)


def _parted(name: str, args: Args) -> tuple[Args, Args]:
    """Returns the options, in upper case, and the words that follow them."""
    options = list(takewhile(_OPTIONS[name].__contains__, map(bytes.upper, args[2:])))
    return options, args[2 + len(options) :]


def _adding(name: str) -> Override:
    """Returns the override of ZADD or GEOADD; a malformed request is passed on unchanged, and Redis
    refuses it."""
    width = _WIDTHS[name]

    def takes(args: Args) -> bool:
        options, tuples = _parted(name, args)
        members, left = divmod(len(tuples), width)
        most = 1 if b"INCR" in options else len(tuples)
        return left == 0 and 0 < members <= most and not _refusal(options)

    def plan(args: Args) -> Call:
        options, tuples = _parted(name, args)
        script = "zset_keep" if b"INCR" in options else "zset_add"
        return Call(script, (args[1],), (b" ".join((name.encode(), *options)), *tuples))

    def parted(args: Args) -> tuple[str, Args]:
        options, tuples = _parted(name, args)
        script = "zset_alter" if b"INCR" in options else "zset_write"
        return script, (b" ".join((name.encode(), *options)), *tuples)

    def takes_as_it_came(args: Args) -> bool:
        return len(args) > 2 and args[2][:1] in _NUMBERS and (len(args) - 2) % width == 0

    return Override(
        name=name,
        plan=plan,
        keys=lambda args: args[1:2],
        takes=takes,
        direct=Direct("zset_add", True, takes_as_it_came, b"".join(_NUMBERS)),
        on_write=OnWrite(b"zset", True, "zset_write", (name.encode(),), parted),
    )


def _popping(name: str) -> Override:
    """Returns the override of a pop without a count: with one, a script would change the reply's
    shape."""
    return on_key(name, "zset_pop", with_name, takes=lambda args: len(args) == 2)


VIRTUALS = (
    *family(NOUN, NAMES, fill="ZADD z 1 a 2 b"),
    Virtual(
        name="ZADDEX",
        summary="Adds members to a sorted set and sets their time to live in one step.",
        group="sorted-set",
        forms=(
            "key [KEEPTTL] seconds score member [score member ...]",
            f"key [NX|XX] [GT|LT] [CH] {TIMED_OPTIONS}"
            " MEMBERS nummembers score member [score member ...]",
        ),
        reply="how many members are new, with CH how many are new or changed, -1 too many members",
        complexity="O(N*log(M)), N members named, M in the set",
        since="0.1.0",
        plan=planning_timed(_ZADDEX, "zset_addex"),
        example=(
            ("ZADDEX z 100 1 a 2 b", "(integer) 2"),
            ("ZADDEX z GT CH EX 200 MEMBERS 2 1 a 3 b", "(integer) 1"),
            ("ZTTLMEMBER z MEMBERS 2 a b", "1) (integer) 100\n2) (integer) 200"),
            ("ZADDEX z MAXLEN 2 EX 300 MEMBERS 1 4 c", "(integer) -1"),
            ("ZADDEX z MAXLEN 2 EVICT EX 300 MEMBERS 1 4 c", "(integer) 1"),
        ),
        sets_deadlines=True,
    ),
)

_ALTER = OnWrite(b"zset", True, "zset_alter", (b"ZINCRBY",))

OVERRIDES = (
    _adding("ZADD"),
    _adding("GEOADD"),
    on_key("ZINCRBY", "zset_keep", with_name, on_write=_ALTER),
    on_key("ZREM", "zset_rem", rest),
    on_key("ZREMRANGEBYRANK", "zset_cut", with_name),
    on_key("ZREMRANGEBYSCORE", "zset_cut", with_name),
    on_key("ZREMRANGEBYLEX", "zset_cut", with_name),
    _popping("ZPOPMIN"),
    _popping("ZPOPMAX"),
)
