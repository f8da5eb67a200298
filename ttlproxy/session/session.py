"""A client's stream of bytes: which chunks pass as they are, and what goes on for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ttlproxy import errors
from ttlproxy.caller import Caller
from ttlproxy.commands import ANY_KEY, NO_KEY, READ_KEY, Rule, Rules
from ttlproxy.commands.calls import marked
from ttlproxy.metrics import Handled
from ttlproxy.registry import Registry
from ttlproxy.rights import Rights
from ttlproxy.session.decisions import decide, refuse
from ttlproxy.session.state import State, Wait
from ttlproxy.wire import PARSER, Requests, encode

QUIT: Final = encode((b"QUIT",))
_BACKSLASH: Final = ord("\\")
# Bytes of a request that is long.
_LONG: Final = 1024


class Session(State):
    """A client's requests, on their way to Redis; its errands are to be looked at after each."""

    __slots__ = (
        "_counts",
        "_heedful",
        "_hidden",
        "_hidden_begin",
        "_now_ms",
        "_passing",
        "_plain",
        "_read",
        "_requests",
        "_rules",
        "withheld",
    )

    def __init__(
        self,
        rules: Rules,
        caller: Caller,
        registry: Registry,
        rights: Rights,
        now_ms: Callable[[], int],
        max_request_bytes: int,
        counts: Handled,
    ) -> None:
        super().__init__(caller, registry, rights)
        self._rules = rules
        self._plain = rules.plain
        self._now_ms = now_ms
        self._requests = Requests(max_request_bytes)
        self._counts = counts
        # What no client may name: the prefix of internal keys. Its first byte, an int, is found, or
        # not, in a tenth of the time.
        self._hidden = caller.keys.prefix
        self._hidden_begin = self._hidden[0]
        # In the middle of something, so that the next chunk is not a common one.
        self._heedful = False
        # The key of a request that passes, as far as it has come.
        self._passing: list[bytes] = []
        # The requests of the chunk that `passes` has just kept back, if they are whole.
        self._read: list[list[bytes]] | None = None
        # What came behind a request that waits, and is to come again.
        self.withheld = b""

    def passes(self, data: bytes) -> bool:
        """Whether a chunk of the client's goes to Redis as it is, and nothing follows from it.

        The common case, and all that is done for it. If the answer is no, `from_client` takes the
        chunk.
        """
        if self._heedful or (requests := PARSER.whole(data)) is None:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._are_plain(requests):
            self._read = requests
            return False
        self._counts.forwarded += len(requests)
        return True

    def needs_nothing(self, data: bytes) -> bool:
        """Whether a chunk may go to Redis as it is while nothing is known of managed keys.

        Such as INFO and PING, which Redis answers in every state that it can be in.
        """
        requests = None if self._heedful else PARSER.whole(data)
        return requests is not None and all(
            args[0].__class__ is bytes and self._rules.find(args[0]).is_indifferent
            for args in requests
        )

    def from_client(self, data: bytes) -> bytes:
        """Takes any chunk of the client's, gives the bytes for Redis."""
        requests = self._requests
        if self._read is not None:
            commands, self._read = self._read, None
            requests.take(data)
            out = self._with_care(commands, self._now_ms())
            self._heedful = self.is_late or requests.relay
            return out
        commands = requests.feed(data)
        if self._passing and not requests.streams:
            self._passed()
        heedful = self.is_late or requests.relay
        raw = requests.raw
        if not (heedful or self._may_name_hidden(raw, commands)) and self._are_plain(commands):
            out = raw
            self._counts.forwarded += len(commands)
        else:
            out = self._with_care(commands, self._now_ms())
            heedful = self.is_late or requests.relay
        if self.wait is None and (begun := requests.begun) is not None:
            out += self._begin(begun)
        self._heedful = heedful or requests.pending
        return out

    @property
    def streams(self) -> bool:
        """Whether Redis has part of a request, and the rest has not come."""
        return self._requests.streams

    def attempt(self, wait: Wait, mark: bytes = b"") -> bytes:
        """The request of one that waits, for its reply or, with a mark, for an item and no null."""
        self.registry.pin(*wait.target)
        return self.encoded(marked(wait.call, mark) if mark else wait.call)

    @property
    def kept(self) -> int:
        """Bytes of a request that is not complete."""
        return self._requests.kept

    def finish(self) -> bytes:
        """No more requests will come: what lets Redis answer all that is owed, and then close."""
        if self.quit or self.relays:
            return b""
        self.quit = True
        return QUIT

    @property
    def relays(self) -> bool:
        """Whether bytes pass unread: nothing of ours can be put between them."""
        return self.replicates or self._requests.relay

    @property
    def unfinished(self) -> str:
        """What is half done, in words for a log; none at a boundary, where a client may end."""
        if self.transaction is not None:
            return "in a transaction"
        if self.relays:
            return "relayed unread"
        if self.wait is not None:
            return "waiting"
        return "in a request" if self._requests.pending else ""

    def _are_plain(self, requests: Iterable[list[bytes]]) -> bool:
        """Whether these need no more than their names, and names of no managed key among them.

        A key may be managed where it is only read, and nothing is due there.
        """
        plain, names, now_ms = self._plain, self.registry.names, 0
        try:
            for args in requests:
                kind = plain[args[0]]
                if names and kind != NO_KEY:
                    if kind == ANY_KEY:
                        if not names.keys().isdisjoint(args):
                            return False
                    elif (bound_ms := names.get(args[1])) is not None:
                        now_ms = now_ms or self._now_ms()
                        if kind != READ_KEY or bound_ms < now_ms:
                            return False
        except (KeyError, IndexError, TypeError):
            return False  # not plain, without its key, or no bulk string, which hiredis lets pass
        return True

    def _begin(self, words: list[bytes]) -> bytes:
        """What goes on of a request that is not complete, and too large to wait for."""
        rule = self._rules.find(words[0]) if words else None
        if rule is None or self._may_pass(rule, words):
            self._passing = words[1:2]
            self._counts.forwarded += 1
            return self._requests.stream()
        if not self._requests.excessive:
            return b""
        self._requests.skip()
        if self.transaction is not None:
            return encode((errors.TOO_LARGE_IN_MULTI,))
        return refuse(self, rule, errors.TOO_LARGE)

    def _may_pass(self, rule: Rule, words: list[bytes]) -> bool:
        """Whether all that matters of a request are these, its first words.

        Not where it writes elements: they might have deadlines by the time when it is complete.
        """
        kind = rule.key_kind
        if self.is_late or kind == ANY_KEY or (rule.override and rule.override.late):
            return False
        if kind != NO_KEY and (len(words) < 2 or self.caller.keys.is_internal(words[1])):
            return False
        return self._are_plain((words,)) and (kind == NO_KEY or words[1] not in self.registry.names)

    def _passed(self) -> None:
        """A request is complete whose key may have got deadlines while it came."""
        self.writes(self._passing)
        self._passing = []

    def _with_care(self, commands: list[list[bytes]], now_ms: int) -> bytes:
        """The chunk command by command; runs that are not rewritten stay as they were sent."""
        requests = self._requests
        raw = requests.raw
        self.unblock()
        instead_of = self._suspect if self._may_name_hidden(raw, commands) else self._decide
        out: list[bytes] = []
        sent = 0
        for args, begin, end in requests.exact(commands):
            rewritten = instead_of(args, now_ms)
            if rewritten is None:
                self._counts.forwarded += 1
            else:
                out += (raw[sent:begin], rewritten)
                sent = end
            if self.wait is not None or self.look:
                self.withheld = requests.withhold(end)
                out.append(raw[sent:end])
                return b"".join(out)
        out.append(raw[sent:])
        return b"".join(out)

    def _may_name_hidden(self, raw: bytes, requests: list[list[bytes]]) -> bool:
        """Whether an internal key's name may stand in these bytes, which are these requests.

        Where words are long, it is their beginnings that are fast to look at; where they are not,
        it is the bytes, in which a name may be escaped if it came inline.
        """
        hidden = self._hidden
        if len(raw) < _LONG * len(requests):
            begins = self._hidden_begin in raw
            return (begins and hidden in raw) or (_BACKSLASH in raw and b"\\x" in raw)
        try:
            return any(word.startswith(hidden) for words in requests for word in words)
        except AttributeError:
            return True  # no bulk string, which hiredis lets pass

    def _suspect(self, args: list[bytes], now_ms: int) -> bytes | None:
        """What goes to Redis in place of a request that may name an internal key."""
        rule = self._rules.find(args[0])
        named = any(map(self.caller.keys.is_internal, rule.certain_keys(args)))
        if named and not self.rights.shows_internal:
            return self._counted(rule, refuse(self, rule, errors.INTERNAL_KEY))
        return self._decide(args, now_ms)

    def _decide(self, args: list[bytes], now_ms: int) -> bytes | None:
        """What goes to Redis in place of a request; None for the request as it came."""
        if args[0] in self._plain and not self.is_late and self._are_plain((args,)):
            return None
        rule = self._rules.find(args[0])
        return self._counted(rule, decide(self, rule, args, now_ms))

    def _counted(self, rule: Rule, rewritten: bytes | None) -> bytes | None:
        if rewritten is not None:
            if rule.virtual:
                self._counts.virtual += 1
            else:
                self._counts.rewritten += 1
        return rewritten
