"""RENAME and RENAMENX: deadlines go with the key, and replace those of its destination."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk


@pytest.mark.parametrize(("rename", "done"), [("RENAME", "OK"), ("RENAMENX", "1")])
def test_a_renamed_key_takes_its_deadlines_along(every: Talk, rename: str, done: str) -> None:
    every(f"""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        EXPIRE k 200                    -> 1
        {rename} k {{new}}              -> {done}
        HTTLFIELD {{new}} FIELDS 2 a b  -> [100, -1]
        TTL {{new}}                     -> 200
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


def test_deadlines_pass_under_the_new_name(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        RENAME k new                    -> OK
        wait 20
        LEN new                         -> 1
        EXISTS k                        -> 0
    """)


def test_the_destinations_old_deadlines_go_when_a_key_is_renamed_onto_it(every: Talk) -> None:
    every("""
        ADD plain a b                   -> 2
        ADD k a c                       -> 2
        HEXPIREFIELD k 100 FIELDS 2 a c -> [1, 1]
        EXPIRE k 300                    -> 1
        RENAME plain k                  -> OK
        HTTLFIELD k FIELDS 3 a b c      -> [-1, -1, -2]
        TTL k                           -> -1
        HEXPIREFIELD k b 200            -> 1
        SET text x                      -> OK
        RENAME text k                   -> OK
        TYPE k                          -> string
        DEL k                           -> 1
        ADD k b                         -> 1
        HTTLFIELD k b                   -> -1
    """)


def test_renaming_a_managed_key_onto_a_managed_one_leaves_only_its_own_deadlines(
    every: Talk,
) -> None:
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        ADD other a b                   -> 2
        HPEXPIREFIELD other b 20        -> 1
        RENAMENX k other                -> 0
        RENAME k other                  -> OK
        wait 20
        HTTLFIELD other FIELDS 2 a b    -> [100, -1]
    """)


def test_an_all_expired_destination_does_not_block_renamenx(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        ADD other a b                   -> 2
        HPEXPIREFIELD other 20 FIELDS 2 a b -> [1, 1]
        RENAMENX k other                -> 0
        wait 20 in time
        RENAMENX k other                -> 1
        HTTLFIELD other FIELDS 2 a b    -> [100, -2]
    """)


def test_renaming_a_key_to_its_own_name_changes_nothing(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        RENAME k k                      -> OK
        RENAMENX k k                    -> 0
        HTTLFIELD k a                   -> 100
        RENAME nokey nokey              -> ERR no such key
    """)
