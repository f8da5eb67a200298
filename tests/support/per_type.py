"""One conversation for all types: written for hashes, and translated to the other types' commands.

`ADD k a b` adds elements, `REM` removes them, `LEN` and `HAS` ask, `ODD k a` makes a key of
another type. `PUT k [MAXLEN 2 EX 100] a b -> 2` stands for the long form of the command that writes
and sets deadlines; the reply is the number of new elements, or -1; HSETEX replies 1 and 0. The rest
is the FIELD family, which is called MEMBER or ELEMENT for other types.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import pytest

from tests.support.containers import Container
from tests.support.conversation import WAYS, WORD, Talk, Way, in_multi, one_by_one, talking
from tests.support.servers import Proxy, Server


@dataclass(frozen=True)
class _Words:
    """The commands of a type. `{}` in `element`, `removed` and `question` stands for an element;
    `odd` is another type; `answers` translates the replies of HAS.

    counts: whether ADD and REM reply how many elements; if not, REM takes one at a time
    """

    prefix: str
    noun: str
    add: str
    element: str
    remove: str
    length: str
    has: str
    odd: str
    put: str
    question: str = "{}"
    removed: str = "{}"
    counts: bool = True
    answers: Mapping[str, str] = field(default_factory=dict)


TYPES = {
    "hash": _Words("H", "FIELD", "HSET", "{} 1", "HDEL", "HLEN", "HEXISTS", "set", "HSETEX"),
    "set": _Words("S", "MEMBER", "SADD", "{}", "SREM", "SCARD", "SISMEMBER", "zset", "SADDEX"),
    "zset": _Words(
        *("Z", "MEMBER", "ZADD", "0 {}", "ZREM", "ZCARD", "ZLEXCOUNT", "hash", "ZADDEX"),
        question="[{0} [{0}",  # all scores are equal, so a range by name finds one member
    ),
    "list": _Words(
        *("L", "ELEMENT", "RPUSH", "{}", "LREM", "LLEN", "LPOS", "set", "RPUSHEX"),
        question="{} COUNT 1",
        removed="0 {}",
        counts=False,
        answers={"0": "[]", "1": "[0]"},
    ),
}
every_type = pytest.mark.parametrize("type_", TYPES)

_PUT = re.compile(r"(\S+) \[(.*)\](.*)")
_FAMILY = re.compile(r"\b(H)(P?(?:EXPIRE(?:AT|TIME)?|TTL|PERSIST))FIELD\b", re.IGNORECASE)


UNLISTED = [type_ for type_ in TYPES if type_ != "list"]
# The types in whose words a conversation is said, "" for its own, and the ways in which it is sent.
# How requests are sent does not depend on the type, so those for every type are sent once for each,
# and in the other ways for hashes.
SENT: dict[str, list[tuple[str, Way]]] = {
    "talk": [("", way) for way in WAYS],
    "talk_one_by_one": [("", one_by_one)],
    "talk_in_multi": [("", in_multi)],
    "every": [*product(TYPES, WAYS[:1]), *(("hash", way) for way in WAYS[1:])],
    "every_one_by_one": [*product(TYPES, [one_by_one])],
    "every_but_list": [*product(UNLISTED, WAYS[:1]), *(("hash", way) for way in WAYS[1:])],
    "every_but_list_one_by_one": [*product(UNLISTED, [one_by_one])],
}


def said_in(sent: str) -> Callable[..., Iterator[Talk]]:
    """A fixture: the test that uses it sends its text for each of these types and ways."""

    @pytest.fixture(params=SENT[sent], ids=lambda case: f"{case[0]}-{case[1].__name__}".strip("-"))
    def talk(
        request: pytest.FixtureRequest, proxy: Proxy, server: Server | Container
    ) -> Iterator[Talk]:
        type_, way = request.param
        with talking(proxy, server, way) as say:
            yield lambda text: say(said_of(type_, text))

    return talk


def said_of(type_: str, text: str) -> str:
    """The conversation in the words of that type, as it is without one."""
    if not type_:
        return text
    return "\n".join(_line(type_, line.strip()) for line in text.splitlines() if line.strip())


def put(type_: str, key: str, options: str, elements: list[str]) -> str:
    """Writes elements and sets their deadlines, with these options."""
    words = TYPES[type_]
    written = " ".join(map(words.element.format, elements))
    return f"{words.put} {key} {options} {words.noun}S {len(elements)} {written}"


def _line(type_: str, line: str) -> str:
    words = TYPES[type_]
    verb, _, rest = line.partition(" ")
    said, arrow, expected = rest.partition("->")
    if verb == "ADD":
        line = f"{_added(words, said)} {arrow}{_count(words, expected)}"
    elif verb == "ODD":
        line = f"{_added(TYPES[words.odd], said)} {arrow}{expected}"
    elif verb == "PUT":
        key, options, elements = _PUT.findall(said)[0]
        wrote = "1" if type_ == "hash" and expected.strip().isdigit() else expected
        line = f"{put(type_, key, options, elements.split())} {arrow} {wrote}"
    elif verb == "HAS":
        key, element = said.split()
        answer = words.answers.get(expected.strip(), expected)
        line = f"{words.has} {key} {words.question.format(element)} {arrow}{answer}"
    elif verb == "REM":
        line = "\n".join(
            f"{removal} {arrow}{_count(words, expected)}" for removal in _removals(words, said)
        )
    elif verb == "LEN":
        line = f"{words.length} {rest}"
    return line if type_ == "hash" else _in_own_nouns(words, line)


def _added(words: _Words, said: str) -> str:
    key, *elements = WORD.findall(said)
    return " ".join([words.add, key, *map(words.element.format, elements)])


def _removals(words: _Words, said: str) -> Iterator[str]:
    key, *elements = WORD.findall(said)
    for some in [elements] if words.counts else [[element] for element in elements]:
        yield " ".join([words.remove, key, *map(words.removed.format, some)])


def _count(words: _Words, expected: str) -> str:
    return expected if words.counts or not expected.strip().isdigit() else "*"


def _in_own_nouns(words: _Words, line: str) -> str:
    def command(found: re.Match[str]) -> str:
        name = f"{words.prefix}{found[2].upper()}{words.noun}"
        return name if found[1] == "H" else name.lower()

    line = _FAMILY.sub(command, line)
    for cased in (str.upper, str.capitalize, str.lower):
        line = line.replace(cased("fields"), cased(f"{words.noun}s"))
    return line
