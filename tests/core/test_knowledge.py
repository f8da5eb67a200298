"""What a proxy knows of the keys that its own clients have named."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.families import ALL, Known
from ttlproxy.core.knowledge import _BYTES, UNMANAGED, Knowledge
from ttlproxy.core.registry import NOTHING_DUE, UNKNOWN, Owner
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of

NOW_MS = 1_000_000
LATER_MS = NOW_MS + 5000
MANY = 1 << 20


def _all_known(most_bytes: int = MANY) -> Knowledge:
    families = Known()
    families.learn([ALL])
    return Knowledge(most_bytes, families=families)


def _learnt(knowledge: Knowledge, db: int, key: bytes, first_ms: int | None) -> None:
    finding = knowledge.begin_finding()
    knowledge.learn(finding, db, {key: first_ms})
    knowledge.end_finding(finding)


def test_what_is_unknown_may_be_managed_and_due() -> None:
    knowledge = _all_known()
    asker = knowledge.asker((0,))
    assert b"k" in asker.names
    assert asker.names[b"k"] == UNKNOWN
    assert asker.due(b"k", NOW_MS) == [(0, b"k")]
    assert asker.unknown([b"k", b"l"]) == [(0, b"k"), (0, b"l")]


def test_what_was_looked_up_is_known_until_it_changes() -> None:
    knowledge = _all_known()
    asker = knowledge.asker((0,))
    _learnt(knowledge, 0, b"plain", None)
    _learnt(knowledge, 0, b"dated", LATER_MS)
    assert asker.places(b"plain") == []
    assert asker.places(b"dated") == [(0, b"dated")]
    assert asker.unknown([b"plain", b"dated"]) == []
    assert asker.due(b"dated", NOW_MS) == []
    assert asker.due(b"dated", LATER_MS + 1) == [(0, b"dated")]
    knowledge.changed(b"plain")
    assert asker.unknown([b"plain", b"dated"]) == [(0, b"plain")]
    knowledge.forget_all()
    assert asker.unknown([b"plain", b"dated"]) == [(0, b"plain"), (0, b"dated")]


CHANGES: list[Callable[[Knowledge], None]] = [
    lambda knowledge: knowledge.changed(b"k"),
    Knowledge.forget_all,
]


def test_an_answer_that_a_change_has_overtaken_does_not_count() -> None:
    for change in CHANGES:
        knowledge = _all_known()
        finding = knowledge.begin_finding()
        change(knowledge)
        knowledge.learn(finding, 0, {b"k": None})
        knowledge.end_finding(finding)
        assert knowledge.unknown([(0, b"k")])
        _learnt(knowledge, 0, b"k", None)
        assert not knowledge.unknown([(0, b"k")])


def test_a_client_that_may_be_in_two_databases_needs_both() -> None:
    knowledge = _all_known()
    asker = knowledge.asker((3, 0))
    _learnt(knowledge, 3, b"k", None)
    assert asker.unknown([b"k"]) == [(0, b"k")]
    _learnt(knowledge, 0, b"k", LATER_MS)
    assert b"k" in asker.names
    assert asker.names[b"k"] <= LATER_MS
    asker.select((3,))
    assert asker.names[b"k"] == UNMANAGED


def test_a_request_on_its_way_makes_a_key_managed_until_it_is_carried_out() -> None:
    knowledge, owner = _all_known(), Owner()
    asker = knowledge.asker((0,))
    _learnt(knowledge, 0, b"k", None)
    asker.pin(0, b"k", owner)
    assert asker.names[b"k"] == NOTHING_DUE
    _learnt(knowledge, 0, b"k", None)
    assert b"k" in asker.names, "a look-up may be older than the request"
    for _ in range(8):
        knowledge.barrier()
    assert knowledge.unknown([(0, b"k")])


def test_while_databases_may_have_been_swapped_nothing_is_learnt() -> None:
    knowledge = _all_known()
    knowledge.perhaps_swapped(0, 1)
    _learnt(knowledge, 0, b"k", None)
    assert knowledge.unknown([(0, b"k")])
    knowledge.settle()
    _learnt(knowledge, 0, b"k", None)
    assert not knowledge.unknown([(0, b"k")])


@given(
    most=st.integers(16, 24),
    keys=st.lists(
        st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=2)), min_size=60, max_size=100
    ),
)
def test_it_keeps_no_more_than_it_may_and_what_it_keeps_is_right(
    most: int, keys: list[tuple[int, bytes]]
) -> None:
    knowledge = _all_known(most * _BYTES)
    for db, key in keys:
        _learnt(knowledge, db, key, LATER_MS if key[0] % 2 else None)
    bounds = [knowledge.known(db).bounds for db in range(3)]
    assert sum(map(len, bounds)) <= most
    for known in bounds:
        for key, bound in known.items():
            assert (bound == UNMANAGED) == (key[0] % 2 == 0)


def test_a_key_is_new_until_it_is_named() -> None:
    """In whichever database."""
    knowledge = _all_known()
    assert knowledge.are_new([b"a", b"b"])
    assert not knowledge.are_new([b"c", b"b"])
    assert not knowledge.are_new([b"c"])
    assert knowledge.are_new([b"d"])


def test_names_are_remembered_for_a_while_and_never_too_many() -> None:
    most = 64
    knowledge = _all_known(16 * most * _BYTES)
    for number in range(10 * most):
        knowledge.are_new([b"%d" % number])
        assert len(knowledge._named) <= 2 * (most + 1)
        assert not knowledge.are_new([b"%d" % max(number - most // 2, 0)])
    assert knowledge.are_new([b"0"])


def test_a_key_whose_family_is_not_known_has_no_deadlines() -> None:
    """Nor is it looked up, in whichever databases its client may be, until its family is known."""
    families = Known()
    knowledge, owner = Knowledge(MANY, families=families), Owner()
    knowledge.book.learn(0, WriteRules({name_of(b"r*", b"set"): WriteRule(10).row(())}))
    for asker in (knowledge.asker((0,)), knowledge.asker((3, 0))):
        assert asker.unknown([b"ruled", b"plain"]) == []
        assert [key in asker.names for key in (b"ruled", b"plain")] == [True, False]
        assert [key in asker.managed for key in (b"ruled", b"plain")] == [False, False]
        assert asker.names[b"ruled"] == NOTHING_DUE
        assert asker.names.keys().isdisjoint([b"plain"])
        assert asker.places(b"ruled") == asker.due(b"ruled", NOW_MS) == []
        assert not asker.may_have_index(b"ruled", owner)
    families.learn([b"pl"])
    asker = knowledge.asker((0,))
    assert asker.unknown([b"ruled", b"plain"]) == [(0, b"plain")]
    assert asker.due(b"plain", NOW_MS) == [(0, b"plain")]


def test_what_is_known_of_a_database_without_keys_lasts_as_long_as_somebody_asks_of_it() -> None:
    knowledge = _all_known()
    assert knowledge.populate([5]) == {5}
    _learnt(knowledge, 5, b"k", None)
    assert not knowledge.unknown([(5, b"k")])
    asker = knowledge.asker((3,))
    _learnt(knowledge, 3, b"k", None)
    assert asker.unknown([b"k"]) == []
    knowledge.changed(b"k")
    assert asker.unknown([b"k"]) == [(3, b"k")]
    _learnt(knowledge, 3, b"k", None)
    asker.select((4,))
    assert knowledge.unknown([(3, b"k")])
    assert knowledge.databases() == [5], "only these are reaped"


def test_a_database_with_keys_is_kept_and_one_that_has_lost_them_is_not() -> None:
    knowledge = _all_known()
    knowledge.announced(7, b"k", LATER_MS)
    assert knowledge.populate([5]) == {5}
    assert sorted(knowledge.databases()) == [5, 7], "it was announced after Redis was asked"
    asker = knowledge.asker((5,))
    _learnt(knowledge, 5, b"k", None)
    assert knowledge.populate([6]) == {6}
    assert knowledge.databases() == [6]
    assert asker.unknown([b"k"]) == [], "as long as somebody asks"
    assert knowledge.populate([5, 6]) == {5}
    del asker
    assert not knowledge.unknown([(5, b"k")])


def test_a_change_overtakes_a_reap_in_a_database_of_which_nobody_asks() -> None:
    knowledge, place = _all_known(), (5, b"k")
    knowledge.begin_reap(place)
    knowledge.changed(b"k")
    asker = knowledge.asker((5,))
    _learnt(knowledge, 5, b"k", LATER_MS)
    knowledge.set_first_deadline(place, None)
    assert b"k" in asker.names
    knowledge.end_reap(place)


def test_a_key_that_is_written_to_another_database_is_asked_of_there_too() -> None:
    knowledge = _all_known()
    asker = knowledge.asker((0,))
    for key in (b"k", b"l"):
        _learnt(knowledge, 0, key, None)
    asker.reach([(1, b"k")])
    assert asker.unknown([b"k", b"l"]) == [(1, b"k")]
    assert asker.due(b"k", LATER_MS) == [(1, b"k")]
    _learnt(knowledge, 1, b"k", LATER_MS)
    assert asker.names[b"k"] <= LATER_MS
    assert asker.places(b"k") == [(1, b"k")]
    assert asker.names[b"l"] == UNMANAGED
    asker.reach_no_more()
    assert asker.names[b"k"] == UNMANAGED


def test_a_database_that_redis_lacks_is_not_asked_of() -> None:
    """Nor one with a higher number, until it may be another server."""
    knowledge = _all_known()
    asker = knowledge.asker((0,))
    _learnt(knowledge, 0, b"k", None)
    knowledge.lacks(16)
    asker.reach([(16, b"k"), (99, b"k")])
    assert asker.unknown([b"k"]) == []
    asker.reach([(15, b"k")])
    assert asker.unknown([b"k"]) == [(15, b"k")]
    asker.reach_no_more()
    knowledge.forget_all()
    asker.reach([(16, b"k")])
    assert (16, b"k") in asker.unknown([b"k"])
