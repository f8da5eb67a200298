"""The fast path of chunks with plain writes on managed keys, and with our own commands.

It has the same effects as the general path, `Session._with_care`, or declines:
tests/core/test_direct_calls.py compares the two. Consecutive requests that need the same script
become one call. If it is unknown whether something is due, the whole chunk has to become one call,
which ends before a key with something due (scripts/lib/several.lua).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ttlproxy.core.write_rules import NOTHING_BUT_KEEPS
from ttlproxy.scripts.direct_calls import MOST_TOGETHER, DirectCalls, ScriptPart
from ttlproxy.session.passing import LONG, Passing
from ttlproxy.session.replies import OneReply, Stopping, Told
from ttlproxy.session.sharing import LARGEST
from ttlproxy.session.state import SessionState
from ttlproxy.wire import Part, Template, cut, encode, script_call

# A longer chunk may have to wait before it is sent.
_LONGEST_STOPPING: Final = 1 << 15
# A longer chunk may keep Redis busy for too long.
_LONGEST_OF_CALLS: Final = 1 << 16


class _Rewritten(NamedTuple):
    """A chunk in the form that goes to Redis.

    requests: how many requests Redis gets; calls: for each call its script, the number of requests
    for Redis before it, and the number of the client's requests in it; writes: how many of the
    client's requests are native writes that have become script calls; setters: how many set
    deadlines; stops: whether the chunk is one call, which ends before a request with a key in which
    something is due; by_rule: how many of the writes get their deadlines by rules of ONWRITE
    """

    to_redis: bytes
    requests: int
    calls: Sequence[tuple[str, int, int]]
    writes: int
    setters: int
    stops: bool
    by_rule: int = 0


Sent: TypeAlias = tuple[bytes, int, Sequence[Told]]
"""What goes to Redis of a chunk that needs no step: the bytes, how many requests these are, and
those whose replies change the state."""


class FastPath(Passing):
    """Turns chunks into script calls without looking at each request by itself."""

    __slots__ = ()

    @property
    def _is_uncounted(self) -> bool:
        """Whether what goes to Redis from this chunk on may have no reply, or several."""
        return self.uncounted or (self._requests.relay and not self._requests.refused)

    def _on_fast_path(self, commands: list[list[bytes]], data: bytes) -> bytes | None:
        """Returns the bytes for Redis of a chunk that does not pass; None if it needs the general
        path."""
        if self._names_hidden or len(data) > min(LONG * len(commands), self._limit):
            return None
        direct = self.script_calls.direct
        if not direct.update(self._router) or not _is_open(self):
            return None
        together = self.skips_replies and not self._is_uncounted
        may_stop = self._may_stop(data) and together
        found = self._remembered(data, together, may_stop=may_stop) or _rewritten(
            self,
            direct,
            commands,
            data,
            self._now_ms(),
            lambda args: self._pass_through((args,)),
            together,
            may_stop,
        )
        if found is None:
            return None
        if found.writes or found.setters:
            self.changes()
            self.step.told += self._count(found, len(commands))
            if found.stops:
                ((script, _, _),), (told,) = found.calls, self.step.told
                assert isinstance(told.tell, OneReply)
                self.step.stopping = Stopping(script, found.by_rule > 0, commands, told.tell)
        else:
            self._counts.forwarded += len(commands)
        self.step.requests += found.requests
        return found.to_redis

    def _remembered(
        self, data: bytes, together: bool, *, may_stop: bool = False, shareable: bool = False
    ) -> _Rewritten | None:
        """Does what `_rewritten` does, for requests whose form is known from earlier ones. Returns
        None for others, and for writes that a rule of ONWRITE may match. `shareable`: requests that
        become no call must be allowed on a connection that clients share."""
        registry, calls = self.registry, self.script_calls
        rules, direct = registry.rules, calls.direct
        if rules.in_doubt:
            return None
        made = self._table(shareable=shareable).calls(
            data,
            direct.heads(self.database),
            self._hidden_names,
            registry.bounds,
            rules.first_bytes,
            rules.literal_prefixes,
            registry.families.prefixes,
            calls.families.sure if calls.has_state else (),
            rules.own_prefixes,
            direct.names,
            registry.until_ms,
            self._now_ms(),
            MOST_TOGETHER if together else 1,
            may_stop,
        )
        return None if made is None else _Rewritten(*made)

    def _count(self, found: _Rewritten, requests: int) -> list[Told]:
        """Counts the commands of a chunk of `requests` requests; returns the calls that stand for
        several."""
        if found.setters or found.by_rule:
            self.registry.manages((self.db,))
        told, script_calls = [], self.script_calls.counts
        for script, before, several in found.calls:
            script_calls[script] += several
            if several > 1 or found.stops:
                told.append(Told(before, OneReply(several, stops=found.stops)))
        counts = self._counts
        counts.rewritten += found.writes
        counts.by_rule += found.by_rule
        counts.virtual += found.setters
        counts.forwarded += requests - found.writes - found.setters
        return told

    def at_once(self, data: bytes, *, shareable: bool = False) -> Sent | None:
        """Returns what goes to Redis of a chunk that needs no step, given all announcements; None
        for other chunks. `shareable`: the chunk goes over a connection that clients share, and it
        must be certain from the form of its requests."""
        if self._must_parse or (shareable and len(data) > LARGEST):
            return None
        if count := self._plainly(data, shareable=shareable):
            self._counts.forwarded += count
            return data, count, ()
        if (sent := self._calls(data, shareable=shareable)) is not None or shareable:
            return sent
        requests, end = cut(data)
        passes = end == len(data) and self.passes_read(data, requests)
        return (data, len(requests), ()) if passes else None

    def _calls(self, data: bytes, *, shareable: bool) -> Sent | None:
        """Returns the calls that a chunk becomes. Returns None if the form of a request is not
        known from earlier ones, or something is due in a key."""
        if len(data) > min(_LONGEST_OF_CALLS, self._limit) or self._hidden in data:
            return None
        if not (self.script_calls.direct.update(self._router) and _is_open(self)):
            return None
        found = self._remembered(data, not self.uncounted, shareable=shareable)
        if found is None:
            return None
        plain = found.requests - len(found.calls)
        told = self._count(found, plain + found.writes + found.setters)
        return found.to_redis, found.requests, told

    def _may_stop(self, data: bytes) -> bool:
        """Whether the chunk may become a call that ends early, so that its rest is given again."""
        return self.may_stop and self.rights.trusts_schedules and len(data) < _LONGEST_STOPPING

    def stopped(self, stopping: Stopping) -> bytes:
        """Returns the requests that a call which ended early has not carried out."""
        left = stopping.requests[stopping.reply.carried_out :]
        if left:
            setters, counts = self.script_calls.direct.setters, self._counts
            ours = sum(args[0] in setters for args in left)
            counts.virtual -= ours
            counts.rewritten -= len(left) - ours
            counts.by_rule -= (len(left) - ours) * stopping.by_rule
            self.script_calls.counts[stopping.script] -= len(left)
        return b"".join([encode(tuple(args)) for args in left])


def _is_open(state: SessionState) -> bool:
    """Whether a request may need no more than a call of its script by SHA. That is not so if the
    client is silent: its requests may meet deadlines that are set after they were read."""
    return not (state.flushed or state.silent) and state.rights.have_all(state.users)


def _rewritten(
    state: SessionState,
    direct: DirectCalls,
    commands: Iterable[list[bytes]],
    data: bytes,
    now_ms: int,
    passes: Callable[[list[bytes]], bool],
    together: bool,
    may_stop: bool,
) -> _Rewritten | None:
    """Returns the chunk as it goes to Redis. Each request must set deadlines of a key, or be a
    write on a managed key with nothing due in it, or `passes`; else the result is None. `together`:
    several requests may become one call; `may_stop`: that call may end early, if it is the whole
    chunk."""
    names, calls, rules = state.registry.names, direct.writes, state.registry.rules
    has_rules = bool(rules)
    known = getattr(names, "managed", names)  # excludes keys that only match a rule of ONWRITE
    may_set_deadline, database = state.may_set_deadline, state.database
    setters = direct.setters
    managed: dict[bytes, None] = {}  # those that requests of this chunk make managed
    out = _Out(direct.names.schedule)
    most = MOST_TOGETHER if together else 1
    at = writes = by_rule = set_ = 0
    became: ScriptPart | None
    try:
        for args in commands:
            sent, key = encode(tuple(args)), args[1]
            if not data.startswith(sent, at):
                return None
            at += len(sent)
            setter, call = setters.get(args[0]), calls.get(args[0])
            if setter is not None:
                if names.get(key, now_ms) < now_ms:
                    out.stops = True
                if not may_set_deadline(key):
                    return None
                became = setter.part(args, database)
                if became is None:
                    return None
                direct.remember(database, args, became, setter)
                managed[key] = None
                set_ += 1
            elif call is not None and (
                (bound := names.get(key, None)) is not None or key in managed
            ):
                if bound is not None and bound < now_ms:
                    out.stops = True
                if not call.fits(len(args)) or not call.takes(args):
                    return None
                is_known = not has_rules or key in managed or key in known
                how = call.how(rules, state.databases, key) if has_rules else None
                if how is not None:
                    if not may_set_deadline(key):
                        return None
                    if how == NOTHING_BUT_KEEPS and not is_known:
                        return None
                    managed[key] = None
                    became = call.ruled(args, sent, database, how)
                    by_rule += 1
                elif is_known:
                    became = call.plain(args, sent)
                    direct.remember(database, args, became)
                else:
                    return None  # a key that only matches a rule needs no script
                writes += 1
            elif (managed and key in managed) or not passes(args):
                return None
            else:
                out.add(sent)
                continue
            if not out.has_room(became.template, most):
                out.begin(became.template)
            if out.stops and (out.requests or not may_stop):
                return None
            out.parts.append(became.part)
    except IndexError:
        return None  # no key
    to_redis, stops = out.joined(), out.stops
    if stops and out.requests > 1:
        return None
    return _Rewritten(to_redis, out.requests, out.calls, writes, set_, stops, by_rule)


class _Out:
    """Gathers what goes to Redis.

    parts: the requests in the call that is being made; stops: whether that call may end early
    """

    __slots__ = ("_pieces", "_schedule", "_template", "calls", "parts", "requests", "stops")

    def __init__(self, schedule: bytes) -> None:
        self._schedule = schedule  # as a bulk string
        self._pieces: list[bytes] = []
        self._template: Template | None = None  # of the call that is being made
        self.parts: list[Part] = []
        self.calls: list[tuple[str, int, int]] = []
        self.requests = 0
        self.stops = False

    def has_room(self, template: Template, most: int) -> bool:
        """Whether the call that is being made uses this template and has room for one request
        more."""
        mine = self._template
        return mine is not None and mine[1] == template[1] and len(self.parts) < most

    def begin(self, template: Template | None) -> None:
        """Ends the call that is being made and begins one with `template`; None begins none."""
        if self._template is not None:
            script, sha, *_ = self._template
            self._pieces.append(script_call(sha, self.parts, self._schedule, self.stops))
            self.calls.append((script, self.requests, len(self.parts)))
            self.requests += 1
            self.parts = []
        self._template = template

    def add(self, sent: bytes) -> None:
        """Adds a request as it came."""
        self.begin(None)
        self._pieces.append(sent)
        self.requests += 1

    def joined(self) -> bytes:
        """Returns all that was gathered."""
        self.begin(None)
        return b"".join(self._pieces)
