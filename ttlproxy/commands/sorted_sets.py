"""Sorted-set members: the commands that Redis lacks, and those of Redis that have to do more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ttlproxy.commands.elements import family
from ttlproxy.commands.grammar import Noun
from ttlproxy.commands.overrides import named, on_key, rest
from ttlproxy.commands.spec import Call, Override

Args = Sequence[bytes]

NOUN = Noun(type="zset", prefix="Z", one="member", many="members")

# The options of the two that add, and the words that each member takes (src/t_zset.c, src/geo.c).
_OPTIONS = {
    "ZADD": frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"}),
    "GEOADD": frozenset({b"NX", b"XX", b"CH"}),
}
_WIDTHS = {"ZADD": 2, "GEOADD": 3}
_AT_ODDS = ({b"NX", b"XX"}, {b"NX", b"GT"}, {b"NX", b"LT"}, {b"GT", b"LT"})


def at_odds(options: Sequence[bytes]) -> bool:
    """Whether ZADD refuses these options together."""
    return any(pair.issubset(options) for pair in _AT_ODDS)


def _parted(name: str, args: Args) -> tuple[Args, Args]:
    """The options, in upper case, and the words that follow them."""
    options = list(takewhile(_OPTIONS[name].__contains__, map(bytes.upper, args[2:])))
    return options, args[2 + len(options) :]


def _adding(name: str) -> Override:
    """ZADD or GEOADD; what is malformed goes to Redis as it came, which writes nothing of it."""

    def takes(args: Args) -> bool:
        options, tuples = _parted(name, args)
        members, left = divmod(len(tuples), _WIDTHS[name])
        most = 1 if b"INCR" in options else len(tuples)
        return left == 0 and 0 < members <= most and not at_odds(options)

    def plan(args: Args) -> Call:
        options, tuples = _parted(name, args)
        script = "zset_keep" if b"INCR" in options else "zset_add"
        return Call(script, (args[1],), (b" ".join((name.encode(), *options)), *tuples))

    return Override(name=name, plan=plan, keys=lambda args: args[1:2], takes=takes)


def _popping(name: str) -> Override:
    """Of one member. A script would lose the shape of the reply that several have."""
    return on_key(name, "zset_pop", named, takes=lambda args: len(args) == 2)


VIRTUALS = (*family(NOUN, fill="ZADD z 1 a 2 b", key="z", elements=("a", "b")),)

OVERRIDES = (
    _adding("ZADD"),
    _adding("GEOADD"),
    on_key("ZINCRBY", "zset_keep", named),
    on_key("ZREM", "zset_rem", rest),
    on_key("ZREMRANGEBYRANK", "zset_cut", named),
    on_key("ZREMRANGEBYSCORE", "zset_cut", named),
    on_key("ZREMRANGEBYLEX", "zset_cut", named),
    _popping("ZPOPMIN"),
    _popping("ZPOPMAX"),
)
