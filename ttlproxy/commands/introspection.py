"""COMMAND and ACL CAT with Redis's commands and the virtual ones: the script call that a request
for one of the two becomes, and what it says of each command.

A script gets rows and documentation as JSON and puts them into Redis's reply. In the JSON, `{"ok":
...}` is a status; `{"set": [...]}` and `{"map": [[key, value], ...]}` become arrays under RESP2.

The forms of a command, as text, become the tree of arguments that COMMAND DOCS shows. `key [NX|XX]
FIELDS numfields field [field ...]` is read as `redis-cli help` writes it: words in capitals and
signs are tokens, brackets are options, bars are between alternatives, of which one is needed if
braces are around them. `[x ...]` repeats the x before it, or means any number of x if there is
none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ttlproxy.commands.spec import READ, Call, KeySpec, Survey, Virtual
from ttlproxy.core.glob import matching

_WORD = re.compile(r"[\[\]{}|]|[^\s\[\]{}|]+")
_ENDS = ("|", "]", "}")
_TYPES = {
    "key": "key",
    "source": "key",
    "destination": "key",
    "pattern": "pattern",
    "score": "double",
    "lowerbound": "double",
    "upperbound": "double",
    "unix-time-seconds": "unix-time",
    "unix-time-milliseconds": "unix-time",
}
_INTEGER = re.compile(
    r"n|num\w+|maxlen|count|offset|start|stop|delta|(milli)?seconds|delay|max_burst|period|quantity"
)
# The type by the token before the argument, if its name does not show it.
_TYPED = {"BYINT": "integer", "BYFLOAT": "double"}
_MORE = "..."


@dataclass(frozen=True)
class Argument:
    """An argument as in COMMAND DOCS; `type`: a plain one, or pure-token, block or oneof."""

    name: str
    type: str
    token: str = ""
    flags: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()


def arguments(forms: Sequence[str], integers: Collection[str] = ()) -> tuple[Argument, ...]:
    """Returns the arguments of a command, as its first form has them.

    redis-cli would take what is typed for the first of several forms, and never stop showing the
    others. `integers`: names of arguments that are integers in this command.
    """
    return _Form(forms[0], integers).sequence()


class _Form:
    """Reads one form from left to right."""

    def __init__(self, text: str, integers: Collection[str]) -> None:
        self._words = _WORD.findall(text)[::-1]
        self._integers = integers

    def sequence(self) -> tuple[Argument, ...]:
        """Returns the arguments before the next bar, closing bracket or end."""
        found: list[Argument] = []
        while self._words and self._words[-1] not in _ENDS:
            word = self._words.pop()
            if word == "[":
                self._bracket(found)
            elif word == "{":
                found.append(_one_of(self._alternatives(), "form"))
            elif _is_token(word):
                found.append(self._behind(word))
            else:
                found.append(self._plain(word))
        return tuple(found)

    def _bracket(self, found: list[Argument]) -> None:
        """Adds an option to `found`, or marks the arguments before it as repeated."""
        alternatives = self._alternatives()
        *_, last = alternatives[-1]
        if last.name == _MORE:
            named = alternatives[-1][:-1]
            if tuple(found[-len(named) :]) == named:
                found[-len(named) :] = [replace(_together(named), flags=("multiple",))]
            else:
                found.append(replace(_together(named), flags=("optional", "multiple")))
            return
        option = _one_of(alternatives, "option")
        found.append(replace(option, flags=("optional", *option.flags)))

    def _alternatives(self) -> list[tuple[Argument, ...]]:
        """Returns the alternatives between bars, up to the end of the bracket."""
        found = [self.sequence()]
        while self._words.pop() == "|":
            found.append(self.sequence())
        return found

    def _behind(self, token: str) -> Argument:
        """Returns a token with its arguments: all that follow, up to another token."""
        own: list[Argument] = []
        while self._words and self._words[-1] not in _ENDS and not _is_token(self._words[-1]):
            word = self._words.pop()
            if word == "[":
                self._bracket(own)
            else:
                own.append(self._plain(word))
        if not own:
            return Argument(token.lower(), "pure-token", token)
        if len(own) == 1 and not own[0].token:
            return replace(own[0], token=token, type=_TYPED.get(token, own[0].type))
        return Argument(token.lower(), "block", token, arguments=tuple(own))

    def _plain(self, word: str) -> Argument:
        if word in self._integers or _INTEGER.fullmatch(word):
            return Argument(word, "integer")
        return Argument(word, _TYPES.get(word, "string"))


def _is_token(word: str) -> bool:
    """Whether it is a word in capitals, or a sign of XADD's MAXLEN."""
    return word.isupper() or word in ("=", "~")


def _together(sequence: tuple[Argument, ...]) -> Argument:
    """Returns several arguments as one."""
    if len(sequence) == 1:
        return sequence[0]
    return Argument("_".join(each.name for each in sequence), "block", arguments=sequence)


def _one_of(alternatives: Sequence[tuple[Argument, ...]], name: str) -> Argument:
    choices = tuple(_together(each) for each in alternatives)
    return choices[0] if len(choices) == 1 else Argument(name, "oneof", arguments=choices)


_CATEGORIES = {"sorted-set": "sortedset", "generic": "keyspace", "server": "connection"}


def acl_categories(virtual: Virtual) -> list[str]:
    """Returns the ACL categories of the command, each with its `@`."""
    kind = _CATEGORIES.get(virtual.group, virtual.group)
    return ["@read" if virtual.reads else "@write", f"@{kind}", "@slow"]


def _statuses(words: Iterable[str]) -> dict[str, Any]:
    return {"set": [{"ok": word} for word in words]}


def _map(**entries: Any) -> dict[str, Any]:
    return {"map": list(entries.items())}


def row(virtual: Virtual) -> list[Any]:
    """Returns its row as in Redis 7; for a 6.2 server the script takes the first seven columns."""
    flags = ["readonly"] if virtual.reads else ["write"]
    specs = virtual.positions
    if virtual.denies_oom:
        flags.append("denyoom")
    if any(spec.keyword for spec in specs):
        flags.append("movablekeys")
    exact = len(virtual.forms) == 1 and "[" not in virtual.forms[0]
    places = [0 if spec.keyword else spec.index for spec in specs] or [0]
    return [
        virtual.name.lower(),
        virtual.min_words if exact else -virtual.min_words,
        _statuses(flags),
        *(places[0], max(places), int(places[0] > 0)),
        _statuses(acl_categories(virtual)),
        {"set": []},
        {"set": [_key_spec(spec) for spec in specs]},
        {"set": []},
    ]


def _key_spec(spec: KeySpec) -> dict[str, Any]:
    if spec.keyword:
        begin = _map(type="keyword", spec=_map(keyword=spec.keyword.decode(), startfrom=spec.index))
    else:
        begin = _map(type="index", spec=_map(index=spec.index))
    return _map(
        flags=_statuses(("RO", "access") if spec.access == READ else ("RW", "update")),
        begin_search=begin,
        find_keys=_map(type="range", spec=_map(lastkey=0, keystep=1, limit=0)),
    )


def docs(virtual: Virtual) -> dict[str, Any]:
    """Returns its entry of COMMAND DOCS."""
    return _map(
        summary=virtual.summary,
        since=virtual.since,
        group=virtual.group,
        complexity=virtual.complexity,
        arguments=[_argument(argument) for argument in arguments(virtual.hinted, virtual.integers)],
    )


def _argument(argument: Argument) -> dict[str, Any]:
    entries: dict[str, Any] = {"name": argument.name, "type": argument.type}
    if argument.type == "key":
        entries["key_spec_index"] = int(argument.name == "destination")
    if argument.token:
        entries["token"] = argument.token
    if argument.flags:
        entries["flags"] = _statuses(argument.flags)
    if argument.arguments:
        entries["arguments"] = [_argument(each) for each in argument.arguments]
    return _map(**entries)


Args = Sequence[bytes]
Words: TypeAlias = tuple[bytes, ...]


class CommandIntrospection:
    """The answers to COMMAND and ACL CAT about the virtual commands that one server does not have.

    Redis answers a request itself if it would refuse it, or if none of these commands is asked for.
    longer: virtual commands that the server has too, but not with as many words, or not in each
    form
    heard: category -> what the server's ACL CAT lists, if the link has read it
    """

    def __init__(
        self,
        virtuals: Iterable[Virtual],
        longer: Iterable[Virtual],
        heard: Mapping[bytes, Sequence[bytes]],
    ) -> None:
        self._virtuals = {virtual.name.lower().encode(): virtual for virtual in virtuals}
        self._longer = {virtual.name.lower().encode(): virtual for virtual in longer}
        self._heard = heard

    @property
    def surveys(self) -> tuple[Survey, ...]:
        return (
            Survey(name="COMMAND", plan=self._plan),
            Survey(name="ACL", plan=self._plan_cat, heard=True),
        )

    @property
    def categories(self) -> list[bytes]:
        """The ACL categories that these commands are in."""
        found = {name for each in self._virtuals.values() for name in acl_categories(each)}
        return sorted(name.removeprefix("@").encode() for name in found)

    def _plan(self, args: Args) -> Call | Words | None:
        plan = _SUBCOMMANDS.get(args[1].upper()) if len(args) > 1 else CommandIntrospection._rows
        return plan(self, args) if plan else None

    def _rows(self, args: Args) -> Call | None:
        """Plans COMMAND, and COMMAND INFO with or without names."""
        return self._described("command_rows", args, row)

    def _docs(self, args: Args) -> Call | None:
        return self._described("command_docs", args, docs)

    def _described(self, script: str, args: Args, tell: Callable[[Virtual], Any]) -> Call | None:
        """Returns the call with what `tell` says of the commands that are named, or of all."""
        names = [name.lower() for name in args[2:]] or list(self._virtuals)
        described = {name.decode(): tell(self._virtuals[name]) for name in names if self._has(name)}
        if not described:
            return None
        return Call(script, (), (json.dumps(described).encode(), *args[1:]))

    def _has(self, name: bytes) -> bool:
        return name in self._virtuals

    def _count(self, args: Args) -> Call | None:
        return Call("command_count", (), (b"%d" % len(self._virtuals),)) if len(args) == 2 else None

    def _list(self, args: Args) -> Call | None:
        if len(args) == 2:
            found = list(self._virtuals)
        elif len(args) == 5 and args[2].upper() == b"FILTERBY":
            found = self._filtered(args[3].upper(), args[4])
        else:
            return None
        return Call("command_list", (), (b" ".join(found), *args[2:])) if found else None

    def _filtered(self, by: bytes, value: bytes) -> list[bytes]:
        """Returns our names that a filter lets through; none is of a module."""
        if by == b"ACLCAT":
            return self._of(value)
        if by == b"PATTERN":
            pattern = matching(value, in_any_case=True)
            return [name for name in self._virtuals if pattern.fullmatch(name)]
        return []

    def _of(self, category: bytes) -> list[bytes]:
        word = "@" + category.decode(errors="replace").lower()
        return [name for name, each in self._virtuals.items() if word in acl_categories(each)]

    def _plan_cat(self, args: Args) -> Call | None:
        """Plans ACL CAT of a category."""
        if len(args) != 3 or args[1].upper() != b"CAT":
            return None
        theirs = self._heard.get(args[2].lower())
        if theirs is None:
            return None
        return Call("acl_cat", (), (b" ".join((*theirs, *self._of(args[2]))),))

    def _keys(self, args: Args) -> Words | None:
        """Plans GETKEYS and GETKEYSANDFLAGS: Redis is asked about its own command with the same
        keys."""
        request = args[2:]
        virtual = self._asked(request) if request else None
        if virtual is None:
            return None
        if not virtual.fits(request):
            return (*args[:2], b"HSET", *request[1:2])
        keys = [key for spec in virtual.positions for key in spec.words(request)]
        if not keys:
            return (*args[:2], b"PING", b"x")
        if len(keys) > 1:
            return (*args[:2], b"LMOVE", *keys, b"LEFT", b"LEFT")
        like = (b"HMGET", keys[0], b"x") if virtual.reads else (b"HSET", keys[0], b"x", b"x")
        return (*args[:2], *like)

    def _asked(self, request: Args) -> Virtual | None:
        """Returns the command of ours that a request is for."""
        name = request[0].lower()
        longer = self._longer.get(name)
        is_only_ours = longer and (longer.only_ours or longer.fits)
        return longer if is_only_ours and is_only_ours(request) else self._virtuals.get(name)


_SUBCOMMANDS: dict[bytes, Callable[[CommandIntrospection, Args], Call | Words | None]] = {
    b"INFO": CommandIntrospection._rows,
    b"DOCS": CommandIntrospection._docs,
    b"COUNT": CommandIntrospection._count,
    b"LIST": CommandIntrospection._list,
    b"GETKEYS": CommandIntrospection._keys,
    b"GETKEYSANDFLAGS": CommandIntrospection._keys,
}
