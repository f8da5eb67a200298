"""One conversation for all types: it is written for hashes, and said to the others in their words.

`ADD k a b` adds elements, `REM` removes them, `LEN` and `HAS` ask, `ODD k a` makes a key of
another type; the rest is the FIELD family, which others call MEMBER.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from tests.containers import Container
from tests.conversation import WORD, Talk, Way, talking
from tests.servers import Proxy, Server


@dataclass(frozen=True)
class _Words:
    """A type's own words. `{}` in `element` and `question` is an element; `odd` is another type."""

    prefix: str
    noun: str
    add: str
    element: str
    remove: str
    length: str
    has: str
    odd: str
    question: str = "{}"


_TYPES = {
    "hash": _Words("H", "FIELD", "HSET", "{} 1", "HDEL", "HLEN", "HEXISTS", odd="set"),
    "set": _Words("S", "MEMBER", "SADD", "{}", "SREM", "SCARD", "SISMEMBER", odd="zset"),
    "zset": _Words(
        *("Z", "MEMBER", "ZADD", "0 {}", "ZREM", "ZCARD", "ZLEXCOUNT"),
        odd="hash",
        question="[{0} [{0}",  # equal scores: members lie between themselves
    ),
}
every_type = pytest.mark.parametrize("type_", _TYPES)

_FAMILY = re.compile(r"\b(H)(P?(?:EXPIRE(?:AT|TIME)?|TTL|PERSIST))FIELD\b", re.IGNORECASE)


def said_to_all(ways: list[Way]) -> Callable[..., Iterator[Talk]]:
    """A fixture with which a test says its text to all types, once in each of the ways."""

    @pytest.fixture(
        params=product(_TYPES, ways), ids=lambda param: f"{param[0]}-{param[1].__name__}"
    )
    def every(
        request: pytest.FixtureRequest, proxy: Proxy, server: Server | Container
    ) -> Iterator[Talk]:
        type_, way = request.param
        with talking(proxy, server, way) as say:
            yield lambda text: say(said_of(type_, text))

    return every


def said_of(type_: str, text: str) -> str:
    """The conversation as a client of that type would hold it."""
    return "\n".join(_line(type_, line.strip()) for line in text.splitlines() if line.strip())


def _line(type_: str, line: str) -> str:
    words = _TYPES[type_]
    verb, _, rest = line.partition(" ")
    said, arrow, expected = rest.partition("->")
    if verb == "ADD":
        line = f"{_added(words, said)} {arrow}{expected}"
    elif verb == "ODD":
        line = f"{_added(_TYPES[words.odd], said)} {arrow}{expected}"
    elif verb == "HAS":
        key, element = said.split()
        line = f"{words.has} {key} {words.question.format(element)} {arrow}{expected}"
    elif verb in ("REM", "LEN"):
        line = f"{words.remove if verb == 'REM' else words.length} {rest}"
    return line if type_ == "hash" else _in_own_nouns(words, line)


def _added(words: _Words, said: str) -> str:
    key, *elements = WORD.findall(said)
    return " ".join([words.add, key, *map(words.element.format, elements)])


def _in_own_nouns(words: _Words, line: str) -> str:
    def command(found: re.Match[str]) -> str:
        name = f"{words.prefix}{found[2].upper()}{words.noun}"
        return name if found[1] == "H" else name.lower()

    line = _FAMILY.sub(command, line)
    for cased in (str.upper, str.capitalize, str.lower):
        line = line.replace(cased("fields"), cased(f"{words.noun}s"))
    return line
