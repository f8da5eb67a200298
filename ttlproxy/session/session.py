"""A client's stream of bytes: which chunks pass as they are, and what Redis gets for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ttlproxy import errors
from ttlproxy.commands import ANY_KEY, KEPT_KEY, NO_KEY, ONE_KEY, READ_KEY, Route, Router, Virtual
from ttlproxy.core.cluster_view import Reached
from ttlproxy.core.counters import Handled
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import NOTHING_DUE, Asker, Place
from ttlproxy.core.write_rules import ANY_BYTE, NOTHING_BUT_KEEPS
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import before_login, fast_path, shareable
from ttlproxy.session.rewrite import decide, refuse
from ttlproxy.session.state import State, Wait
from ttlproxy.session.step import Step
from ttlproxy.session.told import OneReply, Stopping, Tell, Told, all_of, is_hidden
from ttlproxy.session.transaction import Transaction
from ttlproxy.wire import Requests, Table, cut, encode, whole

QUIT: Final = encode((b"QUIT",))
# Bytes per request on average, from which requests count as long.
_LONG: Final = 1024
# A chunk that is longer may wait before it is sent.
_LONGEST_STOPPING: Final = 1 << 15
_NO_BOUNDS: Final[Mapping[bytes, int]] = {}
Routed: TypeAlias = tuple[Route, list[bytes], int, int]
"""A request with its route, and where it begins and ends in the chunk."""


class Session(State):
    """A client's requests on their way to Redis: each chunk passes, or becomes a step.

    Where it is not known whether something is due in a key, Redis tells: before the requests of a
    chunk (`reads`), within the call that they become (`Step.stopping`), or to the link, for which
    they wait.

    may_stop: whether the next chunk may be such a call: who sends it sees to the rest
    """

    __slots__ = (
        "__weakref__",
        "_counts",
        "_first_blocked",
        "_hidden",
        "_hidden_begin",
        "_hidden_names",
        "_limit",
        "_must_parse",
        "_names_hidden",
        "_now_ms",
        "_passing",
        "_passthrough",
        "_read",
        "_requests",
        "_router",
        "in_flight",
        "may_stop",
    )

    def __init__(
        self,
        router: Router,
        script_calls: ScriptCalls,
        registry: Asker,
        rights: Rights,
        now_ms: Callable[[], int],
        max_request_bytes: int,
        counts: Handled,
        owes: Callable[[], bool],
        reached: Reached | None = None,
    ) -> None:
        """`owes`: whether Redis owes its connection replies; `reached`: where a Cluster's client
        has connected, None if it learns of no node."""
        super().__init__(script_calls, registry, rights, owes, reached)
        self.may_stop = False
        # How many requests were sent, and how many of them have no reply; set by who sends them.
        self.in_flight: Callable[[], tuple[int, int]] = _nothing_sent
        self._first_blocked = -1  # so many had been sent before one that blocks
        script_calls.families.senders.add(self)
        self._router = router
        self._passthrough = router.passthrough
        self._now_ms = now_ms
        self._requests = Requests(max_request_bytes)
        self._limit = max_request_bytes
        self._counts = counts
        # The prefix of internal keys, which no client may name. A search for its first byte, an
        # int, takes a tenth of the time.
        self._hidden = script_calls.keys.prefix
        self._hidden_begin = self._hidden[0]
        keys = script_calls.keys
        self._hidden_names = (keys.prefix, keys.state, keys.outbox)
        # Whether the next chunk must be parsed in full: it is not a common one.
        self._must_parse = self.stranger
        # The key of a request that passes while the rest of it still comes.
        self._passing: Sequence[bytes] = ()
        # The requests of the chunk that `passes` has just refused, if they are whole.
        self._read: list[list[bytes]] | None = None
        self._names_hidden = False  # whether one of these may name an internal key

    def passes_unheard(self, data: bytes) -> int:
        """How many requests a chunk is, if it goes to Redis as it is, without effects, whatever may
        have been announced; else 0.

        This is the common case, and all that is done for it.
        """
        if self._must_parse or self.registry.book.in_doubt:
            return 0
        # No bound: an earlier one may have been announced.
        count = self._plain(self._router.known.all, data, _NO_BOUNDS)
        self._counts.forwarded += count
        return count

    def passes(self, data: bytes) -> int:
        """The same, with all that was announced. Any other chunk then goes to `from_client`."""
        if self._must_parse:
            return 0
        if count := self._plainly(data):
            self._counts.forwarded += count
            return count
        requests, end = cut(data)
        return len(requests) if end == len(data) and self.passes_read(data, requests) else 0

    def shares_plainly(self, data: bytes) -> int:
        """How many requests a chunk is, if it may go over a connection to Redis that clients
        share, and passes as it is; else 0, and `shares` tells."""
        if self._must_parse or len(data) > shareable.LARGEST:
            return 0
        count = self._plainly(data, shareable=True)
        self._counts.forwarded += count
        return count

    def shares(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of a chunk, if it is whole and may go over a connection to Redis that
        clients share; else None. The session must never have had any other chunk."""
        return None if self.stranger else shareable.read(data, self._router.shareable)

    def shares_introducing(self, data: bytes) -> shareable.Introducing | None:
        """The same for a chunk in which the client may also say what it is called."""
        names = self._router.shareable
        return None if self.stranger else shareable.read_introducing(data, names)

    def shares_part(self, data: bytes) -> shareable.Part | None:
        """The same for a chunk that may end within a request."""
        return None if self.stranger else shareable.read_cut(data, self._router.shareable)

    def may_share(self, data: bytes) -> bool:
        """Whether the commands of a chunk may go there in another form, as far as it can be read;
        True also for what cannot."""
        requests, names = whole(data), self._router.shareable
        return requests is None or all(shareable.may_go(args, names) for args in requests)

    def _plainly(self, data: bytes, *, shareable: bool = False) -> int:
        """How many requests a chunk is, if all of them certainly pass; else 0. `shareable`: over a
        connection that clients share."""
        registry, router = self.registry, self._router
        if registry.book.in_doubt:
            return 0
        tables = router.plain
        if registry.book.heads and registry.until_ms < self._now_ms():
            tables = router.known
        return self._plain(tables.shareable if shareable else tables.all, data, registry.bounds)

    def _plain(self, table: Table, data: bytes, bounds: Mapping[bytes, int]) -> int:
        book = self.registry.book
        count, first = table.plain(data, self._hidden_names, bounds, book.begins, book.heads)
        return count if count and (first == NOTHING_DUE or first >= self._now_ms()) else 0

    def passes_read(self, data: bytes, requests: list[list[bytes]]) -> bool:
        """`passes` for whole requests: `data` as they were sent, and their words."""
        if self._must_parse:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._pass_through(requests):
            self._read, self._names_hidden = requests, named
            return False
        self._counts.forwarded += len(requests)
        return True

    def needs_nothing(self, data: bytes) -> int:
        """How many requests a chunk is, if it may go to Redis as it is while nothing is known of
        managed keys; else 0.

        Examples are INFO and PING, which Redis answers in every state.
        """
        requests = None if self._must_parse else whole(data)
        find = self._router.find
        if requests is None or not all(find(args[0]).is_indifferent for args in requests):
            return 0
        return len(requests)

    def reads(self, data: bytes) -> tuple[list[bytes], int] | None:
        """The keys of a chunk that `passes` has just refused, of those that may have something due,
        and how many requests it is, if it only reads, and nothing is known to be due; None for any
        other."""
        requests, rights, registry = self._read, self.rights, self.registry
        if requests is None or self._names_hidden or self._must_parse:
            return None
        if not (rights.trusts_schedules and rights.have_all(self.users)):
            return None
        passthrough, bounds, managed = self._passthrough, registry.bounds, registry.managed
        keys, now_ms = [], self._now_ms()
        try:
            for args in requests:
                if passthrough[args[0]] != READ_KEY:
                    return None
                if managed.get(key := args[1], now_ms) < now_ms:
                    if key in bounds:
                        return None
                    keys.append(key)
        except (KeyError, IndexError):
            return None  # not in the table, or no key
        return (keys, len(requests)) if keys else None

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

    def put_back(self) -> None:
        """The chunk that `passes` has just refused is to be given again."""
        self._read = None

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
            self.date_after,
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
            self.registry.reach_no_more()
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
        return self.stranger and not self.resets

    def end(self) -> None:
        """Nothing more comes: what it knew of its client is free."""
        self.owes = lambda: False
        self.in_flight = _nothing_sent

    def mark(self) -> object:
        """As of core/families.py's `Sender`."""
        return self.in_flight, self.in_flight()[0]

    def has_landed(self, mark: Any) -> bool:
        """As of `Sender`. What stands behind a request that blocks is no such write
        (`waits_in_redis`), nor is a value that is still sent (`_may_pass`). A client leaves a
        connection when nothing is owed there."""
        in_flight, last = mark
        if self.in_flight != in_flight:
            return True
        sent, owed = self.in_flight()
        came = sent - owed
        if came <= self._first_blocked:
            last = min(last, self._first_blocked)
        return bool(came >= last - self.streams)

    def has_sent(self, requests: int) -> None:
        """So many were sent of the last step."""
        sent, owed = self.in_flight()
        if self.blocks_at is not None and sent - owed > self._first_blocked:
            self._first_blocked = sent - requests + self.blocks_at

    @property
    def over(self) -> bool:
        """Whether Redis reads nothing more, and closes after its last reply."""
        return self.quit or self._requests.refused

    @property
    def streams(self) -> bool:
        """Whether Redis has a part of a request, and the rest has not come yet."""
        return self._requests.streams

    def attempt(self, wait: Wait) -> bytes:
        """The bytes for a waiting request."""
        self.manages([wait.target])
        self.unsure -= {wait.target}  # the caller has made sure
        return self.encoded(wait.call)

    @property
    def kept(self) -> int:
        """How many bytes are kept of an incomplete request."""
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
        """What the connection is in the middle of, in words of a closed set; "" if in nothing."""
        if self.behind_blocking:
            return "blocked"
        if self.listens:
            return "subscribed"
        if self.replicates:
            return "replicating"
        return "not logged in" if self.stranger else self.unfinished

    def _must_be_parsed(self) -> bool:
        """Whether the next chunk must be parsed in full, even if this one ends with a request."""
        caches = self.tracks or self.standing
        return bool(caches or self.takes_effect_later or self.stranger or self._requests.relay)

    @property
    def _is_uncounted(self) -> bool:
        """Whether what goes to Redis from this chunk on may have no reply, or several."""
        return self.uncounted or (self._requests.relay and not self._requests.refused)

    @property
    def _pauses(self) -> bool:
        """Whether nothing behind the last request may be read yet."""
        waits = self.settles is not None or self.wait is not None
        return waits or self.awaits or self.look or bool(self.asks)

    def _pass_through(self, requests: Sequence[list[bytes]]) -> bool:
        """Whether these need only a look at their keys, and none of those is managed.

        A key that is only read, or keeps its deadlines, may be managed if nothing is due there.
        """
        registry, now_ms = self.registry, 0
        managed, begins, heads = registry.managed, registry.book.begins, registry.book.heads
        kinds = self._passthrough
        if not managed:
            if not heads:
                kinds = self._router.keyless
            elif begins is not ANY_BYTE and self._write_elsewhere(requests):
                return True
        # Commands of which kinds may concern other keys than a managed first one: those before.
        looked = READ_KEY + (begins is ANY_BYTE) if heads else ONE_KEY
        try:
            for args in requests:
                kind = kinds[args[0]]
                if kind:  # not NO_KEY
                    key = args[1]
                    if key not in managed:
                        if kind >= looked:
                            continue
                        if kind == ANY_KEY:
                            if not registry.names.keys().isdisjoint(args):
                                return False
                            continue
                        # Each look costs more than the one before it.
                        if not (begins[key[0]] and key.startswith(heads)):
                            continue
                        if key not in registry.names:
                            continue
                    now_ms = now_ms or self._now_ms()
                    if registry.names[key] < now_ms:
                        return False
                    if kind != READ_KEY and (kind != KEPT_KEY or registry.book):
                        return False
        except (KeyError, IndexError):
            return False  # not in the table, or no key
        return True

    def _write_elsewhere(self, requests: Sequence[list[bytes]]) -> bool:
        """Whether these only read, or write to keys that begin as no rule of ONWRITE does, while
        no key is managed. False may mean that it is not known: then each key is looked at."""
        kinds, book = self._router.unread, self.registry.book
        begins, heads = book.begins, book.heads
        try:
            for args in requests:
                # The first byte costs a fifth of all heads.
                if kinds[args[0]] and begins[args[1][0]] and args[1].startswith(heads):
                    return False
        except (KeyError, IndexError):
            return False  # as in _pass_through
        return True

    def _on_fast_path(self, commands: list[list[bytes]], data: bytes) -> bytes | None:
        """The bytes for Redis of a chunk that `passes` has refused; None if it is no plain one."""
        if self._names_hidden or len(data) > min(_LONG * len(commands), self._limit):
            return None
        direct = self.script_calls.direct
        if not direct.update(self._router) or not fast_path.is_open(self):
            return None
        together = self.skips_replies and not (self._is_uncounted or self.silent)
        found = fast_path.rewritten(
            self,
            direct,
            commands,
            data,
            self._now_ms(),
            lambda args: self._pass_through((args,)),
            together,
            self._may_stop(data) and together,
        )
        if found is None:
            return None
        writes, setters = found.writes, found.setters
        if found.managed:
            self.manages([(self.db, key) for key in found.managed])
        if writes or setters:
            self.changes()
            script_calls = self.script_calls.counts
            for script, before, requests in found.calls:
                script_calls[script] += requests
                if requests > 1 or found.stops:
                    reply = OneReply(requests, stops=found.stops)
                    self.told.append(Told(self.requests + before, reply))
                    if found.stops:
                        self.stopping = Stopping(script, found.by_rule > 0, commands, reply)
        self.requests += found.requests
        counts = self._counts
        counts.rewritten += writes
        counts.by_rule += found.by_rule
        counts.virtual += setters
        counts.forwarded += len(commands) - writes - setters
        return found.to_redis

    def _may_stop(self, data: bytes) -> bool:
        """Whether the chunk may become a call that ends before its end, so that the rest of it is
        given again."""
        return self.may_stop and self.rights.trusts_schedules and len(data) < _LONGEST_STOPPING

    def _begun(self) -> bytes:
        """The bytes of an incomplete request that go to Redis now."""
        if self.stranger:
            if not self._requests.exceeds(before_login.MOST_WORDS, before_login.LARGEST):
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
                self._note_standing(route, words)
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
        return refuse(self, self._router.find(words[0]), errors.TOO_LARGE)

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
        self._reach(found)
        self.may_be_held = self._must_be_sure(found) or self._may_be_held(found, now_ms)
        raw = requests.raw
        out: list[bytes] = []
        sent = 0
        for route, args, begin, end in found:
            take = self._of_stranger if self.stranger else instead_of
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
                self._hide(tell)
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
                self._note_standing(route, args)
            if self._pauses:
                self.withheld = requests.withhold(end)
                break
            if self.quit:
                requests.withhold(end)
                break
        out.append(requests.raw[sent:])
        # A single piece is not copied: it may be large.
        return b"".join(filter(None, out))

    def _hide(self, tell: Tell) -> None:
        """A request of ours goes to Redis, whose reply is told, and is not the client's."""
        self.told.append(Told(self.requests, tell))
        self.requests += 1

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
        return self._ask(self._exists(keys), self.standing) if keys else b""

    def _read_behind(self, route: Route, transaction: Transaction) -> bytes:
        """The same behind EXEC: in a transaction they would have replies there."""
        if route.name != "EXEC" or not transaction.read:
            return b""
        return self._ask(self.standing, self._exists(transaction.read))

    def _exists(self, keys: Iterable[bytes]) -> bytes:
        return encode((b"EXISTS", *map(self.script_calls.keys.index, keys)))

    def _ask(self, *requests: bytes) -> bytes:
        """Requests of ours, whose replies the client does not get."""
        if self._is_uncounted or not self.may_watch():
            return b""
        for _ in filter(None, requests):
            self._hide(is_hidden)
        return b"".join(requests)

    def _stays_counted(self) -> bytes | None:
        """A request is not counted, and nothing of ours may be owed then: it waits. What goes to
        Redis in its place where nothing of ours can be told from the rest of EXEC's reply."""
        is_refused = self.transaction is not None and self.transaction.declared is not None
        waits = not is_refused and bool(self.requests or self.owes())
        if is_refused or waits:
            self.uncounted, self.confirmations = False, 0
        self.awaits = self.is_unsent = waits
        self.hides = is_refused or waits
        return encode((errors.UNCOUNTED_IN_MULTI,)) if is_refused else None

    def _note_standing(self, route: Route, args: Sequence[bytes]) -> None:
        """Notes what holds for the next request of a client that caches: a request of ours before
        that would take it, so it is repeated."""
        if route.name == "ASKING":
            self.standing = encode(tuple(args))
        elif route.name != "CLIENT" and self.transaction is None:
            self.standing = b""

    def _reach(self, found: list[Routed]) -> None:
        """What requests write to other databases is asked of, too, until they have been handled, or
        their EXEC."""
        if not self.stranger:
            self.registry.reach(at for route, args, _, _ in found for at in _beyond(route, args))

    def _must_be_sure(self, found: list[Routed]) -> bool:
        """Whether these requests may have to wait until all proxies know a family. This one knows
        it from now on, so that no write is held which does not clear its deadline."""
        book, names = self.registry.book, self.registry.names
        keys: list[bytes] = []
        for route, args, _, _ in found:
            virtual, override = route.virtual, route.override
            if virtual and virtual.fits(args):
                keys += self._stored_by(route, virtual, args)
            elif override and route.fits(len(args)):
                if any(key in names for key in override.keys(args)):
                    keys += override.targets(args)
                if book and (writes := override.on_write):
                    how = book.how(self.databases, args[1], writes.type, writes.keeps)
                    keys += args[1:2] if how not in (None, NOTHING_BUT_KEEPS) else ()
        unsure = [key for key in keys if not self.may_date(key)]
        self.script_calls.families.known.learn_of(unsure)
        return bool(unsure)

    def _stored_by(self, route: Route, virtual: Virtual, args: list[bytes]) -> Iterable[bytes]:
        """The keys of which a command of ours must be sure."""
        calls = self.script_calls
        if virtual.sets_deadlines:
            return (args[virtual.target],)
        if virtual.of_deferred:
            return map(calls.keys.deferred, route.keys(args))
        return () if calls.has_state or not virtual.tells_all else (calls.keys.rules,)

    def _may_be_held(self, found: list[Routed], now_ms: int) -> bool:
        """Whether these requests may wait for a reap, while others may set deadlines."""
        names = self.registry.names
        if not names:
            return False
        for route, args, _, _ in found:
            if route.survey or (route.virtual and route.virtual.of_deferred):
                return True
            if any(names.get(key, now_ms) < now_ms for key in route.keys(args)):
                return True
            if not (names.keys().isdisjoint(route.filled(args)) or has_script(route, args)):
                return True
        return False

    def _may_name_hidden(self, raw: bytes, requests: list[list[bytes]]) -> bool:
        """Whether these requests, `raw` as bytes, may name an internal key.

        For long words it is faster to look at how each begins, for short ones to search the bytes.
        An inline request may have the name quoted and escaped, so there only the words tell.
        """
        hidden = self._hidden
        if len(raw) < _LONG * len(requests) and not self._requests.has_lines:
            return self._hidden_begin in raw and hidden in raw
        return any(word.startswith(self._hidden_names) for words in requests for word in words)

    def _suspect(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request that may name an internal key."""
        named = any(map(self.script_calls.keys.is_internal, route.certain_keys(args)))
        if named and not self.rights.shows_internal:
            return self._counted(route, refuse(self, route, errors.INTERNAL_KEY))
        return self._decide(route, args, now_ms)

    def _of_stranger(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request of a client that has not logged in."""
        return self._counted(route, before_login.decide(self, route, args, now_ms))

    def _decide(self, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
        """The bytes for Redis in place of a request; None means the request as it came."""
        may_meet_deadlines = self.takes_effect_later or self.may_be_held
        if args[0] in self._passthrough and not may_meet_deadlines and self._pass_through((args,)):
            return None
        return self._counted(route, decide(self, route, args, now_ms))

    def _counted(self, route: Route, rewritten: bytes | None) -> bytes | None:
        if rewritten is not None:
            if route.virtual:
                self._counts.virtual += 1
            else:
                self._counts.rewritten += 1
                self._counts.by_rule += self.by_rule
                self.by_rule = False
        return rewritten


def _beyond(route: Route, args: Sequence[bytes]) -> list[Place]:
    """The places in other databases than its client's that a request writes to."""
    override = route.override
    db = override.other_db(args) if override else None
    return [(db, key) for key in override.targets(args)] if override and db is not None else []


def _nothing_sent() -> tuple[int, int]:
    return 0, 0


def has_script(route: Route, args: list[bytes]) -> bool:
    """Whether a script writes the first key, if it is managed, and the request names no other."""
    direct = route.override and route.override.direct
    return bool(direct and route.fits(len(args)) and direct.takes(args))
