"""Handles the commands that change what later ones mean, with a function for each.

Each function notes in the state what the request may change. It returns the bytes that go to Redis
in its place, or None if the request is handled like any other. Redis may refuse the request. Then
either its reply corrects the state, or the note costs its own client some speed and other clients
nothing that lasts (ttlproxy.scripts.unconfirmed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from ttlproxy import errors
from ttlproxy.commands import Call, Route
from ttlproxy.commands.parsing import is_integer
from ttlproxy.commands.route import Stateful
from ttlproxy.commands.spec import refusal
from ttlproxy.core.permissions import DEFAULT_USER
from ttlproxy.scripts.unconfirmed import Events, Flush, Swap, Users
from ttlproxy.session.effects import Transaction
from ttlproxy.session.replies import ERRORS, HeldReply, Tell, is_hidden
from ttlproxy.session.state import SessionState
from ttlproxy.wire import encode

# Before Redis 7.0 only EVAL measures the memory, for all scripts and all clients, and EXEC does not
# (src/server.c, lua_oom). This EVAL has it measured now for the scripts that EXEC runs.
_MEASURES: Final = encode((b"EVAL", b"return 1", 0))
# Redis refuses it, and so the transaction: EXECABORT.
_ABORTS: Final = encode((b"EVAL",))


def change(
    state: SessionState, stateful: Stateful, route: Route, args: list[bytes], now_ms: int
) -> bytes | None:
    """Notes what a request changes; returns the bytes that go to Redis in its place, or None."""
    if route.fits(len(args)):
        return CHANGES[route.name](state, args, now_ms)
    if stateful.always_ends_transaction:
        state.transaction = None
    return None


def _multi(state: SessionState, args: list[bytes], now_ms: int) -> None:
    if state.transaction is None:  # Redis refuses a nested MULTI, and the first stays open
        state.transaction = Transaction()


def _exec(state: SessionState, args: list[bytes], now_ms: int) -> None:
    transaction, state.transaction = state.transaction, None
    if transaction is not None:
        _carry_out(state, transaction, now_ms)
        if transaction.modifies:
            state.changes()
        for unconfirmed in transaction.unconfirmed:
            state.may_change(unconfirmed)
        tells: list[Tell] = []
        if (declared := transaction.declared) is not None:
            tells.append(declared.carried_out)
            if declared.denies_oom:
                state.ours = _MEASURES, declared.ours
        if transaction.tells_all and state.skips_replies and not state.uncounted:
            state.step.settles = HeldReply(*tells)
            tells = [state.step.settles]
        state.tells += tells
        if _is_outdated(state, transaction):
            state.ours, state.hides = (_ABORTS, is_hidden), True


def _carry_out(state: SessionState, transaction: Transaction, now_ms: int) -> None:
    """Applies the effects that were noted for EXEC, which is about to be sent."""
    state.manages(transaction.managed)
    state.note_named(transaction.named, now_ms)
    if transaction.sees_all:
        state.sees_all()
    state.sees(transaction.seen)
    state.writes(transaction.written)
    state.fills(transaction.filled)
    state.apply_ttl(transaction.awaiting_ttl)


def _is_outdated(state: SessionState, transaction: Transaction) -> bool:
    """Whether a write is queued that would leave the deadline of its element. That happens if no
    key of its family had a deadline when it was queued. It does not count if the client itself has
    queued writes that set deadlines in this family: these come after that write, or clear its
    deadline."""
    known = state.registry.families
    if not (known and transaction.passed and state.skips_replies) or state.uncounted:
        return False
    own = {known.of(key) for _, key in transaction.managed}
    return any(known.covers(key) and known.of(key) not in own for key in transaction.passed)


def _discard(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.transaction = None


def selected(args: Sequence[bytes]) -> int | None:
    """Returns the database of a SELECT; None for other requests, and for one that Redis refuses."""
    may_be = len(args) == 2 and args[0].upper() == b"SELECT" and _is_number(args[1])
    return int(args[1]) if may_be else None


def _select(state: SessionState, args: list[bytes], now_ms: int) -> bytes | None:
    """Refuses other databases than 0 with a Cluster, also where Valkey 9 has more
    (cluster-databases)."""
    if state.script_calls.keys.clustered:
        is_other = is_integer(args[1]) and args[1] != b"0"
        return _refused(state, "SELECT") if is_other else None
    if (db := selected(args)) is not None:
        state.selects(db)
    return None


def _refused(state: SessionState, name: str) -> bytes:
    return state.encoded(refusal(name, errors.NOT_IN_A_CLUSTER % name.encode()))


def _swapdb(state: SessionState, args: list[bytes], now_ms: int) -> bytes | None:
    if state.script_calls.keys.clustered:
        return _refused(state, "SWAPDB")
    if not all(map(_is_number, args[1:])):
        return None  # Redis refuses it
    if not state.registry.names:
        return None
    one, other = int(args[1]), int(args[2])
    state.sees((one, other))
    if not state.may_script():
        state.may_change(Swap(one, other))
        return None
    state.registry.expect()
    return state.encoded(Call("key_swap", (), args[1:]))


def _flush(state: SessionState, args: list[bytes], now_ms: int) -> None:
    """Expects a push from Redis before the reply, because all keys may be gone, and with them rules
    of ONWRITE."""
    if state.registry.rules:
        state.registry.expect()


def _is_number(word: bytes) -> bool:
    """Whether Redis may accept a word as the number of a database."""
    return word.isdigit() and len(word) < 10


def _watch(state: SessionState, args: list[bytes], now_ms: int) -> bytes | None:
    """Watches indexes too: a changed deadline aborts EXEC, as with native HEXPIRE.

    MULTI needs no exception: Redis refuses WATCH inside a transaction.
    """
    state.note_named(args[1:], now_ms)
    if not state.may_watch():
        return None
    return encode((*args, *map(state.script_calls.keys.index, args[1:])))


def _reset(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.transaction = None
    if state.caches:
        state.may_track(False)
    state.selects(0)
    state.tries(DEFAULT_USER)
    state.introduces((b"CLIENT", b"SETNAME", b""))
    if not state.listens:
        state.silent = False
    if state.rights.asks_login and not state.unauthenticated:
        state.unauthenticated = state.resets = True
        state.tell(partial(_was_reset, state))


def _was_reset(state: SessionState, line: bytes) -> None:
    """Takes the first line of the reply to RESET: the client must log in again, unless this is an
    error."""
    if state.resets:
        state.resets, state.unauthenticated = False, line[0] not in ERRORS


def _client(state: SessionState, args: list[bytes], now_ms: int) -> bytes | None:
    state.introduces(args)
    word = args[1].upper()
    leads_away = _LEADS_AWAY.get(word)
    if leads_away is not None:
        return encode((*args[:2], *leads_away(args[2:])))
    if word in _OF_TRACKING and state.skips_replies:
        _OF_TRACKING[word](state, args)
    if len(args) != 3 or word != b"REPLY":
        return None
    mode = args[2].upper()
    if mode in (b"OFF", b"SKIP"):
        state.silent = state.uncounted = True
    elif mode == b"ON" and state.transaction is None and not state.listens:
        state.silent = False  # a user that may send OFF may send ON
    return None


def _tracking(state: SessionState, args: list[bytes]) -> None:
    """Notes whether Redis tracks all that the client reads. With OPTIN it tracks only the reads
    that come after a CLIENT CACHING YES."""
    words = {*map(bytes.upper, args[2:])}
    state.may_track(b"ON" in words and words.isdisjoint((b"OPTIN", b"BCAST")))


def _caching(state: SessionState, args: list[bytes]) -> None:
    if state.caches:
        state.standing = encode(tuple(args))


_OF_TRACKING: Final = {b"TRACKING": _tracking, b"CACHING": _caching}


def _without_redirect(capabilities: Sequence[bytes]) -> Sequence[bytes]:
    """Replaces REDIRECT by a word that Valkey does not know: it accepts and ignores such words."""
    return [b"none" if word.upper() == b"REDIRECT" else word for word in capabilities]


def _switched_off(words: Sequence[bytes]) -> Sequence[bytes]:
    return (b"OFF",) if words and words[0].upper() == b"ON" else words


# Subcommands of CLIENT that make the server send the client to an address of its own, past the
# proxy, by an error (Valkey 8) or a push (Redis Enterprise); and the function that makes them
# harmless.
_LEADS_AWAY: Final = {b"CAPA": _without_redirect, b"MAINT_NOTIFICATIONS": _switched_off}


def _config(state: SessionState, args: list[bytes], now_ms: int) -> None:
    if args[1].upper() == b"SET":
        for name, value in zip(args[2::2], args[3::2], strict=False):
            if name.lower() == b"notify-keyspace-events":
                state.may_change(Events(value.decode(errors="replace")))


def _script(state: SessionState, args: list[bytes], now_ms: int) -> None:
    if args[1].upper() == b"FLUSH" and (*map(bytes.upper, args[2:]),) in _FLUSHES:
        state.may_change(Flush())


def _acl(state: SessionState, args: list[bytes], now_ms: int) -> None:
    if args[1].upper() in (b"SETUSER", b"DELUSER", b"LOAD"):
        state.may_change(Users())


# The arguments that SCRIPT FLUSH takes.
_FLUSHES: Final = ((), (b"ASYNC",), (b"SYNC",))


def _auth(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.tries(args[1] if len(args) == 3 else DEFAULT_USER)


def _hello(state: SessionState, args: list[bytes], now_ms: int) -> None:
    if args[1:2] == [b"3"]:
        before, state.resp = state.resp, b"3"
        state.tell(lambda line: _was_greeted(state, before, line))
    elif args[1:] and state.listens:
        state.uncounted = True  # replies come in the old RESP version or in the new one
    state.introduces(args)
    for word, user in pairwise(args[2:]):
        if word.upper() == b"AUTH":
            state.tries(user)


def _was_greeted(state: SessionState, before: bytes, line: bytes) -> None:
    """Takes the first line of the reply to HELLO 3; `before`: the RESP version until then."""
    if line[0] in ERRORS:
        state.resp = before


def _quit(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.quit = True


def _listens(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.listens = True
    _ends_listening(state, args, now_ms)


def _ends_listening(state: SessionState, args: list[bytes], now_ms: int) -> None:
    """Notes how many confirmations Redis sends: one for each channel. Without a channel their
    number is unknown, and in MULTI their position is."""
    state.confirmations = len(args) - 1
    if not state.confirmations or state.transaction is not None:
        state.uncounted = True


def _monitors(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.listens = state.uncounted = True


def _replicates(state: SessionState, args: list[bytes], now_ms: int) -> None:
    state.replicates = state.uncounted = True


def _replconf(state: SessionState, args: list[bytes], now_ms: int) -> None:
    """Notes that some of these requests have no reply."""
    state.uncounted = True


CHANGES: Final[dict[str, Callable[[SessionState, list[bytes], int], bytes | None]]] = {
    "MULTI": _multi,
    "EXEC": _exec,
    "DISCARD": _discard,
    "SELECT": _select,
    "SWAPDB": _swapdb,
    "FLUSHDB": _flush,
    "FLUSHALL": _flush,
    "WATCH": _watch,
    "RESET": _reset,
    "CLIENT": _client,
    "CONFIG": _config,
    "SCRIPT": _script,
    "ACL": _acl,
    "QUIT": _quit,
    "SUBSCRIBE": _listens,
    "PSUBSCRIBE": _listens,
    "SSUBSCRIBE": _listens,
    "UNSUBSCRIBE": _ends_listening,
    "PUNSUBSCRIBE": _ends_listening,
    "SUNSUBSCRIBE": _ends_listening,
    "MONITOR": _monitors,
    "REPLCONF": _replconf,
    "PSYNC": _replicates,
    "SYNC": _replicates,
    "AUTH": _auth,
    "HELLO": _hello,
}
