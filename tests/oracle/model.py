"""An independent oracle: databases, a clock that is passed in, and the reply to each command.

Follows docs/semantics.md alone; it must never import ttlproxy. Replies have RESP2's form, simple
strings as bytes. Holds no clock, no socket and no connection to what it judges.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from tests.oracle.data import OK, Call, Database, Error, Reply, Row, integer, wrong_number
from tests.oracle.dialects import DIALECTS
from tests.oracle.native import NATIVE
from tests.oracle.virtual import VIRTUAL


def _eval(call: Call) -> Reply:
    """EVAL script 1 key command ...: the script only runs the command on the key."""
    key, name, *rest = call.words[3:]
    said = name.decode().lower()
    return COMMANDS[said].run(replace(call, name=said, words=[name, key, *rest]))


COMMANDS: dict[str, Row] = NATIVE | VIRTUAL | DIALECTS | {"eval": Row(_eval, -3)}


class Model:
    """The databases of one server. `version` decides whether EXPIRE takes conditions (7.0)."""

    def __init__(self, version: tuple[int, int] = (7, 0), databases: int = 2) -> None:
        self.version = version
        self.databases: list[Database] = [{} for _ in range(databases)]

    def run(
        self,
        db: int,
        args: list[bytes],
        now_ms: int,
        *,
        reaped_ms: int | None = None,
        seen: Reply = None,
    ) -> Reply:
        """Runs `args` in database `db` at `now_ms`. Its keys were reaped at `reaped_ms`, by default
        now.

        `seen` is the server's reply: it tells what SPOP took.
        """
        name = args[0].decode().lower()
        row = COMMANDS[name]
        if not row.accepts(len(args)):
            return wrong_number(name)
        reaped_ms = now_ms if reaped_ms is None else reaped_ms
        return row.run(Call(name, args, self.databases, db, now_ms, reaped_ms, seen, self.version))

    def copy(self) -> Model:
        twin = Model(self.version, 0)
        twin.databases = [dict(each) for each in self.databases]
        return twin

    def frozen(self) -> Hashable:
        """Equal for models whose future replies are all equal."""
        return tuple(
            frozenset((key, value.frozen()) for key, value in database.items())
            for database in self.databases
        )

    def as_of(self, now_ms: int) -> Model:
        """The content of a server that has expired everything due at `now_ms`."""
        left = Model(self.version, 0)
        left.databases = [
            {k: live for k, v in each.items() if (live := v.as_of(now_ms)) is not None}
            for each in self.databases
        ]
        return left


class Step(NamedTuple):
    """One command for the model to run, in its database."""

    db: int
    args: list[bytes]


class Plan(NamedTuple):
    """What a request means: a reply that depends on no key, or steps; EXEC's reply is an array.

    `watched`: EXEC may run nothing and reply nil, because a watched key may have changed.
    """

    reply: Reply = None
    steps: tuple[Step, ...] = ()
    is_exec: bool = False
    watched: bool = False


class Session:
    """What one connection remembers: its database and its transaction. Holds no data.

    nesting_aborts: a refused MULTI inside MULTI makes EXEC abort, as in Valkey
    """

    def __init__(self, db: int = 0, *, nesting_aborts: bool = False) -> None:
        self.db = db
        self.nesting_aborts = nesting_aborts
        self.queued: list[list[bytes]] | None = None
        self.refused = False
        self.watching = False

    def plan(self, args: list[bytes]) -> Plan:
        name = args[0].decode().lower()
        if name == "multi":
            return self._multi()
        if name in {"exec", "discard"}:
            return self._end(name)
        if self.queued is not None:
            return self._queue(name, args)
        if name == "watch":
            self.watching = True
            return Plan(OK)
        return self._select(args) if name == "select" else Plan(steps=(Step(self.db, args),))

    def run(self, model: Model, args: list[bytes], now_ms: int) -> Reply:
        """Runs the whole request at one instant."""
        plan = self.plan(args)
        replies = [
            OK if step.args[0].lower() == b"select" else model.run(step.db, step.args, now_ms)
            for step in plan.steps
        ]
        if plan.is_exec:
            return list(replies)
        return replies[0] if replies else plan.reply

    def _select(self, args: list[bytes]) -> Plan:
        if len(args) != 2:
            return Plan(wrong_number("select"))
        self.db = integer(args[1]) or 0
        return Plan(OK)

    def _multi(self) -> Plan:
        if self.queued is not None:
            self.refused = self.refused or self.nesting_aborts
            return Plan(Error("ERR MULTI calls can not be nested"))
        self.queued, self.refused = [], False
        return Plan(OK)

    def _queue(self, name: str, args: list[bytes]) -> Plan:
        arity_ok = len(args) == 2 if name == "select" else COMMANDS[name].accepts(len(args))
        if not arity_ok:
            self.refused = True
            return Plan(wrong_number(name))
        assert self.queued is not None
        self.queued.append(args)
        return Plan(b"QUEUED")

    def _end(self, name: str) -> Plan:
        if self.queued is None:
            return Plan(Error(f"ERR {name.upper()} without MULTI"))
        queued, self.queued = self.queued, None
        watched, self.watching = self.watching, False
        if name == "discard":
            return Plan(OK)
        if self.refused:
            return Plan(Error("EXECABORT Transaction discarded because of previous errors."))
        steps: list[Step] = []
        for args in queued:
            steps.append(Step(self.db, args))
            if args[0].lower() == b"select":
                self.db = integer(args[1]) or 0
        return Plan(steps=tuple(steps), is_exec=True, watched=watched)
