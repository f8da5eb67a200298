"""Decides what Redis gets for each chunk of a client's byte stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from ttlproxy import errors
from ttlproxy.commands import ANY_KEY, NO_KEY, Route
from ttlproxy.core.registry import DbKey
from ttlproxy.session import rewrite
from ttlproxy.session.effects import Step, Transaction, Wait
from ttlproxy.session.fast_path import FastPath
from ttlproxy.session.passing import nothing_sent
from ttlproxy.session.replies import Told, all_of, is_hidden
from ttlproxy.session.state import NOT_ASKED
from ttlproxy.wire import encode

QUIT: Final = encode((b"QUIT",))


class Session(FastPath):
    """Takes a client's requests: each chunk passes unchanged, or becomes a step.

    If it is unknown whether something is due in a key, Redis is asked: before the requests of a
    chunk (`reads`), within the call that they become (`Step.stopping`), or by the link, for which
    they wait.

    may_stop: whether the next chunk may become a call that ends early; then the caller gives the
    rest again
    in_flight: returns how many requests were sent, and how many of them have no reply yet; set by
    the caller
    """

    __slots__ = ()

    def from_client(self, data: bytes) -> Step:
        """Takes any chunk; returns what must be done with it."""
        self.blocks_at = None
        out = self._out(data)
        step, self.step = self.step, Step()
        step.to_redis, step.uncounted = out, self._is_uncounted
        if not step.asks:
            self.indexed = NOT_ASKED
        self.unindexed = False
        if self.transaction is None:
            self.registry.include_no_more()
        return step

    def _out(self, data: bytes) -> bytes:
        """Returns the bytes for Redis of a chunk."""
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
            self.step.requests += len(commands)
            self._counts.forwarded += len(commands)
        else:
            out = self._with_care(commands, self._now_ms())
            must_parse = self._must_be_parsed()
        if not self.step.pauses:
            out += self._begun()
        self._must_parse = must_parse or requests.pending
        requests.let_go()
        return out

    @property
    def before_login(self) -> bool:
        """Whether the client has certainly not logged in, so that Redis refuses its requests."""
        return self.unauthenticated and not self.resets

    def end(self) -> None:
        """Ends the session and frees what it knows of its client."""
        self.owes = lambda: False
        self.in_flight = nothing_sent

    @property
    def over(self) -> bool:
        """Whether Redis reads nothing more, and closes after its last reply."""
        return self.quit or self._requests.refused

    def attempt(self, wait: Wait) -> bytes:
        """Returns the bytes for a waiting request."""
        self.manages([wait.target])
        self.step.unsure -= {wait.target}  # the caller has confirmed the family
        return self.encoded(wait.call)

    @property
    def kept(self) -> int:
        """The number of bytes that are kept of an incomplete request."""
        return self._requests.kept

    def drop(self) -> None:
        """Forgets the incomplete request."""
        self._requests.drop()

    def finish(self) -> bytes:
        """Returns the bytes that make Redis send all replies and then close. No more requests may
        come."""
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
        """Names the unfinished work for a log; "" at a request boundary, where a client may end."""
        if self.transaction is not None:
            return "in a transaction"
        if self.relays:
            return "relayed unread"
        return "in a request" if self._requests.pending else ""

    @property
    def doing(self) -> str:
        """Names the work that the connection is busy with, as a word of a closed set; "" if
        none."""
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

    def _begun(self) -> bytes:
        """Returns the bytes of an incomplete request that go to Redis now."""
        if self.unauthenticated:
            if not self._requests.exceeds(rewrite.WORDS_BEFORE_LOGIN, rewrite.LARGEST_BEFORE_LOGIN):
                return b""
            self.step.requests += 1
            return self._requests.stream()  # Redis refuses it, or reads it as it comes
        words = self._requests.begun
        return b"" if words is None else self._begin(words)

    def _begin(self, words: list[bytes]) -> bytes:
        """Returns the bytes that go to Redis now, of a request that is too large to keep."""
        route = self._router.find(words[0]) if words else None
        if route is None or self._may_pass(route, words):
            self._passing = words[1:2]
            before = b""
            if route is not None and (self.tracks or self.standing):
                before = self._read_first(route, words)
                self.note_standing(route, words)
            self.step.requests += 1
            self._counts.forwarded += 1
            return before + self._requests.stream()
        if not self._requests.excessive:
            return b""
        self._requests.skip()
        self.step.requests += 1
        return self._too_large(words)

    def _too_large(self, words: list[bytes]) -> bytes:
        """Returns the bytes for Redis in place of a request that is larger than the limit."""
        self.step.wait = None
        if self.transaction is not None:
            return encode((errors.TOO_LARGE_IN_MULTI,))
        return rewrite.refuse(self, self._router.find(words[0]), errors.TOO_LARGE)

    def _may_pass(self, route: Route, words: list[bytes]) -> bool:
        """Whether a request may pass by its first words alone.

        It may not if it writes elements: they may get deadlines before it is complete.
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
        """Handles the end of a passing request, whose key may have got deadlines meanwhile."""
        self.writes(self._passing)
        self._passing = ()

    def _with_care(self, commands: list[list[bytes]], now_ms: int) -> bytes:
        """Rewrites the chunk request by request; requests that need no change stay as they were
        sent."""
        requests = self._requests
        self.unblock()
        named = self._may_name_hidden(requests.raw, commands)
        instead_of = self._suspect if named else self._decide
        find = self._router.find
        found = [(find(args[0]), args, begin, end) for args, begin, end in requests.exact(commands)]
        if not self.unauthenticated:  # kept until they are handled, in MULTI until EXEC
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
            if self.step.is_unsent:
                self.step.withheld = requests.withhold(begin)
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
            if self.step.pauses:
                self.step.withheld = requests.withhold(end)
                break
            if self.quit:
                requests.withhold(end)
                break
        out.append(requests.raw[sent:])
        # A single piece is not copied: it may be large.
        return b"".join(filter(None, out))

    def _count_request(self) -> None:
        """Counts a request that goes to Redis."""
        if self.transaction is not None and self.transaction.declared is not None:
            self.tells.append(self.transaction.declared.theirs)
        if self.tells:
            self.step.told.append(Told(self.step.requests, all_of(self.tells)))
            self.tells = []
        elif self.confirmations:
            self.step.told.append(Told(self.step.requests, confirmations=self.confirmations))
            self.confirmations = 0
        self.step.requests += self.step.wait is None

    def _read_first(self, route: Route, args: Sequence[bytes]) -> bytes:
        """Returns requests of ours that go before a request of a client that caches: they read the
        indexes of its keys, so that Redis tells the client when a deadline has changed."""
        keys = route.read(args)
        if self.transaction is not None:
            self.transaction.read.update(keys)
            return b""
        return self._ask(self.reads_of(keys), self.standing) if keys else b""

    def _read_behind(self, route: Route, transaction: Transaction) -> bytes:
        """Does after EXEC what `_read_first` does before other requests: in MULTI the replies to
        these reads would be part of EXEC's."""
        if route.name != "EXEC" or not transaction.read:
            return b""
        return self._ask(self.standing, self.reads_of(transaction.read))

    def _ask(self, *requests: bytes) -> bytes:
        """Returns the bytes of requests of ours, and notes that the client does not get their
        replies."""
        if self._is_uncounted or not self.may_watch():
            return b""
        for _ in filter(None, requests):
            self.hide(is_hidden)
        return b"".join(requests)

    def _stays_counted(self) -> bytes | None:
        """Has a request wait if its replies cannot be counted while replies to ours are
        outstanding. Returns the bytes that replace it in a transaction where ours could not be
        found in EXEC's reply."""
        is_refused = self.transaction is not None and self.transaction.declared is not None
        waits = not is_refused and bool(self.step.requests or self.owes())
        if is_refused or waits:
            self.uncounted, self.confirmations = False, 0
        self.step.awaits = self.step.is_unsent = waits
        self.hides = is_refused or waits
        return encode((errors.UNCOUNTED_IN_MULTI,)) if is_refused else None

    def _suspect(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """Returns the bytes for Redis in place of a request that may name an internal key."""
        named = any(map(self.script_calls.keys.is_internal, route.certain_keys(args)))
        if named and not self.rights.shows_internal:
            return self._counted(route, rewrite.refuse(self, route, errors.INTERNAL_KEY))
        return self._decide(route, args, now_ms)

    def _of_unauthenticated(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """Does what `_decide` does, for a client that has not logged in."""
        return self._counted(route, rewrite.decide_before_login(self, route, args, now_ms))

    def _decide(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """Returns the bytes for Redis in place of a request; None if it goes unchanged."""
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
    """Takes a client's requests to one master of a Cluster."""

    __slots__ = ()

    skips_replies: ClassVar[bool] = False

    def may_be_indexed(self, args: Sequence[bytes]) -> list[DbKey]:
        """Returns the keys of a request that may have an index; none for a command of ours."""
        route = self._router.find(args[0])
        if route.virtual:
            return []
        return [place for key in route.keys(args) for place in self.registry.places(key)]
