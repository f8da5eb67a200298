"""One conversation for both types: it is written for hashes, and said to sets in their words.

`ADD k a b` adds elements, `REM` removes them, `LEN` and `HAS` ask, `ODD k a` makes a key of the
other type; the rest is the FIELD family, which sets call MEMBER.
"""

import re
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from tests.containers import Container
from tests.conversation import WORD, Talk, Way, talking
from tests.servers import Proxy, Server

TYPES = ["hash", "set"]
both_types = pytest.mark.parametrize("type_", TYPES)

_OWN_WORDS = {
    "hash": {"REM": "HDEL", "LEN": "HLEN", "HAS": "HEXISTS"},
    "set": {"REM": "SREM", "LEN": "SCARD", "HAS": "SISMEMBER"},
}
_FAMILY = re.compile(r"\bH(P?(?:EXPIRE(?:AT|TIME)?|TTL|PERSIST))FIELD\b", re.IGNORECASE)
_NOUNS = {"FIELDS": "MEMBERS", "fields": "members", "Fields": "Members"}


def said_to_both(ways: list[Way]) -> Callable[..., Iterator[Talk]]:
    """A fixture with which a test says its text to both types, once in each of the ways."""

    @pytest.fixture(
        params=product(TYPES, ways), ids=lambda param: f"{param[0]}-{param[1].__name__}"
    )
    def both(
        request: pytest.FixtureRequest, proxy: Proxy, server: Server | Container
    ) -> Iterator[Talk]:
        type_, way = request.param
        with talking(proxy, server, way) as say:
            yield lambda text: say(said_of(type_, text))

    return both


def said_of(type_: str, text: str) -> str:
    """The conversation as a client of that type would hold it."""
    return "\n".join(_line(type_, line.strip()) for line in text.splitlines() if line.strip())


def _line(type_: str, line: str) -> str:
    verb, _, rest = line.partition(" ")
    if verb in {"ADD", "ODD"}:
        said, arrow, expected = rest.partition("->")
        key, *elements = WORD.findall(said)
        is_set = (type_ == "set") is (verb == "ADD")
        words = elements if is_set else [word for each in elements for word in (each, "1")]
        line = f"{'SADD' if is_set else 'HSET'} {key} {' '.join(words)} {arrow}{expected}"
        return _for_sets(line) if type_ == "set" else line
    line = f"{_OWN_WORDS[type_].get(verb, verb)} {rest}"
    return _for_sets(line) if type_ == "set" else line


def _for_sets(line: str) -> str:
    line = _FAMILY.sub(
        lambda found: (
            ("S" if found[0][0] == "H" else "s")
            + found[1]
            + ("MEMBER" if found[0][0] == "H" else "member")
        ),
        line,
    )
    for ours, theirs in _NOUNS.items():
        line = line.replace(ours, theirs)
    return line
