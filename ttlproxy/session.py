"""One client's conversation, without I/O: bytes in, bytes out, or "reap these first".

Knows what each request may do to deadlines. Knows no socket, and of time only what a function says
that it is given: ms of the Redis server's clock. It never sees a reply, so nothing here depends on
whether a request succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from ttlproxy import errors
from ttlproxy.commands import NO_KEY, ONE_KEY, Call, Override, Rule, Rules, Survey, Virtual
from ttlproxy.keys import Keys
from ttlproxy.registry import Place, Registry
from ttlproxy.rights import Rights
from ttlproxy.scripts import Script, Scripts
from ttlproxy.wire import PARSER, Requests, encode

QUIT: Final = encode((b"QUIT",))
# Users that one client tries to log in as, before those it tried first are forgotten.
_USERS_MAX: Final = 8


class Caller:
    """Turns calls into requests for Redis; shared by all sessions and the link."""

    __slots__ = ("_keys", "_scripts", "_section")

    def __init__(self, scripts: Scripts, keys: Keys, section: Callable[[], bytes]) -> None:
        """`section()` is INFO's section about the proxy, as of now."""
        self._section = section
        self._scripts = scripts
        self._keys = keys

    def words(self, call: Call, db: bytes, by_text: bool, resp: bytes = b"2") -> tuple[bytes, ...]:
        """The words of an EVALSHA, or of an EVAL with the script's text.

        `resp` is b"3" where the client may be in RESP3.
        """
        script = self._scripts[call.script]
        keys = self.key_names(script, call.keys)
        head = (b"EVAL", script.text) if by_text else (b"EVALSHA", script.sha)
        argv: Sequence[bytes] = call.argv
        if script.argv[:1] == ("db",):
            argv = (db, *argv)
        elif script.argv[:1] == ("origin",):
            argv = (b"%s %s" % (db, argv[0]), *argv[1:])
        elif script.argv[:1] == ("resp",):
            argv = (resp, *argv)
        elif script.argv[:1] == ("section",):
            argv = (self._section(), *argv)
        return (*head, b"%d" % len(keys), *keys, *argv)

    def key_names(self, script: Script, data: Sequence[bytes]) -> list[bytes]:
        """What a script's header calls its KEYS, for these data keys."""
        names: list[bytes] = []
        for role in script.keys:
            names += _ROLES[role](self._keys, data)
        return names

    def index(self, key: bytes) -> bytes:
        """The name of the index of a data key."""
        return self._keys.index(key)

    @property
    def loaded(self) -> bool:
        """Whether Redis is believed to know the scripts by their SHA."""
        return self._scripts.loaded

    @property
    def prefix(self) -> bytes:
        """What the names of internal keys start with."""
        return self._keys.prefix

    def flushed(self) -> None:
        """A SCRIPT FLUSH is on its way."""
        self._scripts.flushed()

    def notifying(self, flags: str) -> None:
        """A CONFIG SET of the keyspace events is on its way; the link sees whether it is taken."""
        self._scripts.suit(self._scripts.traits.notifying(flags))


_ROLES: Final[dict[str, Callable[[Keys, Sequence[bytes]], Iterable[bytes]]]] = {
    "data": lambda keys, data: (data[0],),
    "index": lambda keys, data: (keys.index(data[0]),),
    "target": lambda keys, data: (data[1],),
    "target_index": lambda keys, data: (keys.index(data[1]),),
    "schedule": lambda keys, data: (keys.schedule,),
    "key...": lambda keys, data: (*data, *map(keys.index, data)),
    "lease": lambda keys, data: (keys.lease,),
    "layout": lambda keys, data: (keys.layout,),
    "fixed...": lambda keys, data: keys.fixed,
}


class Session:
    """A client's requests, on their way to Redis.

    After `from_client`:
      reap: places whose due elements must be gone before the bytes it gave go on
      reap_in: databases all of whose due elements must be
      unswept: places that must be swept before those bytes go on
      sweep: keys that a forwarded request may have changed without their index
      quit: a QUIT is on its way, the client's or ours
      silent: CLIENT REPLY has passed, so a request may have no reply
      behind_blocking: a blocking command has passed, whose reply may still be out
    """

    __slots__ = (
        "_blocked",
        "_caller",
        "_db",
        "_heedful",
        "_hidden",
        "_hidden_begin",
        "_in_multi",
        "_multi_databases",
        "_multi_filled",
        "_multi_flushes",
        "_multi_keys",
        "_multi_written",
        "_now_ms",
        "_plain",
        "_registry",
        "_relay",
        "_requests",
        "_resp",
        "_rights",
        "_rules",
        "_users",
        "behind_blocking",
        "quit",
        "reap",
        "reap_in",
        "silent",
        "sweep",
        "unswept",
    )

    def __init__(
        self,
        rules: Rules,
        caller: Caller,
        registry: Registry,
        rights: Rights,
        now_ms: Callable[[], int],
        max_request_bytes: int,
    ) -> None:
        self._rules = rules
        self._plain = rules.plain
        self._now_ms = now_ms
        self._caller = caller
        self._registry = registry
        self._rights = rights
        self._requests = Requests(max_request_bytes)
        # The database as a script gets it; "?n" once a SELECT has passed, which may have failed.
        self._db = b"0"
        self._in_multi = False
        self._multi_keys: set[bytes] = set()
        self._multi_databases: set[int] = set()
        self._multi_flushes = False
        # All that the client may be logged in as: what it tried may have failed.
        self._users = {b"default"}
        # b"3" once the client has asked for that, which may have failed.
        self._resp = b"2"
        self._multi_written: set[bytes] = set()
        self._multi_filled: set[bytes] = set()
        # Of the last blocking commands, what they may have popped from when the next request comes.
        self._blocked: set[bytes] = set()
        self._relay = False
        # What no client may name: the prefix of internal keys. Its first byte, an int, is found, or
        # not, in a tenth of the time.
        self._hidden = caller.prefix
        self._hidden_begin = caller.prefix[0]
        # In the middle of something, so that the next chunk is not a common one.
        self._heedful = False
        self.behind_blocking = False
        self.quit = False
        self.silent = False
        self.reap: set[Place] = set()
        self.reap_in: set[int] = set()
        self.sweep: set[bytes] = set()
        self.unswept: set[Place] = set()

    def passes(self, data: bytes) -> bool:
        """Whether a chunk of the client's goes to Redis as it is, and nothing follows from it.

        The common case, and all that is done for it. If the answer is no, `from_client` takes the
        chunk.
        """
        if self._heedful or (self._hidden_begin in data and data.find(self._hidden) >= 0):
            return False
        requests = PARSER.whole(data)
        return requests is not None and self._are_plain(requests)

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
        commands = requests.feed(data)
        heedful = self._in_multi or self.behind_blocking or requests.relay
        if not (heedful or self._may_name_hidden(requests.raw)) and self._are_plain(commands):
            out = requests.raw
        else:
            out = self._with_care(self._now_ms())
            heedful = self._in_multi or self.behind_blocking or requests.relay
        self._heedful = heedful or requests.pending
        return out

    def finish(self) -> bytes:
        """No more requests will come: what lets Redis answer all that is owed, and then close."""
        if self.quit or self.relays:
            return b""
        self.quit = True
        return QUIT

    @property
    def relays(self) -> bool:
        """Whether bytes pass unread: nothing of ours can be put between them."""
        return self._relay or self._requests.relay

    @property
    def at_boundary(self) -> bool:
        """Whether no request is half here, and no transaction half done."""
        return not (self._in_multi or self.relays or self._requests.pending)

    @property
    def db(self) -> int:
        """The logical database that the client is believed to be in."""
        return int(self._db.lstrip(b"?"))

    def _are_plain(self, requests: Iterable[list[bytes]]) -> bool:
        """Whether these need no more than their names, and names of no managed key among them."""
        plain, names = self._plain, self._registry.names
        try:
            for args in requests:
                kind = plain[args[0]]
                if names and kind != NO_KEY:
                    if kind == ONE_KEY:
                        if args[1] in names:
                            return False
                    elif not names.keys().isdisjoint(args):
                        return False
        except (KeyError, IndexError, TypeError):
            return False  # not plain, without its key, or no bulk string, which hiredis lets pass
        return True

    def _with_care(self, now_ms: int) -> bytes:
        """The chunk command by command; runs that are not rewritten stay as they were sent."""
        requests = self._requests
        raw = requests.raw
        self._unblock()
        decide = self._suspect if self._may_name_hidden(raw) else self._decide
        out: list[bytes] = []
        sent = 0
        for args, begin, end in requests.exact():
            rewritten = None if self._relay else decide(args, now_ms)
            if rewritten is not None:
                out += (raw[sent:begin], rewritten)
                sent = end
        out.append(raw[sent:])
        return b"".join(out)

    def _unblock(self) -> None:
        """A client that sends more has its element, as a rule: what blocked it may be swept."""
        if self._blocked:
            blocked, self._blocked = self._blocked, set()
            self.sweep.update(blocked & self._registry.names.keys())

    def _may_name_hidden(self, raw: bytes) -> bool:
        """Whether an internal key's name may stand in these bytes; inline, it may be escaped."""
        return self._hidden in raw or b"\\x" in raw

    def _suspect(self, args: list[bytes], now_ms: int) -> bytes | None:
        """What goes to Redis in place of a request that may name an internal key."""
        rule = self._rules.find(args[0])
        named = any(key.startswith(self._hidden) for key in rule.certain_keys(args))
        if named and not self._rights.shows_internal:
            return self._refuse(rule, errors.INTERNAL_KEY)
        return self._decide(args, now_ms)

    def _decide(self, args: list[bytes], now_ms: int) -> bytes | None:
        """What goes to Redis in place of a request; None for the request as it came."""
        if not (self._in_multi or self.behind_blocking) and self._are_plain((args,)):
            return None
        rule = self._rules.find(args[0])
        if rule.stateful:
            instead = _STATEFUL[rule.name](self, args, now_ms)
            if instead is not None:
                return instead
        if rule.virtual:
            return self._virtual(rule, rule.virtual, args, now_ms)
        if rule.longer and rule.longer.fits(len(args)):
            return self._virtual(rule, rule.longer, args, now_ms)
        if rule.override and rule.fits(len(args)) and rule.override.takes(args):
            return self._override(rule, args, now_ms)
        if rule.survey and rule.fits(len(args)):
            return self._survey(rule.survey, args)
        self._native(rule, args, now_ms)
        return None

    def _virtual(
        self, rule: Rule, virtual: Virtual, args: list[bytes], now_ms: int
    ) -> bytes | None:
        if not virtual.fits(len(args)):
            if self._in_multi:
                return None  # Redis refuses it, and EXEC aborts
            return self._refuse(rule, errors.wrong_arity(rule.name))
        self._reap(rule.keys(args), now_ms)
        if virtual.sets_deadlines:
            self._registry.pin(self.db, args[1])
        return self._call(virtual.plan(args))

    def _refuse(self, rule: Rule, text: bytes) -> bytes:
        return self._call(Call("refuse", (), (rule.name.lower().encode(), b"", b"0", text)))

    def _override(self, rule: Rule, args: list[bytes], now_ms: int) -> bytes | None:
        override = rule.override
        assert override
        names = self._registry.names
        keys = override.keys(args)
        late = self._may_be_late(override)
        managed = names and keys and (late or any(key in names for key in keys))
        if not (managed or (override.always and override.always(args))):
            self._native(rule, args, now_ms)
            return None
        self._reap(rule.keys(args), now_ms)
        target_db = override.target_db(args)
        for target in override.targets(args):
            self._registry.pin(self.db if target_db is None else target_db, target)
        if override.whole:
            self._sweep(override.targets(args))
        return self._call(override.plan(args))

    def _may_be_late(self, override: Override) -> bool:
        """Whether a key may become managed before a request is carried out, and that matters.

        A client that may not touch indexes is left alone on keys that are not known as managed.
        """
        late = override.late and (self._in_multi or self.behind_blocking)
        rights, users = self._rights, self._users
        return late and rights.may_script(users) and rights.may_watch(users)

    def _survey(self, survey: Survey, args: list[bytes]) -> bytes | None:
        if survey.of_keys:
            self._reap_all()
        if survey.of_keys and self._rights.shows_internal:
            return None
        plan = survey.plan(args)
        if isinstance(plan, Call):
            return self._call(plan) if self._may_hear(survey) else None
        return None if plan is None else encode(plan)

    def _may_hear(self, survey: Survey) -> bool:
        """Whether a script may answer: Redis refuses the client nothing that it does not call."""
        rights, users = self._rights, self._users
        return rights.may_script(users) and (not survey.heard or rights.may_ask_acl(users))

    def _native(self, rule: Rule, args: list[bytes], now_ms: int) -> None:
        """A request that goes on as it came."""
        if rule.blocks:
            self.behind_blocking = True
        if self._registry.names or self._in_multi:
            self._reap(rule.keys(args), now_ms)
            self._sweep(rule.written(args))
            self._fill(rule.filled(args))
        if rule.blocks:
            self._blocked.update(rule.written(args))

    def _reap(self, keys: Iterable[bytes], now_ms: int) -> None:
        for key in keys:
            self.reap.update(self._registry.due(key, now_ms))
        if self._in_multi:
            self._multi_keys.update(keys)

    def _reap_all(self) -> None:
        """A SELECT may have failed, so in all databases where anything may be due."""
        databases = self._registry.databases()
        self.reap_in.update(databases)
        if self._in_multi:
            self._multi_databases.update(databases)

    def _sweep(self, keys: Iterable[bytes]) -> None:
        if self._in_multi:
            self._multi_written.update(keys)
        else:
            names = self._registry.names
            self.sweep.update(key for key in keys if key in names)

    def _fill(self, keys: Iterable[bytes]) -> None:
        """What is put in must not meet the deadline of an equal element that is gone."""
        if self._in_multi:
            self._multi_filled.update(keys)
        else:
            for key in keys:
                self.unswept.update(self._registry.places(key))

    def _call(self, call: Call) -> bytes:
        # A NOSCRIPT inside EXEC could be neither retried nor undone.
        by_text = self._in_multi or not self._caller.loaded
        return encode(self._caller.words(call, self._db, by_text, self._resp))

    # Commands that change what later ones mean.

    def _multi(self, args: list[bytes], now_ms: int) -> None:
        self._in_multi = True

    def _exec(self, args: list[bytes], now_ms: int) -> None:
        self._in_multi = False
        self._reap(self._multi_keys, now_ms)
        self._sweep(self._multi_written)
        self._fill(self._multi_filled)
        self.reap_in.update(self._multi_databases)
        if self._multi_flushes:
            self._caller.flushed()
        self._forget_multi()

    def _discard(self, args: list[bytes], now_ms: int) -> None:
        self._in_multi = False
        self._forget_multi()

    def _forget_multi(self) -> None:
        self._multi_keys, self._multi_written, self._multi_filled = set(), set(), set()
        self._multi_databases = set()
        self._multi_flushes = False

    def _select(self, args: list[bytes], now_ms: int) -> None:
        if len(args) == 2 and args[1].isdigit() and len(args[1]) < 10:
            self._db = b"?%d" % int(args[1])

    def _swapdb(self, args: list[bytes], now_ms: int) -> bytes | None:
        if len(args) != 3 or not all(word.isdigit() and len(word) < 10 for word in args[1:]):
            return None  # Redis refuses it
        if not self._registry.names:
            return None
        if not self._rights.may_script(self._users):
            self._registry.swapped(int(args[1]), int(args[2]))
            return None
        self._registry.expect()
        return self._call(Call("key_swap", (), args[1:]))

    def _watch(self, args: list[bytes], now_ms: int) -> bytes | None:
        """Indexes are watched, too: a changed deadline aborts EXEC, as native HEXPIRE does."""
        self._reap(args[1:], now_ms)
        if self._in_multi or len(args) < 2 or not self._rights.may_watch(self._users):
            return None
        return encode((*args, *map(self._caller.index, args[1:])))

    def _reset(self, args: list[bytes], now_ms: int) -> None:
        self._discard(args, now_ms)
        self._db = b"?0"

    def _client(self, args: list[bytes], now_ms: int) -> None:
        if len(args) > 1 and args[1].upper() == b"REPLY":
            self.silent = True

    def _config(self, args: list[bytes], now_ms: int) -> None:
        if len(args) > 3 and args[1].upper() == b"SET":
            for name, value in zip(args[2::2], args[3::2], strict=False):
                if name.lower() == b"notify-keyspace-events":
                    self._caller.notifying(value.decode(errors="replace"))

    def _script(self, args: list[bytes], now_ms: int) -> None:
        if len(args) > 1 and args[1].upper() == b"FLUSH":
            self._caller.flushed()
            self._multi_flushes = self._in_multi

    def _auth(self, args: list[bytes], now_ms: int) -> None:
        if len(args) == 3:
            self._may_be(args[1])

    def _hello(self, args: list[bytes], now_ms: int) -> None:
        if args[1:2] == [b"3"]:
            self._resp = b"3"
        for word, user in pairwise(args[2:]):
            if word.upper() == b"AUTH":
                self._may_be(user)

    def _may_be(self, user: bytes) -> None:
        if len(self._users) >= _USERS_MAX:
            self._users.clear()
        self._users.add(user)

    def _quit(self, args: list[bytes], now_ms: int) -> None:
        self.quit = True

    def _to_replica(self, args: list[bytes], now_ms: int) -> None:
        """From here on the client is a replica: what it sends are no requests."""
        self._relay = True


_STATEFUL: Final[dict[str, Callable[[Session, list[bytes], int], bytes | None]]] = {
    "MULTI": Session._multi,
    "EXEC": Session._exec,
    "DISCARD": Session._discard,
    "SELECT": Session._select,
    "SWAPDB": Session._swapdb,
    "WATCH": Session._watch,
    "RESET": Session._reset,
    "CLIENT": Session._client,
    "CONFIG": Session._config,
    "SCRIPT": Session._script,
    "QUIT": Session._quit,
    "PSYNC": Session._to_replica,
    "SYNC": Session._to_replica,
    "AUTH": Session._auth,
    "HELLO": Session._hello,
}
