"""What each native command on sorted sets does to deadlines.

What sorted sets have in common with other types is in test_past_deadlines.py, test_whole_keys.py
and test_virtual.py.
"""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.raw_client import Connection

NOT_A_FLOAT = "ERR value is not a valid float"


# --- R2: writing a score clears the deadline, changing it keeps it


@pytest.mark.parametrize(
    ("add", "written"),
    [
        ("ZADD k 5 a", "a"),
        ("ZADD k 1 a", "a"),  # the same score counts as written too
        ("ZADD k 5 a 5 b", "ab"),
        ("ZADD k XX 1 a", "a"),
        ("ZADD k XX CH 5 a 5 new", "a"),
        ("ZADD k NX 5 a 5 new", ""),
        ("ZADD k GT 0 a 3 b", "b"),
        ("ZADD k GT 1 a 2 b", ""),
        ("ZADD k GT CH +1.5 a inf b", "ab"),
        ("ZADD k GT 1.0000000000000001 a 2.0000000000000005 b", "b"),
        ("ZADD k LT 0 a 3 b", "a"),
        ("ZADD k LT 1 a 2 b", ""),
        ("ZADD k lt ch -inf a 1 b", "ab"),
        ("ZADD k XX GT 1e0 a 1e1 b 9 new", "b"),
        ("ZADD k GT 1 a 2 a 2 a", "a"),
        ("ZADD k GT 1 a 1 a", ""),
        ("ZADD k LT 0 new 0 new 3 b", ""),
        ("ZADD k CH CH 5 a", "a"),
        ("GEOADD k 13 38 a", "a"),
        ("GEOADD k CH 13 38 a 13 38 new", "a"),
        ("GEOADD k NX 13 38 a 13 38 new", ""),
        ("GEOADD k XX CH 13 38 b 13 38 new", "b"),
    ],
)
def test_a_member_whose_score_is_written_loses_its_deadline_and_no_other(
    talk: Talk, add: str, written: str
) -> None:
    left = [-1 if member in written else 100 for member in "ab"]
    talk(f"""
        ZADD k 1 a 2 b                          -> 2
        ZEXPIREMEMBER k 100 MEMBERS 2 a b       -> [1, 1]
        {add}                                   -> *
        ZTTLMEMBER k MEMBERS 2 a b              -> {left}
    """)


# --- more words than Lua can unpack


def test_one_zadd_of_many_members_is_whole_or_not_at_all(app: Connection) -> None:
    pairs = [word for n in range(9000) for word in (n, f"m{n}")]
    app.ask("ZADD", "k", 1, "m0")
    app.ask("ZEXPIREATMEMBER", "k", "m0", 4102444800)
    assert app.ask("ZADD", "k", *pairs, "x", "last") == f"-{NOT_A_FLOAT}\r\n".encode()
    assert app.ask("ZCARD", "k") == b":1\r\n"
    assert app.ask("ZEXPIRETIMEMEMBER", "k", "m0") == b":4102444800\r\n"
    assert app.ask("ZADD", "k", "CH", *pairs) == b":9000\r\n"
    assert app.ask("ZTTLMEMBER", "k", "m0") == b":-1\r\n"
    all_of_them = ("MEMBERS", 9000, *pairs[1::2])
    assert app.ask("ZEXPIREATMEMBER", "k", 4102444800, *all_of_them).startswith(b"*9000")
    assert app.ask("ZREMRANGEBYSCORE", "k", 0, 8998) == b":8999\r\n"
    left = app.ask("ZEXPIRETIMEMEMBER", "k", "MEMBERS", 2, "m0", "m8999")
    assert left == b"*2\r\n:-2\r\n:4102444800\r\n"


def test_geoadd_of_many_members_keeps_its_triples_together(app: Connection) -> None:
    triples = [word for n in range(5000) for word in (n % 90, n % 80, f"m{n}")]
    app.ask("ZADD", "k", 1, "m0", 1, "other")
    app.ask("ZEXPIREATMEMBER", "k", 4102444800, "MEMBERS", 2, "m0", "other")
    assert app.ask("GEOADD", "k", *triples) == b":4999\r\n"
    left = app.ask("ZEXPIRETIMEMEMBER", "k", "MEMBERS", 2, "m0", "other")
    assert left == b"*2\r\n:-1\r\n:4102444800\r\n"
