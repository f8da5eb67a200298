"""Text for people: counts in sentences, and names of any bytes, as they are shown and typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.core.text import counted, shown, typed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"user:42", "user:42"),
        ("größe 🙂".encode(), "größe 🙂"),
        (b"a\x00b\n", "a\\x00b\\x0a"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"C:\\x41", "C:\\\\x41"),
        ("\u202eevil\u200b".encode(), "\\xe2\\x80\\xaeevil\\xe2\\x80\\x8b"),
        (b"<script>", "<script>"),
    ],
)
def test_what_is_no_printable_text_is_escaped(name: bytes, text: str) -> None:
    assert shown(name) == text
    assert typed(text) == name


@given(st.binary(max_size=40))
def test_what_is_shown_can_be_typed(name: bytes) -> None:
    assert shown(name).isprintable()
    assert typed(shown(name)) == name


@given(st.text(max_size=20))
def test_a_backslash_that_begins_no_escape_is_itself(text: str) -> None:
    text = text.replace("\\x", "\\y").replace("\\\\", "\\y")
    assert typed(text) == text.encode()


@pytest.mark.parametrize(("count", "said"), [(0, "0 keys"), (1, "1 key"), (2, "2 keys")])
def test_a_count_has_its_noun_in_the_right_number(count: int, said: str) -> None:
    assert counted(count, "key") == said


@pytest.mark.parametrize(("count", "said"), [(0, "0 proxies"), (1, "1 proxy"), (2, "2 proxies")])
def test_a_plural_may_be_a_word_of_its_own(count: int, said: str) -> None:
    assert counted(count, "proxy", "proxies") == said
