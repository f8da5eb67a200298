"""The pieces that scripts share say what they need and what they give, and the loader checks it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support import lua_names
from ttlproxy.core.keys import DEFAULT_PREFIX
from ttlproxy.scripts import Scripts, constants
from ttlproxy.scripts.pieces import assembled, said
from ttlproxy.scripts.sources import script_names, source_of

PIECES = {name.removeprefix("lib/"): source_of(name) for name in script_names("lib/")}
FILES = PIECES | {name: source_of(name) for name in script_names()}
# What Redis's Lua has.
LUA = {
    *(
        "ARGV",
        "_G",
        "KEYS",
        "cjson",
        "cmsgpack",
        "error",
        "setmetatable",
        "ipairs",
        "math",
        "pairs",
        "pcall",
        "redis",
        "rawget",
        "string",
    ),
    *("struct", "table", "tonumber", "tostring", "type", "unpack"),
}
# What the loader puts before every script, and its constants.
GIVEN = {"const", "prefix", "class", "events", "field_ttls", "counting", "ruled", "dry_run"}
GIVEN |= {"slot_tag", "home_tag"}


names = cache(lua_names.names)
redis_calls = lua_names.redis_calls


def _included(source: str, needed: bool = False) -> set[str]:
    """The pieces that a file includes, and those that they include; with `needed` also those that
    they need."""
    direct = set(re.findall(r"-- include (\w+)", source))
    if needed:
        direct |= {word[:-4] for word in said(source, "NEEDS") if word.endswith(".lua")}
    return direct.union(*(_included(PIECES[piece], needed) for piece in direct))


def _gives(piece: str) -> set[str]:
    return {*said(PIECES[piece], "GIVES")}


def _given_to(source: str, needed: bool = False) -> set[str]:
    """The names that a file has from these pieces."""
    return set().union(*map(_gives, _included(source, needed)))


@cache
def _free(source: str) -> set[str]:
    """The names that a file takes from others."""
    return names(source).free - LUA - GIVEN


def test_scripts_use_no_name_that_is_not_there() -> None:
    made = Scripts(DEFAULT_PREFIX)
    found = {name: names(script.text.decode()) for name, script in made.items()}
    assert {name: free for name, (_, free, _) in found.items() if free - LUA} == {}
    assert {name: assigned for name, (_, _, assigned) in found.items() if assigned} == {}


def test_no_script_calls_the_command_to_which_redis_6_2_appends_a_word() -> None:
    """It appends KEEPTTL to INCRBYFLOAT, in a list that all calls of scripts share, and does not
    note how long the list then is (src/networking.c, rewriteClientCommandArgument)."""
    assert [name for name, source in FILES.items() if "'INCRBYFLOAT'" in source] == []


def test_pieces_say_exactly_what_they_need() -> None:
    for piece, source in PIECES.items():
        needs = _free(source) - _given_to(source)
        words = {*said(source, "NEEDS")}
        of_pieces = {word: _gives(word[:-4]) & needs for word in words if word.endswith(".lua")}
        assert all(of_pieces.values()), f"{piece}: nothing of a piece that it names is needed"
        assert needs == (words - of_pieces.keys()).union(*of_pieces.values()), piece


def test_pieces_give_what_they_have_and_others_use() -> None:
    for piece, source in PIECES.items():
        elsewhere = set().union(*(_free(other) for name, other in FILES.items() if name != piece))
        assert _gives(piece) <= names(source).declared & elsewhere, piece


def test_scripts_use_no_name_that_a_piece_keeps_to_itself() -> None:
    for name in FILES.keys() - PIECES.keys():
        source = FILES[name]
        for piece in _included(source, needed=True):
            private = names(PIECES[piece]).declared - _gives(piece)
            assert not (_free(source) - _given_to(source, needed=True)) & private, (name, piece)


def test_names_that_python_knows_too_stand_in_no_script() -> None:
    """The loader puts it there: `const.NAME`."""
    texts = {value for value in constants.VALUES.values() if isinstance(value, bytes)}
    numbers = {constants.literal(name) for name in ("DEADLINE_MAX_MS", "UNPACK_MAX")}
    for name, source in FILES.items():
        code = re.sub(r"^ *--.*$", "", source, flags=re.MULTILINE)
        assert not texts & {text.encode() for text in re.findall(r"'([^'\n]*)'", code)}, name
        assert not numbers & {*re.findall(r"\d+", code)}, name
        assert not re.search(r"\bprefix \.\. '", code), name


def test_every_constant_is_used() -> None:
    used = {name for source in FILES.values() for name in re.findall(r"\bconst\.(\w+)", source)}
    assert used == constants.VALUES.keys()


# The files besides lib/index.lua that know the layout of an index or the schedule, and why.
KNOWS_THE_LAYOUT = {
    "dry_run_6_2": "it uses an index as a key that is no hash, set or list",
    "several": "it asks the schedule about the keys of all requests at once, before their script",
    **dict.fromkeys(
        (
            *("fast_clear", "fast_date", "fast_deadline", "fast_reap", "index_stays"),
            *("hash_alter", "list_pop", "list_set", "list_write", "zset_alter"),
        ),
        "a fast path ends before any function is made, which is half of what a script costs",
    ),
}
_OF_THE_LAYOUT = re.compile(r"(\w+_)?(index|schedule)")


def _touches_the_layout(source: str) -> list[str]:
    """The calls of Redis that have an index or the schedule among their arguments."""
    found = []
    for command, *arguments in redis_calls(source):
        names_one = any(map(_OF_THE_LAYOUT.fullmatch, (word for (word,) in _single(arguments))))
        from_keys = command[0].startswith("'Z") and any("KEYS" in words for words in arguments)
        if names_one or from_keys:
            found.append(" ".join(word for words in (command, *arguments) for word in words))
    return found


def _single(arguments: list[list[str]]) -> list[list[str]]:
    """The arguments that are one word: a name, a number or a string."""
    return [words for words in arguments if len(words) == 1]


def test_only_one_piece_knows_the_layout_of_an_index_and_of_the_schedule() -> None:
    touching = {
        name: calls for name, source in FILES.items() if (calls := _touches_the_layout(source))
    }
    assert touching.keys() - {"index"} == KNOWS_THE_LAYOUT.keys(), touching


HELLO = {
    "lib/clock": "-- The time.\n-- GIVES: now\nlocal now = 1\n",
    "lib/late": "-- Is it late?\n-- NEEDS: clock.lua noon\n-- GIVES: is_late\n"
    "local function is_late()\n  return now > noon\nend\n",
}


def _text(*lines: str, given: str = "noon") -> str:
    sources = HELLO | {"tell": "".join(f"{line}\n" for line in lines)}
    return "".join(assembled("tell", {given}, sources.__getitem__))


def test_pieces_stand_in_the_order_of_their_includes() -> None:
    text = _text("-- include clock", "-- include late", "-- include clock", "return is_late()")
    assert text == (
        "local now = 1\nlocal function is_late()\n  return now > noon\nend\nreturn is_late()\n"
    )


def test_a_piece_that_another_one_needs_stands_before_it() -> None:
    text = _text("-- include late", "return is_late()")
    assert text == _text("-- include clock", "-- include late", "return is_late()")


def test_a_piece_before_a_local_that_it_needs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"script tell: noon is missing before lib/late.lua"):
        _text("-- include clock", "-- include late", "local noon = 2", "return is_late()", given="")


def test_a_local_of_the_script_or_of_its_header_is_there() -> None:
    lines = ("-- include clock", "-- include late", "return is_late()")
    assert _text(*lines) in _text("local morning, noon = 1, 2", *lines, given="")


def test_a_constant_becomes_its_value() -> None:
    assert _text("return const.PAGE, const.KEPT") == "return 100, 'kept:'\n"
    with pytest.raises(ValueError, match="scripts have no constant PAGES"):
        _text("return const.PAGES")


def test_a_piece_inside_a_function_stands_once_more_behind_it_if_it_is_needed_there() -> None:
    text = _text("local function f()", "  -- include clock", "end", "-- include late", "is_late(f)")
    assert text.count("local now = 1") == 2


def test_names_that_only_unused_functions_need_may_be_missing() -> None:
    assert _text("-- include late", "return 2", given="") == "local now = 1\nreturn 2\n"
