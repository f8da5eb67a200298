"""COMMAND DOCS describes our commands' arguments exactly as the proxy accepts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ttlproxy.commands.introspection import Argument, arguments
from ttlproxy.commands.router import LONGER, VIRTUALS
from ttlproxy.commands.spec import Virtual

ROWS = [*VIRTUALS.values(), *LONGER.values()]


def _all(found: Sequence[Argument]) -> Iterator[Argument]:
    for each in found:
        yield each
        yield from _all(each.arguments)


def _told(row: Virtual) -> list[Argument]:
    return list(_all(arguments(row.hinted, row.integers)))


def test_more_of_something_else_is_an_argument_of_its_own() -> None:
    command, key, rest = arguments(["command key [argument ...]"])
    assert (key.type, key.flags) == ("key", ())
    assert (rest.name, rest.type, rest.flags) == ("argument", "string", ("optional", "multiple"))
    (pair,) = arguments(["score member [score member ...]"])
    assert (pair.type, pair.flags) == ("block", ("multiple",))
    assert [each.name for each in pair.arguments] == ["score", "member"]
    assert command.name == "command"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_command_of_ours_takes_a_key_twice(row: Virtual) -> None:
    for each in _told(row):
        assert each.type != "key" or "multiple" not in each.flags


def test_one_of_what_is_in_braces_must_be_there() -> None:
    source, option, count = arguments(["source {EX seconds|PX ms} [COUNT n]"])
    assert (source.name, option.flags, count.flags) == ("source", (), ("optional",))
    assert [each.token for each in option.arguments] == ["EX", "PX"]


def test_of_several_forms_the_first_is_told() -> None:
    assert arguments(["key field [NX]", "key FIELDS n field"]) == arguments(["key field [NX]"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_hint_shows_nothing_twice(row: Virtual) -> None:
    """redis-cli would show the second for ever. What may be repeated is one argument."""
    told = [each for each in _all(arguments(row.hinted, row.integers)) if each.token]
    tokens = [each.token for each in told]
    assert len(tokens) == len({*tokens}), tokens


def test_tokens_and_numbers_are_told_as_such() -> None:
    found = {
        (name, each.token or each.name): each.type
        for name in ("ONEXPIRE", "EXPIREMEMBER", "CL.THROTTLE", "INCREX", "LBADD", "ZADDEX")
        for each in _told(VIRTUALS[name])
    }
    expected = {
        ("ONEXPIRE", "="): "pure-token",
        ("ONEXPIRE", "~"): "pure-token",
        ("EXPIREMEMBER", "MS"): "pure-token",
        ("CL.THROTTLE", "max_burst"): "integer",
        ("CL.THROTTLE", "period"): "integer",
        ("INCREX", "BYINT"): "integer",
        ("INCREX", "BYFLOAT"): "double",
        ("INCREX", "LBOUND"): "double",
        ("LBADD", "score"): "integer",
        ("ZADDEX", "score"): "double",
    }
    assert {each: found[each] for each in expected} == expected
