"""Leaderboards: exact scores of 64 bits, the best first; the earlier of two equal ones comes first.

A leaderboard is one sorted set; scripts/lib/leaderboard.lua describes its entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.parsing import Refused
from ttlproxy.commands.spec import FILLED, FIRST_READ, Call, KeySpec, Virtual

Args = Sequence[bytes]

_MAX_SCORE = 2**63 - 1


def _integer(word: bytes) -> int:
    if not parsing.is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    return int(word)


def _add(args: Args) -> Call:
    *conditions, score, member = args[2:]
    condition = b"".join(conditions).upper()
    if conditions and condition not in parsing.CONDITIONS:
        raise Refused(errors.SYNTAX)
    standing = (_MAX_SCORE - _integer(score)).to_bytes(8)
    return Call("leaderboard_add", args[1:2], (condition, standing, member))


def _increase(args: Args) -> Call:
    delta = _integer(args[2]).to_bytes(8, signed=True)
    return Call("leaderboard_incrby", args[1:2], (delta, args[3]))


def _top(args: Args) -> Call:
    start, stop = (b"%d" % _integer(word) for word in args[2:])
    return Call("leaderboard_top", args[1:2], (start, stop))


def _around(args: Args) -> Call:
    if _integer(args[3]) < 0:
        raise Refused(errors.NEGATIVE_COUNT)
    return Call("leaderboard_around", args[1:2], args[2:])


_FILL = (
    ("LBADD lb 300 ann", "(integer) 1"),
    ("LBADD lb 500 bob", "(integer) 1"),
    ("LBADD lb 300 cid", "(integer) 1"),
)
_BOB, _ANN, _CID = (
    f'1) (integer) {rank}\n   2) "{member}"\n   3) "{score}"'
    for rank, member, score in ((0, "bob", 500), (1, "ann", 300), (2, "cid", 300))
)
_ROWS = "for each member its rank, its name and its score, best first"

VIRTUALS = (
    Virtual(
        name="LBADD",
        summary="Sets the score of a member of a leaderboard.",
        group="sorted-set",
        forms=("key [NX|XX|GT|LT] score member",),
        integers=("score",),
        reply="1 the member is new, 0 it is not new, or the condition was not met",
        complexity="O(log(N)), N members",
        since="0.1.0",
        plan=_add,
        example=(
            *_FILL,
            ("LBADD lb GT 200 ann", "(integer) 0"),
            ("LBADD lb GT 9223372036854775807 ann", "(integer) 0"),
            ("LBTOP lb 0 0", '1) 1) (integer) 0\n   2) "ann"\n   3) "9223372036854775807"'),
            ("LBADD lb NX 1 ann", "(integer) 0"),
        ),
        positions=(KeySpec(FILLED),),
    ),
    Virtual(
        name="LBINCRBY",
        summary="Adds to the score of a member of a leaderboard; a new member starts at 0.",
        group="sorted-set",
        forms=("key delta member",),
        reply="the new score",
        complexity="O(log(N)), N members",
        since="0.1.0",
        plan=_increase,
        example=(
            ("LBINCRBY lb 9007199254740993 ann", '"9007199254740993"'),
            ("LBINCRBY lb -1 ann", '"9007199254740992"'),
        ),
        positions=(KeySpec(FILLED),),
    ),
    Virtual(
        name="LBTOP",
        summary="Returns the rows of a leaderboard between two ranks.",
        group="sorted-set",
        forms=("key start stop",),
        reply=_ROWS,
        complexity="O(log(N)+M), N members, M returned",
        since="0.1.0",
        plan=_top,
        example=(
            *_FILL,
            ("LBTOP lb 0 1", f"1) {_BOB}\n2) {_ANN}"),
            ("LBTOP lb -1 -1", f"1) {_CID}"),
        ),
        positions=(FIRST_READ,),
    ),
    Virtual(
        name="LBRANK",
        summary="Returns the rank of a member of a leaderboard; the best has 0.",
        group="sorted-set",
        forms=("key member",),
        reply="the rank, nil if there is no such member",
        complexity="O(log(N)), N members",
        since="0.1.0",
        plan=lambda args: Call("leaderboard_rank", args[1:2], args[2:]),
        example=(*_FILL, ("LBRANK lb ann", "(integer) 1"), ("LBRANK lb none", "(nil)")),
        positions=(FIRST_READ,),
    ),
    Virtual(
        name="LBAROUND",
        summary="Returns the row of a member of a leaderboard, with n rows above and n below.",
        group="sorted-set",
        forms=("key member n",),
        reply=f"{_ROWS}; empty if there is no such member",
        complexity="O(log(N)+M), N members, M returned",
        since="0.1.0",
        plan=_around,
        example=(
            *_FILL,
            ("LBAROUND lb ann 1", f"1) {_BOB}\n2) {_ANN}\n3) {_CID}"),
            ("LBAROUND lb ann 0", f"1) {_ANN}"),
        ),
        positions=(FIRST_READ,),
    ),
    Virtual(
        name="LBREM",
        summary="Removes members from a leaderboard.",
        group="sorted-set",
        forms=("key member [member ...]",),
        reply="how many were removed",
        complexity="O(M*log(N)), N members, M named",
        since="0.1.0",
        plan=lambda args: Call("leaderboard_rem", args[1:2], args[2:]),
        example=(*_FILL, ("LBREM lb ann none", "(integer) 1"), ("LBRANK lb cid", "(integer) 1")),
    ),
)
