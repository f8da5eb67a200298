"""The settings of a client's connection: each of its connections to masters needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ttlproxy.core.permissions import DEFAULT_USER

# Subcommands of CLIENT, and how many words name what they set; TRACKING: see `keep`.
KEPT: Final = {
    b"SETNAME": 2,
    b"SETINFO": 3,
    b"NO-EVICT": 2,
    b"NO-TOUCH": 2,
    b"TRACKING": 2,
    b"CAPA": 2,
    b"IMPORT-SOURCE": 2,
}
_AUTH: Final = (b"AUTH",)
_HELLO: Final = (b"HELLO",)
_NAME: Final = (b"CLIENT", b"SETNAME")
_TRACKING: Final = (b"CLIENT", b"TRACKING")
# The options of HELLO and of CLIENT TRACKING that are more than a word.
_SIZES: Final = {b"AUTH": 3, b"SETNAME": 2, b"PREFIX": 2, b"REDIRECT": 2}


def is_setting(name: str, args: Sequence[bytes]) -> bool:
    """Whether a request, of the command `name`, sets something for the client's connection."""
    if name == "CLIENT":
        return len(args) > 1 and (args[1].upper() in KEPT or args[1].upper() == b"REPLY")
    return name in ("AUTH", "HELLO")


class ConnectionSettings:
    """The requests that bring a connection of the client into the state of the others."""

    def __init__(self) -> None:
        self._words: dict[tuple[bytes, ...], list[bytes]] = {}  # by what they set

    def __iter__(self) -> Iterator[list[bytes]]:
        """AUTH comes first: before it Redis may refuse the others."""
        login = self._words.get(_AUTH)
        if login is not None:
            yield login
        yield from (words for what, words in self._words.items() if what != _AUTH)

    @property
    def is_resp3(self) -> bool:
        return _HELLO in self._words and self._words[_HELLO][1] == b"3"

    @property
    def user(self) -> bytes:
        """The one that the client is logged in as."""
        login = self._words.get(_AUTH, [])
        return login[1] if len(login) == 3 else DEFAULT_USER

    @property
    def tracks(self) -> bool:
        """Whether Redis remembers which keys the client has read, or tells it of all."""
        return any(what[:2] == _TRACKING for what in self._words)

    @property
    def tracks_all(self) -> bool:
        """Whether it is told of all keys that begin in some way."""
        kept = self._words.items()
        return any(b"BCAST" in options(words[3:]) for what, words in kept if what[:2] == _TRACKING)

    def clear(self) -> None:
        self._words.clear()

    def keep(self, args: list[bytes]) -> None:
        """A request has succeeded: AUTH, HELLO, or a subcommand of CLIENT of KEPT."""
        name = args[0].upper()
        if name == b"AUTH":
            self._words[_AUTH] = args
        elif name == b"HELLO":
            self._keep_hello(args)
        elif args[1].upper() == b"TRACKING":  # prefixes are added to those of before
            self._keep_tracking(args)
        else:
            self._last((b"CLIENT", *map(bytes.upper, args[1 : KEPT[args[1].upper()]])), args)

    def _keep_hello(self, args: list[bytes]) -> None:
        """Keeps what HELLO sets beside the protocol until something else is set."""
        found = options(args[2:])
        if b"AUTH" in found:
            self._words[_AUTH] = found[b"AUTH"]
        called = found.get(b"SETNAME")
        if called is None:
            called = self._words.get(_HELLO, [])[2:]
        else:
            self._words.pop(_NAME, None)
        self._words[_HELLO] = [*args[:2], *called]

    def _keep_tracking(self, args: list[bytes]) -> None:
        if args[2].upper() == b"ON":
            self._last((*_TRACKING, *args[2:]), args)
        else:
            self._words = {
                what: kept for what, kept in self._words.items() if what[:2] != _TRACKING
            }

    def _last(self, what: tuple[bytes, ...], args: list[bytes]) -> None:
        self._words.pop(what, None)
        self._words[what] = args


def options(words: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """The options of HELLO or CLIENT TRACKING, each with its words, by name in upper case."""
    found, at = {}, 0
    while at < len(words):
        name = words[at].upper()
        size = _SIZES.get(name, 1)
        found[name] = [name, *words[at + 1 : at + size]]
        at += size
    return found
