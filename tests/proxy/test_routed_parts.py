"""The parts of a routed client that need no server: its table, gathered replies, order, bounces."""

from __future__ import annotations

import pytest

from ttlproxy.commands import Native, Router
from ttlproxy.commands.spec import FIRST as FIRST_KEY
from ttlproxy.core.keys import slot
from ttlproxy.proxy.routed import gathering
from ttlproxy.proxy.routed.bounces import Bounce, is_bounce, read
from ttlproxy.proxy.routed.gathering import Split
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.reply_order import ReplyOrder
from ttlproxy.proxy.routed.routing_table import SPECIALS, RoutingTable, Way
from ttlproxy.proxy.routed.special_requests import _SPECIAL


def test_each_special_command_has_its_function() -> None:
    assert _SPECIAL.keys() == SPECIALS


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (b"set", Way.FIRST),
        (b"Set", Way.FIRST),
        (b"PING", Way.HOME),
        (b"HEXPIREFIELD", Way.FIRST),
        (b"blpop", Way.ALONE),
        (b"LEASE", Way.ALONE),
        (b"MGET", Way.SPLIT),
        (b"multi", Way.SPECIAL),
        (b"nonsense", Way.KEYS),
    ],
)
def test_the_way_of_a_command(name: bytes, way: Way) -> None:
    natives = [
        Native("SET", -3, frozenset({"write"}), (FIRST_KEY,)),
        Native("PING", -1, frozenset()),
        Native("MGET", -2, frozenset(), (FIRST_KEY,)),
        Native("MULTI", 1, frozenset()),
    ]
    assert RoutingTable(Router(natives))[name] is way


def test_names_in_any_other_case_are_not_kept() -> None:
    table = RoutingTable(Router())
    for name in (b"nOnSeNsE", b"mUlTi"):
        assert table[name] is not None
    assert not dict(table)


def test_a_split_request_is_one_for_each_slot() -> None:
    split = Split([b"MGET", b"{a}1", b"{b}1", b"{a}2", b"{b}1"])
    assert {number: words for number, (words, _) in split.parts.items()} == {
        slot(b"a"): [b"MGET", b"{a}1", b"{a}2"],
        slot(b"b"): [b"MGET", b"{b}1", b"{b}1"],
    }
    replies = {slot(b"a"): b"*2\r\n$1\r\nx\r\n$-1\r\n", slot(b"b"): b"*2\r\n$2\r\n*1\r\n_\r\n"}
    assert split.gathered(replies) == b"*4\r\n$1\r\nx\r\n$2\r\n*1\r\n$-1\r\n_\r\n"
    refused = replies | {slot(b"b"): b"-NOPERM no\r\n"}
    assert split.gathered(refused) == b"-NOPERM no\r\n"


def test_pairs_stay_together() -> None:
    split = Split([b"mset", b"{a}1", b"1", b"{b}1", b"2", b"{a}2", b"3"])
    assert split.parts[slot(b"a")][0] == [b"mset", b"{a}1", b"1", b"{a}2", b"3"]
    assert split.gathered(dict.fromkeys(split.parts, b"+OK\r\n")) == b"+OK\r\n"


def test_replies_of_all_nodes_become_one() -> None:
    assert gathering.total([b":2\r\n", b":40\r\n"]) == b":42\r\n"
    assert gathering.least([b":2\r\n", b":40\r\n"]) == b":2\r\n"
    assert gathering.joined([b"*1\r\n+a\r\n", b"*0\r\n", b"*2\r\n:1\r\n*1\r\n+b\r\n"]) == (
        b"*3\r\n+a\r\n:1\r\n*1\r\n+b\r\n"
    )
    for gathered in (gathering.total, gathering.least, gathering.first, gathering.joined):
        assert gathered([b"+OK\r\n", b"-ERR no\r\n"]) == b"-ERR no\r\n"
    assert gathering.any_good([b"-NOTBUSY\r\n", b"+OK\r\n"]) == b"+OK\r\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (b"-MOVED 7 10.0.0.1:7000\r\n", Bounce(b"MOVED", 7, "10.0.0.1", 7000)),
        (b"-ASK 16383 ::1:7000\r\n", Bounce(b"ASK", 16383, "::1", 7000)),
        (b"-MOVED 7 :7000\r\n", Bounce(b"MOVED", 7, "", 7000)),
        (b"-TRYAGAIN Multiple keys\r\n", Bounce(b"TRYAGAIN")),
        (b"-CLUSTERDOWN The cluster is down\r\n", Bounce(b"CLUSTERDOWN")),
        (b"-MOVED nowhere\r\n", None),
        (b"-ERR MOVED 7 10.0.0.1:7000\r\n", None),
    ],
)
def test_an_error_that_sends_a_request_back_is_read(error: bytes, told: Bounce | None) -> None:
    assert read(error) == told
    assert is_bounce(error) == error.startswith((b"-MOVED", b"-ASK", b"-TRY", b"-CLUSTERDOWN"))


def test_replies_wait_for_earlier_ones_and_pushes_for_the_end_of_a_reply() -> None:
    said: list[bytes] = []
    order = ReplyOrder(said.append, lambda do: do())
    one, two, three = requests = [PendingRequest([b"GET"], b"", None) for _ in range(3)]
    order.add(requests)
    order.answered(two, b"2")
    order.part(b"1a")
    order.push(b">p")
    order.flush()
    assert said == [b"1a"]
    order.answered(one, b"1b")
    order.push(b">q")
    order.answered(three, b"3")
    order.flush()
    assert b"".join(said) == b"1a1b2>p>q3"
    assert len(order) == 0


def test_a_reply_that_is_taken_back_waits_again() -> None:
    said: list[bytes] = []
    order = ReplyOrder(said.append, lambda do: do())
    one, two = PendingRequest([b"SET"], b"", 1), PendingRequest([b"GET"], b"", 1)
    order.add([one, two])
    order.answered(two, b"old")
    order.take_back(two)
    order.answered(one, b"1")
    order.answered(two, b"new")
    order.flush()
    assert b"".join(said) == b"1new"
