"""Finds the route of each command: our tables take precedence over the server's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ttlproxy.commands import dialects, proxy_info
from ttlproxy.commands.calls import replacing
from ttlproxy.commands.command_reply import Native
from ttlproxy.commands.features import defer, leaderboards, leases, limiters, onexpire, onwrite
from ttlproxy.commands.introspection import CommandIntrospection
from ttlproxy.commands.route import (
    KEPT_KEY,
    KNOWN_KEY,
    ONE_KEY,
    READ_KEY,
    UNKNOWN,
    Route,
    Stateful,
)
from ttlproxy.commands.spec import REPLACED, Override, Plan, Survey, Virtual
from ttlproxy.commands.types import hashes, keyspace, lists, sets, sorted_sets
from ttlproxy.wire import Table

_TABLES: Final = (hashes, sets, sorted_sets, lists)
VIRTUALS: Final = {
    row.name: row
    for table in (
        *_TABLES,
        onexpire,
        onwrite,
        leases,
        defer,
        leaderboards,
        limiters,
        proxy_info,
        dialects,
    )
    for row in table.VIRTUALS
}
LONGER: Final = {row.name: row for row in dialects.LONGER}
OVERRIDES: Final = {row.name: row for table in (*_TABLES, keyspace) for row in table.OVERRIDES}
IN_A_CLUSTER: Final = {row.name: row for row in keyspace.IN_A_CLUSTER}
# The overridden commands, except for those that replace whole keys.
SCRIPTED: Final = OVERRIDES.keys() - {row.name for row in keyspace.REPLACING}
SURVEYS: Final = {row.name: row for row in (*keyspace.SURVEYS, *proxy_info.SURVEYS)}

HARMLESS: Final = frozenset(hashes.HARMLESS)

# Commands that change what later requests mean.
STATEFUL: Final = {
    "ACL": Stateful(-2),
    "MULTI": Stateful(1),
    "EXEC": Stateful(1, always_ends_transaction=True),
    "DISCARD": Stateful(1),
    "SELECT": Stateful(2),
    "SWAPDB": Stateful(3),
    "FLUSHDB": Stateful(-1),
    "FLUSHALL": Stateful(-1),
    "WATCH": Stateful(-2),
    "RESET": Stateful(1, before_login=True),
    "CLIENT": Stateful(-2),
    "CONFIG": Stateful(-2),
    "SCRIPT": Stateful(-2),
    "QUIT": Stateful(-1, before_login=True),
    "SUBSCRIBE": Stateful(-2),
    "PSUBSCRIBE": Stateful(-2),
    "SSUBSCRIBE": Stateful(-2),
    "UNSUBSCRIBE": Stateful(-1),
    "PUNSUBSCRIBE": Stateful(-1),
    "SUNSUBSCRIBE": Stateful(-1),
    "MONITOR": Stateful(1),
    "REPLCONF": Stateful(-1),
    "PSYNC": Stateful(-3),
    "SYNC": Stateful(1),
    "AUTH": Stateful(-2, before_login=True, logs_in=True),
    "HELLO": Stateful(-1, before_login=True, logs_in=True),
}
# Redis tells which commands block from 7.0 on. WAIT and WAITAOF block the client, too.
BLOCKING: Final = frozenset(
    [
        "BLPOP",
        "BRPOP",
        "BRPOPLPUSH",
        "BLMOVE",
        "BLMPOP",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "XREAD",
        "XREADGROUP",
        "WAIT",
        "WAITAOF",
    ]
)


class Tables(NamedTuple):
    """Key kinds by name, for whole chunks: of all commands in `passthrough`, and of those that may
    go over a connection to Redis that clients share."""

    all: Table
    shareable: Table


class Router:
    """The routes of the commands of one server.

    passthrough: name -> key kind, for the commands of which only the keys must be checked; each
    name in upper and in lower case, which is how clients send it
    direct, setters: name -> route, for the writes, and for our own commands that set deadlines,
    that have a fast path
    shareable: the names of commands that may go over a connection to Redis that clients share, in
    upper and in lower case
    plain, known: tables for whole chunks; the second is for when keys are checked
    categories: the ACL categories that our commands are in
    """

    __slots__ = (
        "_routes",
        "categories",
        "direct",
        "known",
        "passthrough",
        "plain",
        "setters",
        "shareable",
    )

    def __init__(
        self,
        natives: Iterable[Native] = (),
        heard: Mapping[bytes, Sequence[bytes]] = MappingProxyType({}),
        forms: Mapping[str, Plan] = MappingProxyType({}),
        clustered: bool = False,
    ) -> None:
        """natives: the rows of the server's COMMAND reply; heard: what its ACL CAT lists, by
        category; forms: plans for commands that the server has itself, but not in Redis 8's way;
        clustered: whether it is a node of a Cluster"""
        self._routes: dict[bytes, Route] = {}
        self.passthrough: dict[bytes, int] = {}
        self.direct: dict[bytes, Route] = {}
        self.setters: dict[bytes, Route] = {}
        self.shareable: set[bytes] = set()
        table = {native.name: native for native in natives}
        ours = [row for name, row in VIRTUALS.items() if name not in table]
        longer = [row for name, row in LONGER.items() if name in table and table[name].arity > 0]
        in_part = [row for name, row in VIRTUALS.items() if name in table and row.only_ours]
        introspection = CommandIntrospection(ours, (*longer, *in_part), heard)
        self.categories = introspection.categories
        of_server = (
            *introspection.surveys,
            *(proxy_info.CLUSTER_SURVEYS if clustered else ()),
        )
        all_surveys = {**SURVEYS, **{survey.name: survey for survey in of_server}}
        overrides = OVERRIDES | IN_A_CLUSTER if clustered else OVERRIDES
        for native in table.values():
            name = native.name
            self._add(_over(native, all_surveys.get(name), forms.get(name), overrides.get(name)))
        # A script cannot call what the server lacks. If the server tells nothing, it may have all
        # commands.
        scripted = () if table else overrides
        for name in {*VIRTUALS, *LONGER, *scripted, *STATEFUL, *BLOCKING} - table.keys():
            self._add(_ours(name, overrides.get(name)))
        kinds = self.passthrough.items()
        self.plain = self._tables(self.passthrough)
        looked_up = {READ_KEY: KNOWN_KEY, KEPT_KEY: ONE_KEY}
        self.known = self._tables({name: looked_up.get(kind, kind) for name, kind in kinds})

    def find(self, word: bytes) -> Route:
        """Returns the route of a command by its name, in any case; UNKNOWN if there is none."""
        return self._routes.get(word) or self._routes.get(word.upper(), UNKNOWN)

    def _tables(self, kinds: Mapping[bytes, int]) -> Tables:
        shareable = {name: kind for name, kind in kinds.items() if name in self.shareable}
        return Tables(Table(kinds), Table(shareable))

    def _add(self, route: Route) -> None:
        for name in (route.name.encode(), route.name.lower().encode()):
            self._routes[name] = route
            if route.is_shareable:
                self.shareable.add(name)
            override = route.override
            scripted = override is not None and override.may_run_unmanaged
            ours = route.virtual or route.longer or scripted
            if route.virtual and route.virtual.sets_own_key and not route.stateful:
                self.setters[name] = route
            if not (ours or route.stateful or route.blocks or route.survey):
                self.passthrough[name] = route.key_kind
                if override is not None and override.direct:
                    self.direct[name] = route


def _ours(name: str, override: Override | None) -> Route:
    """Returns the route of a command that the server did not name."""
    virtual, stateful = VIRTUALS.get(name), STATEFUL.get(name)
    return Route(
        name,
        positions=virtual.positions if virtual else None,
        arity=stateful.arity if stateful else -1,
        stateful=stateful,
        blocks=name in BLOCKING,
        virtual=virtual,
        override=override,
        longer=LONGER.get(name),
    )


def _over(native: Native, survey: Survey | None, form: Plan | None, own: Override | None) -> Route:
    """Returns the route of a command that the server has."""
    name = native.name
    virtual = VIRTUALS.get(name)
    if virtual and form:
        virtual = replace(virtual, plan=form)
    override = _overriding(virtual) if virtual else own
    arity = native.arity
    if virtual and arity < 0:
        arity = max(arity, -virtual.min_words)  # our forms may be shorter
    return Route(
        name,
        positions=native.positions,
        subcommands={word: each.positions for word, each in native.subcommands.items()},
        arity=arity,
        sweeps=name not in HARMLESS and "readonly" not in native.flags,
        blocks=name in BLOCKING or "blocking" in native.flags,
        stateful=STATEFUL.get(name),
        override=override or _replacing(native),
        survey=survey,
        longer=LONGER.get(name) if native.arity > 0 else None,
        denies_oom="denyoom" in native.flags,
    )


def _replacing(native: Native) -> Override | None:
    """Returns the safe override for a command not in our tables: keys that it replaces lose their
    index."""
    positions = native.positions or ()
    if "noscript" not in native.flags and any(spec.access == REPLACED for spec in positions):
        return replacing(native.name, positions)
    return None


def _overriding(virtual: Virtual) -> Override:
    """Returns our form of a command that the server has: for managed keys, and `only_ours`
    requests."""

    def first(args: Sequence[bytes]) -> Sequence[bytes]:
        return args[1:2]

    targets = first if virtual.sets_deadlines else lambda args: ()
    return Override(
        name=virtual.name,
        plan=virtual.call,
        keys=first,
        targets=targets,
        always=virtual.only_ours,
        takes=virtual.fits,
        is_native=virtual.sets_deadlines,
    )
