"""A client's stream of bytes, and what Redis gets for each chunk of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from ttlproxy import errors
from ttlproxy.commands import ANY_KEY, NO_KEY, Route
from ttlproxy.core.registry import DbKey
from ttlproxy.session import fast_path, rewrite
from ttlproxy.session.effects import Step, Transaction, Wait
from ttlproxy.session.fast_path import Rewritten
from ttlproxy.session.passing import LONG, Passing, nothing_sent
from ttlproxy.session.replies import OneReply, Stopping, Told, all_of, is_hidden
from ttlproxy.wire import encode

QUIT: Final = encode((b"QUIT",))
# A chunk that is longer may wait before it is sent.
_LONGEST_STOPPING: Final = 1 << 15
# A chunk that is longer may be too much for Redis at once.
_LONGEST_OF_CALLS: Final = 1 << 16


class Session(Passing):
    """A client's requests on their way to Redis: each chunk passes, or becomes a step.

    If it is not known whether something is due in a key, Redis tells: before the requests of a
    chunk (`reads`), within the call that they become (`Step.stopping`), or to the link, for which
    they wait.

    may_stop: whether the next chunk may be such a call: its sender sees to the rest
    in_flight: how many requests were sent, and how many of them have no reply; its sender sets it
    """

    __slots__ = ()

    def stopped(self, stopping: Stopping) -> bytes:
        """Such a call has ended: the requests that it has not carried out."""
        left = stopping.requests[stopping.reply.carried_out :]
        if left:
            setters, counts = self.script_calls.direct.setters, self._counts
            ours = sum(args[0] in setters for args in left)
            counts.virtual -= ours
            counts.rewritten -= len(left) - ours
            counts.by_rule -= (len(left) - ours) * stopping.by_rule
            self.script_calls.counts[stopping.script] -= len(left)
        return b"".join([encode(tuple(args)) for args in left])

    def from_client(self, data: bytes) -> Step:
        """Takes any chunk; returns what is to be done with it."""
        self.blocks_at = None
        out = self._out(data)
        step = Step(
            out,
            self.reap_places,
            self.reap_databases,
            self.sweep_before,
            self.unsure,
            self.modifies,
            self.sweep_after,
            self.apply_ttl_after,
            self.requests,
            self.told,
            self._is_uncounted,
            self.awaits,
            self.look,
            self.asks,
            self.settles,
            self.wait,
            self._pauses,
            self.withheld,
            self.stopping,
        )
        self.begin_step()
        if self.transaction is None:
            self.registry.include_no_more()
        return step

    def _out(self, data: bytes) -> bytes:
        """The bytes for Redis of a chunk."""
        requests = self._requests
        if self._read is not None:
            commands, self._read = self._read, None
            if (plain := self._on_fast_path(commands, data)) is not None:
                return plain
            requests.take(data)
            out = self._with_care(commands, self._now_ms())
            self._must_parse = self._must_be_parsed()
            requests.let_go()
            return out
        commands = requests.feed(data)
        if self._passing and not requests.streams:
            self._passed()
        must_parse = self._must_be_parsed()
        raw = requests.raw
        if not (must_parse or self._may_name_hidden(raw, commands)) and self._pass_through(
            commands
        ):
            out = raw
            self.requests += len(commands)
            self._counts.forwarded += len(commands)
        else:
            out = self._with_care(commands, self._now_ms())
            must_parse = self._must_be_parsed()
        if not self._pauses:
            out += self._begun()
        self._must_parse = must_parse or requests.pending
        requests.let_go()
        return out

    @property
    def before_login(self) -> bool:
        """Whether the client has certainly not logged in, so Redis refused its requests."""
        return self.unauthenticated and not self.resets

    def end(self) -> None:
        """Nothing more comes: what it knew of its client is free."""
        self.owes = lambda: False
        self.in_flight = nothing_sent

    @property
    def over(self) -> bool:
        """Whether Redis reads nothing more, and closes after its last reply."""
        return self.quit or self._requests.refused

    def attempt(self, wait: Wait) -> bytes:
        """The bytes for a waiting request."""
        self.manages([wait.target])
        self.unsure -= {wait.target}  # the caller has made sure
        return self.encoded(wait.call)

    @property
    def kept(self) -> int:
        """The number of bytes that are kept of an incomplete request."""
        return self._requests.kept

    def drop(self) -> None:
        """Forgets the incomplete request."""
        self._requests.drop()

    def finish(self) -> bytes:
        """No more requests will come: the bytes that make Redis send all replies and then close."""
        if self.over or self.relays:
            return b""
        self.quit = True
        return QUIT

    @property
    def relays(self) -> bool:
        """Whether bytes pass unread, so that no request of ours can be put between them."""
        return self.replicates or (self._requests.relay and not self._requests.refused)

    @property
    def unfinished(self) -> str:
        """The unfinished work, in words for a log; "" at a boundary, where a client may end."""
        if self.transaction is not None:
            return "in a transaction"
        if self.relays:
            return "relayed unread"
        return "in a request" if self._requests.pending else ""

    @property
    def doing(self) -> str:
        """The work that the connection is busy with, in words of a closed set; "" if none."""
        if self.behind_blocking:
            return "blocked"
        if self.listens:
            return "subscribed"
        if self.replicates:
            return "replicating"
        return "not logged in" if self.unauthenticated else self.unfinished

    def _must_be_parsed(self) -> bool:
        """Whether the next chunk must be parsed in full, even if this one ends with a request."""
        later = self.takes_effect_later or self.tracks or self.standing
        return bool(later or self.unauthenticated or self._requests.relay)

    @property
    def _is_uncounted(self) -> bool:
        """Whether what goes to Redis from this chunk on may have no reply, or several."""
        return self.uncounted or (self._requests.relay and not self._requests.refused)

    @property
    def _pauses(self) -> bool:
        """Whether nothing behind the last request may be read yet."""
        waits = self.settles is not None or self.wait is not None
        return waits or self.awaits or self.look or bool(self.asks)

    def _on_fast_path(self, commands: list[list[bytes]], data: bytes) -> bytes | None:
        """The bytes for Redis of a chunk that `passes` has refused; None if it is no plain one."""
        if self._names_hidden or len(data) > min(LONG * len(commands), self._limit):
            return None
        direct = self.script_calls.direct
        if not direct.update(self._router) or not fast_path.is_open(self):
            return None
        together = self.skips_replies and not self._is_uncounted
        may_stop = self._may_stop(data) and together
        found = self._remembered(data, together, may_stop=may_stop) or fast_path.rewritten(
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
            self.told += self._count(found, len(commands))
            if found.stops:
                ((script, _, _),), (told,) = found.calls, self.told
                assert isinstance(told.tell, OneReply)
                self.stopping = Stopping(script, found.by_rule > 0, commands, told.tell)
        else:
            self._counts.forwarded += len(commands)
        self.requests += found.requests
        return found.to_redis

    def _remembered(
        self, data: bytes, together: bool, *, may_stop: bool = False, shareable: bool = False
    ) -> Rewritten | None:
        """As of `fast_path.remembered`; `shareable`: what is no call may go over a connection that
        clients share."""
        now_ms, router = self._now_ms(), self._router
        tables = router.known if self.registry.until_ms < now_ms else router.plain
        direct, hidden = self.script_calls.direct, self._hidden_names
        table = tables.shareable if shareable else tables.all
        return fast_path.remembered(self, direct, table, data, hidden, now_ms, together, may_stop)

    def _count(self, found: Rewritten, requests: int) -> list[Told]:
        """Counts what a chunk of so many requests has become; returns the calls for several."""
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

    def calls(
        self, data: bytes, *, shareable: bool = False
    ) -> tuple[bytes, int, list[Told]] | None:
        """The bytes for Redis of a chunk that does not pass, how many requests these are, and those
        of them whose replies matter, if its requests begin as earlier ones did and nothing is due
        in their keys; else None. `shareable`: also if it may not go over a connection that clients
        share."""
        if self._must_parse or len(data) > min(_LONGEST_OF_CALLS, self._limit):
            return None
        if self._hidden in data or not self.script_calls.direct.update(self._router):
            return None
        if not fast_path.is_open(self):
            return None
        found = self._remembered(data, not self.uncounted, shareable=shareable)
        if found is None:
            return None
        plain = found.requests - len(found.calls)
        told = self._count(found, plain + found.writes + found.setters)
        return found.to_redis, found.requests, told

    def _may_stop(self, data: bytes) -> bool:
        """Whether the chunk may become a call that ends before its end, so that the rest of it is
        given again."""
        return self.may_stop and self.rights.trusts_schedules and len(data) < _LONGEST_STOPPING

    def _begun(self) -> bytes:
        """The bytes of an incomplete request that go to Redis now."""
        if self.unauthenticated:
            if not self._requests.exceeds(rewrite.WORDS_BEFORE_LOGIN, rewrite.LARGEST_BEFORE_LOGIN):
                return b""
            self.requests += 1
            return self._requests.stream()  # Redis refuses it, or reads it as it comes
        words = self._requests.begun
        return b"" if words is None else self._begin(words)

    def _begin(self, words: list[bytes]) -> bytes:
        """The bytes that go to Redis now of a request that is too large to wait for its end."""
        route = self._router.find(words[0]) if words else None
        if route is None or self._may_pass(route, words):
            self._passing = words[1:2]
            before = b""
            if route is not None and (self.tracks or self.standing):
                before = self._read_first(route, words)
                self.note_standing(route, words)
            self.requests += 1
            self._counts.forwarded += 1
            return before + self._requests.stream()
        if not self._requests.excessive:
            return b""
        self._requests.skip()
        self.requests += 1
        return self._too_large(words)

    def _too_large(self, words: list[bytes]) -> bytes:
        """The bytes for Redis in place of a request that is larger than the limit."""
        self.wait = None
        if self.transaction is not None:
            return encode((errors.TOO_LARGE_IN_MULTI,))
        return rewrite.refuse(self, self._router.find(words[0]), errors.TOO_LARGE)

    def _may_pass(self, route: Route, words: list[bytes]) -> bool:
        """Whether a request may pass by its first words alone.

        Not if it writes elements: they may have got deadlines before it is complete.
        """
        kind = route.key_kind
        if (
            self.takes_effect_later
            or kind == ANY_KEY
            or (route.override and route.override.needed_later)
        ):
            return False
        if kind != NO_KEY and (len(words) < 2 or self.script_calls.keys.is_internal(words[1])):
            return False
        return self._pass_through((words,)) and (
            kind == NO_KEY or words[1] not in self.registry.names
        )

    def _passed(self) -> None:
        """A request that passed is complete; its key may have got deadlines meanwhile."""
        self.writes(self._passing)
        self._passing = ()

    def _with_care(self, commands: list[list[bytes]], now_ms: int) -> bytes:
        """The chunk, request by request; those that are not rewritten stay as they were sent."""
        requests = self._requests
        self.unblock()
        named = self._may_name_hidden(requests.raw, commands)
        instead_of = self._suspect if named else self._decide
        find = self._router.find
        found = [(find(args[0]), args, begin, end) for args, begin, end in requests.exact(commands)]
        if not self.unauthenticated:  # until they have been handled, or their EXEC
            self.registry.include(rewrite.in_other_databases(found))
        self.may_be_held = rewrite.must_be_sure(self, found) or rewrite.may_be_held(
            self, found, now_ms
        )
        raw = requests.raw
        out: list[bytes] = []
        sent = 0
        for route, args, begin, end in found:
            take = self._of_unauthenticated if self.unauthenticated else instead_of
            transaction, was_counted = self.transaction, not self.uncounted
            rewritten = take(route, args, now_ms)
            if was_counted and self.uncounted and (self.caches or self.hides):
                rewritten = self._stays_counted() or rewritten
            if self.is_unsent:
                self.withheld = requests.withhold(begin)
                break
            if self.ours is not None:
                command, tell = self.ours
                self.ours = None
                self.hide(tell)
                out += (raw[sent:begin], command)
                sent = begin
            if (self.tracks or self.standing) and (before := self._read_first(route, args)):
                out += (raw[sent:begin], before)
                sent = begin
            self._count_request()
            if rewritten is None:
                self._counts.forwarded += 1
            else:
                if end - begin > self._limit:
                    rewritten = self._too_large(args)
                out += (raw[sent:begin], rewritten)
                sent = end
            if transaction is not None and (behind := self._read_behind(route, transaction)):
                out += (raw[sent:end], behind)
                sent = end
            if self.standing or self.tracks:
                self.note_standing(route, args)
            if self._pauses:
                self.withheld = requests.withhold(end)
                break
            if self.quit:
                requests.withhold(end)
                break
        out.append(requests.raw[sent:])
        # A single piece is not copied: it may be large.
        return b"".join(filter(None, out))

    def _count_request(self) -> None:
        """A request goes to Redis."""
        if self.transaction is not None and self.transaction.declared is not None:
            self.tells.append(self.transaction.declared.theirs)
        if self.tells:
            self.told.append(Told(self.requests, all_of(self.tells)))
            self.tells = []
        elif self.confirmations:
            self.told.append(Told(self.requests, confirmations=self.confirmations))
            self.confirmations = 0
        self.requests += self.wait is None

    def _read_first(self, route: Route, args: Sequence[bytes]) -> bytes:
        """Requests of ours in front of one of a client that caches: they read the indexes of its
        keys, so that Redis tells when a deadline has changed."""
        keys = route.read(args)
        if self.transaction is not None:
            self.transaction.read.update(keys)
            return b""
        return self._ask(self.reads_of(keys), self.standing) if keys else b""

    def _read_behind(self, route: Route, transaction: Transaction) -> bytes:
        """Reads behind EXEC what was read in front of its requests: there the reads would have
        replies."""
        if route.name != "EXEC" or not transaction.read:
            return b""
        return self._ask(self.standing, self.reads_of(transaction.read))

    def _ask(self, *requests: bytes) -> bytes:
        """Requests of ours, whose replies the client does not get."""
        if self._is_uncounted or not self.may_watch():
            return b""
        for _ in filter(None, requests):
            self.hide(is_hidden)
        return b"".join(requests)

    def _stays_counted(self) -> bytes | None:
        """A request is not counted, and nothing of ours may be owed then: it waits. Returns the
        bytes in its place where nothing of ours can be told from the rest of EXEC's reply."""
        is_refused = self.transaction is not None and self.transaction.declared is not None
        waits = not is_refused and bool(self.requests or self.owes())
        if is_refused or waits:
            self.uncounted, self.confirmations = False, 0
        self.awaits = self.is_unsent = waits
        self.hides = is_refused or waits
        return encode((errors.UNCOUNTED_IN_MULTI,)) if is_refused else None

    def _suspect(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request that may name an internal key."""
        named = any(map(self.script_calls.keys.is_internal, route.certain_keys(args)))
        if named and not self.rights.shows_internal:
            return self._counted(route, rewrite.refuse(self, route, errors.INTERNAL_KEY))
        return self._decide(route, args, now_ms)

    def _of_unauthenticated(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request of a client that has not logged in."""
        return self._counted(route, rewrite.decide_before_login(self, route, args, now_ms))

    def _decide(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request; None means the request as it came."""
        may_meet_deadlines = self.takes_effect_later or self.may_be_held
        if args[0] in self._passthrough and not may_meet_deadlines and self._pass_through((args,)):
            return None
        return self._counted(route, rewrite.decide(self, route, args, now_ms))

    def _counted(self, route: Route, rewritten: bytes | None) -> bytes | None:
        if rewritten is not None:
            if route.virtual:
                self._counts.virtual += 1
            else:
                self._counts.rewritten += 1
                self._counts.by_rule += self.by_rule
                self.by_rule = False
        return rewritten


class LaneSession(Session):
    """A client's requests on their way to one master of a Cluster."""

    __slots__ = ()

    skips_replies: ClassVar[bool] = False

    def may_be_indexed(self, args: Sequence[bytes]) -> list[DbKey]:
        """The keys of a request that may have an index; none of a command of ours."""
        route = self._router.find(args[0])
        if route.virtual:
            return []
        return [place for key in route.keys(args) for place in self.registry.places(key)]

    def passes_read(self, data: bytes, requests: list[list[bytes]]) -> bool:
        """`passes` for whole requests: `data` as they were sent, and their words."""
        if self._must_parse:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._pass_through(requests):
            return False
        self._counts.forwarded += len(requests)
        return True
