"""COMMAND and ACL CAT with the virtual commands beside Redis's own: which script call a request
for one of the two becomes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ttlproxy.commands.docs.descriptions import acl_categories, docs, reads, row
from ttlproxy.commands.model.spec import Call, Survey, Virtual
from ttlproxy.core.glob import matching

Args = Sequence[bytes]
Words: TypeAlias = tuple[bytes, ...]


class Catalogue:
    """The virtual commands that one server does not have itself.

    Redis answers a request itself if it would refuse it, or if none of these commands is asked for.
    longer: virtual commands that the server has, but not with so many words, or not in some form
    heard: category -> what the server's ACL CAT says of it, as far as the link has read it
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
        plan = _SUBCOMMANDS.get(args[1].upper()) if len(args) > 1 else Catalogue._rows
        return plan(self, args) if plan else None

    def _rows(self, args: Args) -> Call | None:
        """COMMAND, and COMMAND INFO with or without names."""
        return self._described("command_rows", args, row)

    def _docs(self, args: Args) -> Call | None:
        return self._described("command_docs", args, docs)

    def _described(self, script: str, args: Args, tell: Callable[[Virtual], Any]) -> Call | None:
        """The call with what `tell` says of the commands that are named, or of all."""
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
        """Our names that a filter lets through; none is of a module."""
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
        """ACL CAT of a category."""
        if len(args) != 3 or args[1].upper() != b"CAT":
            return None
        theirs = self._heard.get(args[2].lower())
        if theirs is None:
            return None
        return Call("acl_cat", (), (b" ".join((*theirs, *self._of(args[2]))),))

    def _keys(self, args: Args) -> Words | None:
        """GETKEYS and GETKEYSANDFLAGS: Redis is asked about its own command with the same keys."""
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
        like = (b"HMGET", keys[0], b"x") if reads(virtual) else (b"HSET", keys[0], b"x", b"x")
        return (*args[:2], *like)

    def _asked(self, request: Args) -> Virtual | None:
        """The command of ours that a request is for."""
        name = request[0].lower()
        longer = self._longer.get(name)
        is_only_ours = longer and (longer.only_ours or longer.fits)
        return longer if is_only_ours and is_only_ours(request) else self._virtuals.get(name)


_SUBCOMMANDS: dict[bytes, Callable[[Catalogue, Args], Call | Words | None]] = {
    b"INFO": Catalogue._rows,
    b"DOCS": Catalogue._docs,
    b"COUNT": Catalogue._count,
    b"LIST": Catalogue._list,
    b"GETKEYS": Catalogue._keys,
    b"GETKEYSANDFLAGS": Catalogue._keys,
}
