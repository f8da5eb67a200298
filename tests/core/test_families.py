"""Families of keys: how names are parted, and which keys they cover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.families import ALL, MOST, MOST_WIDE, Known, family_of, wide_family_of


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("cart", "cart"),
        ("app:config", "app:"),
        ("user:42", "user:"),
        ("user:42:cart", "user:"),
        ("user:a7f3-b2:cart", "user:"),
        ("user:abc123", "user:"),
        ("user42", "user"),
        ("app:user42:cart", "app:user"),
        ("{42}:cart", "{"),
        ("cart:{42}", "cart:{"),
        ("42", ""),
        ("", ""),
        ("x" * 200, "x" * 128),
    ],
)
def test_a_family_is_how_a_name_begins_before_its_first_number(key: str, family: str) -> None:
    assert family_of(key.encode()) == family.encode()


KEYS = st.binary(max_size=200) | st.text("ab1:{}", max_size=12).map(str.encode)


@given(KEYS)
def test_a_key_is_of_its_family(key: bytes) -> None:
    assert key.startswith(family_of(key))
    assert key.startswith(wide_family_of(key))
    assert family_of(key).startswith(wide_family_of(key)) or wide_family_of(key) != ALL


@given(st.lists(KEYS, max_size=200))
def test_there_are_few_and_each_key_is_of_one(keys: list[bytes]) -> None:
    known = Known()
    for at, key in enumerate(keys):
        known.add_of([key])
        assert all(map(known.covers, keys[: at + 1]))
        assert known.of(key) in known.prefixes
    assert len(known.prefixes) <= MOST_WIDE + 1


def test_beyond_many_a_family_is_wider() -> None:
    known = Known()
    names = [b"word:%b:" % bytes([97 + number // 26, 97 + number % 26]) for number in range(MOST)]
    known.add_of(names)
    assert len(known.prefixes) == MOST
    known.add_of([b"another:word:zz"])
    assert known.covers(b"another:one")
    assert not known.covers(b"word:zz:zz")
    known.add_of([b"word:zz:zz"])
    assert known.prefixes == (b"another:", b"word:")
    assert known.all.issuperset(names), "each is acknowledged, also where another has its keys"


def test_a_word_that_is_no_bulk_string_is_no_key() -> None:
    known = Known()
    known.add([ALL])
    assert not known.covers(None)  # type: ignore[arg-type]
    assert known.covers(b"any")
