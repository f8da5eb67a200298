"""Decides which requests may go over a connection to Redis that several clients share.

Redis must find exactly these requests in the bytes of a chunk, and answer each once: a frame that
it refuses would end the connection for all clients. So only complete arrays of bulk strings are
accepted, as client libraries send them, and no inline commands or empty lines.

The requests with which a client begins change the state of its connection. For each of them it is
known from the reply what it has changed. Connections in the same state are interchangeable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from ttlproxy.commands.shareable import SHAREABLE_SUBCOMMANDS
from ttlproxy.session.replies import ERRORS, Tell
from ttlproxy.wire import cut, encode, pieces, whole
from ttlproxy.wire.scanner import Scanner

# A client that sends more such requests than this has left its beginning.
_MOST: Final = 16


class ConnectionState(NamedTuple):
    """The state of a connection on which later requests depend.

    auth: the words of an AUTH, none without a login; resp: the version of the protocol; db: the
    logical database
    """

    auth: tuple[bytes, ...] = ()
    resp: bytes = b"2"
    db: bytes = b"0"

    @property
    def requests(self) -> list[bytes]:
        """Returns the requests that bring a new connection into this state. None of their replies
        is an error, unless Redis has changed."""
        words = {
            "auth": self.auth,
            "resp": (b"HELLO", self.resp),
            "db": (b"SELECT", self.db),
        }
        return [encode(words[name]) for name in words if getattr(self, name) != _NEW[name]]


_NEW: Final = ConnectionState()._asdict()


class _Begins(NamedTuple):
    """A request that a client may begin with.

    sets: fields of ConnectionState that it sets if it succeeds; introduces: a request that says the
    client's name or library, and only changes what CLIENT LIST shows; may_succeed, may_fail:
    whether its effect is known if it succeeds, or fails
    """

    sets: dict[str, bytes | tuple[bytes, ...]]
    introduces: tuple[bytes, ...] = ()
    may_succeed: bool = True
    may_fail: bool = True


def _auth(words: Sequence[bytes]) -> _Begins | None:
    return _Begins({"auth": (b"AUTH", *words[1:])}) if len(words) in (2, 3) else None


def _select(words: Sequence[bytes]) -> _Begins | None:
    return _Begins({"db": words[1]}) if len(words) == 2 and words[1].isdigit() else None


def _hello(words: Sequence[bytes]) -> _Begins | None:
    """Reads a HELLO. If one with options fails, Redis before 7.2 may have carried out some of
    them."""
    if len(words) == 1:
        return _Begins({})
    sets: dict[str, bytes | tuple[bytes, ...]] = {"resp": words[1]}
    introduces: tuple[bytes, ...] = ()
    options = list(words[2:])
    while options:
        option, count = options[0].upper(), len(options)
        if option == b"AUTH" and count > 2 and "auth" not in sets:
            sets["auth"] = (b"AUTH", *options[1:3])
            del options[:3]
        elif option == b"SETNAME" and count > 1 and not introduces:
            introduces = (b"CLIENT", b"SETNAME", options[1])
            del options[:2]
        else:
            return None
    return _Begins(sets, introduces, may_fail=len(words) == 2)


def _client(words: Sequence[bytes]) -> _Begins | None:
    subcommand = words[1].upper() if len(words) > 1 else b""
    if subcommand == b"MAINT_NOTIFICATIONS":  # of Redis Enterprise; other servers refuse it
        return _Begins({}, may_succeed=False)
    return _Begins({}, tuple(words)) if INTRODUCES.get(subcommand) == len(words) else None


# Requests that most libraries send with each new connection: the subcommands of CLIENT that always
# have one reply, and only change what CLIENT LIST shows; and their numbers of words.
INTRODUCES: Final = {b"SETINFO": 4, b"SETNAME": 3}
_SAID: Final = frozenset({b"SETNAME", b"LIB-NAME", b"LIB-VER"})
_LONGEST: Final = 64
_BEGINNINGS: Final[dict[bytes, Callable[[Sequence[bytes]], _Begins | None]]] = {
    b"AUTH": _auth,
    b"HELLO": _hello,
    b"SELECT": _select,
    b"CLIENT": _client,
}


def _read(words: Sequence[bytes]) -> _Begins | None:
    """Returns None for a request that no client begins with."""
    read = _BEGINNINGS.get(words[0].upper())
    return None if read is None else read(words)


def introduction(words: Sequence[bytes]) -> dict[bytes, bytes]:
    """Returns what a request says of its client, cut to a length: SETNAME, LIB-NAME or LIB-VER ->
    value. Redis may refuse the request."""
    begins = _read(words)
    if begins is None or not begins.introduces:
        return {}
    *_, what, said = begins.introduces
    return {what.upper(): said[:_LONGEST]} if what.upper() in _SAID else {}


def outcome(words: Sequence[bytes]) -> Callable[[bytes], bool] | None:
    """Returns a function that takes the reply to a request and returns whether its effect is known;
    None for a request that no client begins with."""
    begins = _read(words)
    if begins is None:
        return None
    return lambda reply: begins.may_fail if reply[0] in ERRORS else begins.may_succeed


def state_after(requests: Iterable[Sequence[bytes]]) -> ConnectionState | None:
    """Returns the state of a connection on which these requests have succeeded; None if no client
    begins with one of them."""
    state = ConnectionState()
    for words in requests:
        begins = _read(words)
        if begins is None:
            return None
        state = state._replace(**begins.sets)  # type: ignore[arg-type]
    return state


def first_request(data: bytes) -> tuple[bytes, list[bytes]] | None:
    """Returns the first request of a chunk, as bytes and as words, if a client may begin with it;
    else None.

    None also if the chunk does not end with a request.
    """
    requests = whole(data)
    if requests is None or _read(requests[0]) is None:
        return None
    return encode(tuple(requests[0])), requests[0]


class Handshake:
    """Follows a client's connection to Redis from its beginning.

    state: the connection's state, once all replies have come; introductions: requests that say the
    client's name or library; is_over: the client has sent another request, or the effect of one is
    unknown
    """

    def __init__(self) -> None:
        self.state = ConnectionState()
        self.introductions: list[bytes] = []
        self.is_over = False
        self._left = _MOST

    def sends(self, words: Sequence[bytes]) -> Tell | None:
        """Notes a request that is about to be sent. Returns the function that takes its reply's
        first line, None if the reply does not matter."""
        begins = _read(words)
        self._left -= 1
        if begins is None or self._left < 0:
            self.is_over = True
            return None

        def tell(line: bytes | None) -> bool:
            self._takes(begins, line)
            return True

        return tell

    def introduces(self, requests: Sequence[Sequence[bytes]]) -> bool:
        """Notes requests that name the client, sent over another connection; False if there are too
        many."""
        self._left -= len(requests)
        if self._left < 0:
            return False
        self.introductions += [encode(tuple(words)) for words in requests]
        return True

    def _takes(self, begins: _Begins, line: bytes | None) -> None:
        has_succeeded = line is not None and line[0] not in ERRORS
        is_known = begins.may_succeed if has_succeeded else begins.may_fail
        self.is_over = self.is_over or line is None or not is_known
        if has_succeeded:
            self.state = self.state._replace(**begins.sets)  # type: ignore[arg-type]
            if begins.introduces:
                self.introductions.append(encode(begins.introduces))


# A larger request delays the other clients for long, and Redis closes the connection if a bulk
# string is larger than proto-max-bulk-len, which is 1 MiB at least.
LARGEST: Final = 64 * 1024

_CLIENT: Final = (b"CLIENT", b"client")


class CutChunk(NamedTuple):
    """A chunk that may end within a request.

    requests: the complete ones, maybe none; rest: the bytes of an incomplete request after them
    """

    requests: list[list[bytes]]
    rest: bytes


class Introducing(NamedTuple):
    """The requests of a chunk, and those of them that only say the client's name or library."""

    requests: list[list[bytes]]
    introductions: list[list[bytes]]


def may_go(args: Sequence[bytes], names: AbstractSet[bytes]) -> bool:
    """Whether a request may go over a shared connection, whatever its form; `names`: as for
    `read`."""
    if args[0] in names:
        return True
    return len(args) > 1 and args[1].upper() in SHAREABLE_SUBCOMMANDS.get(args[0].upper(), ())


def may_all_go(data: bytes, names: AbstractSet[bytes]) -> bool:
    """Whether the commands of a chunk may go in another form; True also if it cannot be read."""
    requests = whole(data)
    return requests is None or all(may_go(args, names) for args in requests)


def read(data: bytes, names: AbstractSet[bytes]) -> list[list[bytes]] | None:
    """Returns the requests of a chunk of complete requests that all may go; None for any other
    chunk.

    `names`: the commands that may go with any subcommand, in upper and in lower case.
    """
    requests = whole(data)
    if requests is None or not all(may_go(args, names) for args in requests):
        return None
    if len(data) > LARGEST and max(map(len, pieces(data))) > LARGEST:
        return None
    return requests


def read_introducing(data: bytes, names: AbstractSet[bytes]) -> Introducing | None:
    """Does what `read` does; the client may also name itself in the chunk."""
    if not any(word in data for word in _CLIENT):
        return None  # the usual case; so no set of names is built for nothing
    requests = read(data, {*names, *_CLIENT})
    if requests is None:
        return None
    own = [args for args in requests if args[0] in _CLIENT]
    if any(len(args) < 2 or INTRODUCES.get(args[1].upper()) != len(args) for args in own):
        return None
    return Introducing(requests, own)


def read_cut(data: bytes, names: AbstractSet[bytes]) -> CutChunk | None:
    """Does what `read` does; the chunk may end within a request."""
    requests, end = cut(data)
    scanner = Scanner(data[end:])
    if scanner.next() is not None or scanner.start or scanner.broken:
        return None  # not in the form that client libraries send
    if data[end : end + 1] != b"*" or scanner.size > LARGEST:
        return None
    if requests and read(data[:end], names) is None:
        return None
    return CutChunk(requests, data[end:])
