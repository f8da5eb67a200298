"""Replies of any kind, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

_LINE = st.binary(max_size=8).map(lambda text: text.translate(None, b"\r\n"))
# Also with what looks like the beginning of an error, a push or an attribute.
_BULK = st.binary(max_size=30) | st.sampled_from([b"a\r\n-b", b"\r\n>1\r\n", b"\n|", b"-"])
_ONE = st.one_of(
    st.builds(lambda kind, text: kind + text + b"\r\n", st.sampled_from([b"+", b"-"]), _LINE),
    st.integers(-9, 99).map(lambda number: b":%d\r\n" % number),
    st.sampled_from([b"_\r\n", b"#t\r\n", b"#f\r\n", b",1.5\r\n", b"(12345\r\n", b"$-1\r\n"]),
    st.sampled_from([b"*-1\r\n", b"*0\r\n", b"+OK\r\n"]),
    _BULK.map(lambda text: b"$%d\r\n%b\r\n" % (len(text), text)),
    _BULK.map(lambda text: b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text)),
    _BULK.map(lambda text: b"!%d\r\n%b\r\n" % (len(text), text)),
)


def _aggregates(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    some = st.lists(inner, max_size=4)
    lists = st.builds(
        lambda kind, values: b"%b%d\r\n%b" % (kind, len(values), b"".join(values)),
        st.sampled_from([b"*", b"~"]),
        some,
    )
    # Redis before 7.2 may put a push between the elements of a reply.
    interrupted = st.tuples(inner, inner).map(lambda two: b"*2\r\n%b>1\r\n+p\r\n%b" % two)
    maps = st.lists(st.tuples(inner, inner), max_size=3).map(
        lambda pairs: b"%%%d\r\n%b" % (len(pairs), b"".join(map(b"".join, pairs)))
    )
    attributed = st.tuples(inner, inner, inner).map(lambda parts: b"|1\r\n" + b"".join(parts))
    return st.one_of(lists, interrupted, maps, attributed)


REPLIES = st.recursive(_ONE, _aggregates, max_leaves=8)
PUSH = b">2\r\n+a\r\n:1\r\n"
