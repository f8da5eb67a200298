"""What a proxy knows that asks Redis at each request: the families of keys, and no key."""

from __future__ import annotations

from ttlproxy.core.families import ALL, Known
from ttlproxy.core.knowledge import Knowledge
from ttlproxy.core.registry import NOTHING_DUE, UNKNOWN, Owner
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of

NOW_MS = 1_000_000
LATER_MS = NOW_MS + 5000


def _all_known() -> Knowledge:
    families = Known()
    families.learn([ALL])
    return Knowledge(families=families)


def test_each_key_of_a_known_family_may_be_managed_and_due() -> None:
    asker = _all_known().asker((0,))
    assert b"k" in asker.names
    assert asker.names[b"k"] == UNKNOWN
    assert asker.places(b"k") == asker.due(b"k", NOW_MS) == [(0, b"k")]
    assert asker.may_have_index(b"k", Owner())
    assert not asker.names.keys().isdisjoint([b"k"])


def test_what_is_heard_of_a_key_is_not_remembered() -> None:
    """Neither a deadline, nor that nothing is left, nor a request on its way."""
    knowledge, owner = _all_known(), Owner()
    asker, place = knowledge.asker((0,)), (0, b"k")
    knowledge.announced(0, b"k", LATER_MS)
    knowledge.begin_reap(place)
    for first_ms in (LATER_MS, None):
        knowledge.set_first_deadline(place, first_ms)
        assert asker.names[b"k"] == UNKNOWN
        assert asker.due(b"k", NOW_MS) == [place]
    knowledge.end_reap(place)
    asker.pin(0, b"k", owner)
    assert not knowledge.wants_barrier
    assert len(knowledge) == 0
    assert knowledge.listed(0, 9) == []
    assert knowledge, "it is not as if there were no keys"


def test_the_reaper_hears_of_deadlines() -> None:
    woken = list[tuple[int, int]]()
    knowledge = Knowledge(lambda db, deadline_ms: woken.append((db, deadline_ms)))
    knowledge.announced(3, b"k", LATER_MS)
    assert woken == [(3, LATER_MS)]


def test_a_client_that_may_be_in_two_databases_is_asked_about_in_both() -> None:
    asker = _all_known().asker((3, 0))
    assert sorted(asker.places(b"k")) == sorted(asker.due(b"k", NOW_MS)) == [(0, b"k"), (3, b"k")]
    asker.select((3,))
    assert asker.places(b"k") == asker.due(b"k", NOW_MS) == [(3, b"k")]
    assert asker.databases() == asker.unheard([3]) == [3], "nobody has said what is due there"


def test_a_key_whose_family_is_not_known_has_no_deadlines() -> None:
    """In whichever databases its client may be, until its family is known."""
    families = Known()
    knowledge, owner = Knowledge(families=families), Owner()
    knowledge.book.learn(0, WriteRules({name_of(b"r*", b"set"): WriteRule(10).row(())}))
    for asker in (knowledge.asker((0,)), knowledge.asker((3, 0))):
        assert [key in asker.names for key in (b"ruled", b"plain")] == [True, False]
        assert [key in asker.managed for key in (b"ruled", b"plain")] == [False, False]
        assert asker.names[b"ruled"] == NOTHING_DUE
        assert asker.names.keys().isdisjoint([b"plain"])
        for key in (b"ruled", b"plain"):
            assert asker.places(key) == asker.due(key, NOW_MS) == []
            assert not asker.may_have_index(key, owner)
    families.learn([b"pl"])
    asker = knowledge.asker((0,))
    assert asker.due(b"plain", NOW_MS) == [(0, b"plain")]
    assert asker.due(b"ruled", NOW_MS) == []


def test_databases_with_keys_are_those_of_which_redis_or_an_announcement_has_told() -> None:
    knowledge = _all_known()
    assert knowledge.places(b"k") == []
    knowledge.announced(7, b"k", LATER_MS)
    assert knowledge.populate([5]) == {5}
    assert sorted(knowledge.databases()) == [5, 7], "it was announced after Redis was asked"
    assert sorted(knowledge.places(b"k")) == [(5, b"k"), (7, b"k")]
    assert sorted(knowledge.due(b"k", NOW_MS)) == [(5, b"k"), (7, b"k")]
    assert knowledge.populate([6]) == {6}
    assert knowledge.databases() == [6]
    assert knowledge.populate([5, 6]) == {5}
    knowledge.asker((3,)).select((4,))
    assert sorted(knowledge.databases()) == [5, 6], "only these are reaped"


def test_a_key_that_is_written_to_another_database_is_asked_about_there_too() -> None:
    asker = _all_known().asker((0,))
    asker.reach([(1, b"k"), (2, b"k")])
    assert sorted(asker.due(b"k", NOW_MS)) == [(0, b"k"), (1, b"k"), (2, b"k")]
    assert sorted(asker.places(b"k")) == [(0, b"k"), (1, b"k"), (2, b"k")]
    assert asker.due(b"l", NOW_MS) == [(0, b"l")]
    asker.reach_no_more()
    assert asker.due(b"k", NOW_MS) == [(0, b"k")]


def test_which_keys_have_an_index_is_known_for_one_chunk() -> None:
    """As far as Redis was asked; it is asked about the others."""
    asker, owner = _all_known().asker((3, 0)), Owner()
    places = asker.doubted([b"k", b"l"])
    assert sorted(places) == [(0, b"k"), (0, b"l"), (3, b"k"), (3, b"l")]
    asker.learn_indexes(places, {(0, b"k")})
    assert asker.doubted([b"k", b"l"]) == []
    assert sorted(asker.doubted([b"l", b"m"])) == [(0, b"m"), (3, b"m")]
    assert [asker.may_have_index(key, owner) for key in (b"k", b"l", b"m")] == [True, False, True]
    asker.forget_indexes()
    assert asker.may_have_index(b"l", owner)
    assert sorted(asker.doubted([b"l"])) == [(0, b"l"), (3, b"l")]
