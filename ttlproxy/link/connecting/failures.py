"""Explains why a server cannot be used; counts and logs what it refuses.

Errors of redis-py, Python and Redis become words for the operator, none of which contains a secret.
Each cause is logged once a minute, and so is that Redis is away, or back.
"""

from __future__ import annotations

import errno
import logging
import re
from typing import Final, NamedTuple

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.core.text import counted
from ttlproxy.errors import ServerChanged, UpstreamError
from ttlproxy.link.connecting.known_server import ServerClock


class Asked(NamedTuple):
    """The server that was asked, as texts for operators name it.

    name: for people; settings: how the names of its settings begin; user: the proxy's own there,
    for ACL SETUSER; rights: where all rights are listed that the proxy needs
    """

    name: str = "Redis"
    settings: str = "upstream"
    user: str = "default"
    rights: str = "ttlproxy doctor prints all rights that are missing"


class Cause(NamedTuple):
    """what: why the server cannot be used; cure: what to do, empty if that is unknown"""

    what: str
    cure: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.cure}" if self.cure else self.what


REDIS: Final = Asked()
_OF_USER: Final = "refuses requests of the proxy's own user"
_NO_RIGHT: Final = f"{{asked.name}} {_OF_USER} ({{asked.settings}}_user): {{all}}"
_GRANT: Final = "in redis-cli: ACL SETUSER {{asked.user}} {right}; {{asked.rights}}"


def _dial(number: int) -> str:
    """Returns a pattern for errors of redis-py and of Python with this errno."""
    return rf"Error {number} connecting to (?P<where>\S+?)\. |\[Errno {number}\]"


# Pattern in errors of redis-py and Redis, its meaning, and what to do. The first match counts.
_CAUSES: Final = tuple(
    (re.compile(pattern), what, cure)
    for pattern, what, cure in (
        (
            "NOAUTH|Authentication required",
            "{asked.name} requires a password",
            "set {asked.settings}_password_file or {asked.settings}_password",
        ),
        (
            "DENIED|in protected mode",
            "{asked.name} is in protected mode: it has no password, and so serves only clients on"
            " its own machine",
            "give it a password with CONFIG SET requirepass, and set it here with"
            " {asked.settings}_password_file",
        ),
        (
            "without any password|no password is set",
            "{asked.name} has no password for this user",
            "take the password away here, or see {asked.settings}_user",
        ),
        (
            "WRONGPASS|invalid username-password|invalid password",
            "{asked.name} refuses the user or the password",
            "see {asked.settings}_user, {asked.settings}_password and their files",
        ),
        (
            "permissions? to run the '(?P<command>[^']+)' command",
            _NO_RIGHT,
            _GRANT.format(right="+{command}"),
        ),
        (
            "permissions? to access (?:one of the|a|the '.*') key",
            _NO_RIGHT,
            _GRANT.format(right="~*"),
        ),
        (
            "permissions? to access (?:one of the|a|the '.*') channel",
            _NO_RIGHT,
            _GRANT.format(right="&*"),
        ),
        ("NOPERM", _NO_RIGHT, "{asked.rights}"),
        (
            "LOADING|loading the dataset",
            "{asked.name} is loading its data",
            "wait until that is done",
        ),
        (
            "max number of clients",
            "{asked.name} has as many clients as its maxclients allows",
            "raise that with CONFIG SET maxclients, or close clients",
        ),
        (
            "Protocol error, got|Protocol Error",
            "the server answers, but it is no Redis",
            "check host and port",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*(self.signed|unable to get (local )?issuer)",
            "the server's certificate is from an authority that is not trusted here",
            "set {asked.settings}_tls_ca to the file with the CA's certificate",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*(?P<name>certificate is not valid for '[^']*')",
            "the server's {name}",
            "name the server in the URL as its certificate does, or set"
            " {asked.settings}_tls_server_name",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*: (?P<why>[^:]*?)\\.? \\(_ssl",
            "the server's certificate is refused: {why}",
            "see the server's certificate, and the clock of this machine",
        ),
        (
            "CERTIFICATE_REQUIRED|certificate required",
            "the server wants a certificate of the proxy's",
            "set {asked.settings}_tls_cert and {asked.settings}_tls_key",
        ),
        (
            "UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_EXPIRED|CERTIFICATE_UNKNOWN|unknown ca",
            "the server refuses the proxy's certificate",
            "see {asked.settings}_tls_cert",
        ),
        (
            "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|PACKET_LENGTH_TOO_LONG",
            "the server does not speak TLS",
            "check host and port, and whether it should",
        ),
        (
            "(UNSUPPORTED_PROTOCOL|NO_SHARED_CIPHER|PROTOCOL_VERSION|HANDSHAKE_FAILURE)",
            "the server and the proxy have no version of TLS or cipher in common",
            "see tls-protocols and tls-ciphers of the server",
        ),
        (
            _dial(errno.ECONNREFUSED),
            "nothing listens at {where}",
            "check whether the server runs, and that its address is right",
        ),
        (
            _dial(errno.ENOENT),
            "there is no socket at {where}",
            "check whether the server runs, and its setting unixsocket",
        ),
        (
            _dial(errno.EACCES),
            "this process may not use the socket {where}",
            "see unixsocketperm of the server",
        ),
        (
            "^the name .* is not found",
            "{all}",
            "check the host in the URL, and the DNS of this machine",
        ),
        (
            "Timeout connecting",
            "the server does not accept the connection in time",
            "check host and port, firewalls, and whether the server hangs",
        ),
        (
            r"Error -?\d+ connecting to (?P<where>\S+?)\. (?P<why>.*?)\.?$",
            "{where} cannot be reached: {why}",
            "check the host, and the network of this machine",
        ),
        (
            r"Error while reading from|Connection closed by server|Connection lost",
            "the server has closed the connection",
            "",
        ),
    )
)
# Errors that also come when only one side uses TLS: then one waits for the other, or closes.
_MAY_BE_TLS: Final = re.compile(
    "Timeout|while reading|closed|lost|reset|SSL|Protocol|does not answer", re.IGNORECASE
)


def cause(trouble: Exception, asked: Asked = REDIS) -> Cause:
    """Returns why the server cannot be used."""
    text = f"NOPERM {trouble}" if isinstance(trouble, NoPermissionError) else str(trouble)
    if _OF_USER in text:  # it is explained already
        return Cause(text)
    for words, what, cure in _CAUSES:
        if found := words.search(text):
            named = {name: part for name, part in found.groupdict().items() if part}
            parts = {"all": text, "where": "its address", **named}
            return Cause(what.format(asked=asked, **parts), cure.format(asked=asked, **parts))
    return Cause(text or type(trouble).__name__)


def may_be_tls(trouble: Exception) -> bool:
    """Whether the cause may be that one side uses TLS, and the other does not."""
    return bool(_MAY_BE_TLS.search(str(trouble)))


log = logging.getLogger(__name__)

# What Redis 6.2 and 7.0 say inside a script if a right is missing.
_LACKS_RIGHT = re.compile("NOPERM|permission|can't (run|access)")
# Refusals that pass by themselves, and the server's state until then. redis-py removes some codes.
_PASSING = (
    (re.compile("^BUSY "), "is busy with a script of a client"),
    (re.compile("READONLY|read only replica"), "is a replica"),
    (re.compile("MASTERDOWN|Link with MASTER is down"), "is a replica that has lost its master"),
    (re.compile("NOREPLICAS"), "has too few replicas that are up to date"),
)
_SILENCE_MS = 60_000
_SHOWN = {"deferred": "a deferred command", "rule": "a rule of ONEXPIRE"}


class UnreachableError(ResponseError):
    """Raised in place of an error of Redis if another master cannot be reached."""


def reason(refusal: ResponseError) -> str:
    """Returns why a key is parked: one of counters.PARKED."""
    if isinstance(refusal, NoPermissionError) or _LACKS_RIGHT.search(str(refusal)):
        return "noperm"
    if isinstance(refusal, OutOfMemoryError):
        return "oom"
    if isinstance(refusal, UnreachableError):
        return "unreachable"
    return "wrongtype" if "WRONGTYPE" in str(refusal) else "other"


def passes(refusal: ResponseError) -> bool:
    """Whether the refusal passes by itself: a client's script keeps Redis busy, a slot is moving,
    or a master is away."""
    if isinstance(refusal, UnreachableError):
        return True
    return str(refusal).startswith("BUSY ") or is_elsewhere(refusal)


def is_elsewhere(refusal: ResponseError) -> bool:
    """Whether the slot is another node's, or moves to one. MovedError is an AskError."""
    return isinstance(refusal, AskError | TryAgainError | ClusterDownError)


def is_wrong_type(refusal: ResponseError) -> bool:
    return str(refusal).startswith("WRONGTYPE")


def _meanwhile(refusal: ResponseError) -> str:
    """Returns the state of a server that refuses for a while; empty if an operator must act."""
    if isinstance(refusal, UnreachableError):
        return "has no connection to another master"
    return next((said for pattern, said in _PASSING if pattern.search(str(refusal))), "")


class Refusals:
    """Counts refusals, and logs each cause once a minute, however many clients meet it.

    who: the server's name in the log; one of several masters has its address
    """

    def __init__(self, counters: Counters, node_counts: NodeCounts) -> None:
        self.who = "Redis"
        self._counters = counters
        self._node_counts = node_counts
        self._said: dict[str, float] = {}  # when, by the local clock

    def note(self, what: str, refusal: ResponseError) -> None:
        """Notes that Redis has refused `what` ("to reap in database 0")."""
        if is_elsewhere(refusal) and not isinstance(refusal, MasterDownError):
            return  # what follows the slots handles that
        self._counters.refusals += 1
        self._node_counts.refusals += 1
        if meanwhile := _meanwhile(refusal):
            line = f"{self.who} {meanwhile}, and is asked again {what}: {refusal}"
            self._say(logging.WARNING, line)
        else:
            self._say(logging.ERROR, f"{self.who} refuses {what}: {refusal}")

    def unsigned(self, kind: str, db: int, count: int) -> None:
        """Notes that `count` items of a kind in counters.SIGNED have no signature of a proxy."""
        self._counters.unsigned[kind] += count
        self._say(
            logging.ERROR,
            f"{_SHOWN[kind]} in database {db} was not signed by a proxy with the same key, and is"
            " not carried out: see ttlproxy doctor",
        )

    def _say(self, level: int, cause: str) -> None:
        now_ms = ServerClock.reading()
        self._said = {said: at for said, at in self._said.items() if now_ms - at < _SILENCE_MS}
        if cause not in self._said:
            self._said[cause] = now_ms
            log.log(level, "%s", cause)


# Errors of attempts to connect contain this.
_UNREACHED: Final = "connecting to"


class OutageLog:
    """Logs when Redis is lost, and when it is back.

    reason: why Redis is away; empty while it is there
    """

    def __init__(self, shown: str, advice: str = "", asked: Asked = REDIS) -> None:
        """`shown`: the URL without its password; `advice`: for the log while Redis was never
        reached."""
        self.reason = ""
        self._asked = asked
        self._advice = advice
        self._url = self._shown = shown
        self._said: dict[str, float] = {}  # when each line was written, by the local clock
        self._unsaid = 0

    def at(self, address: str) -> None:
        """Notes which server the URL leads to now."""
        self._shown = f"{self._url} ({address})"

    def lost(self, trouble: RedisError | OSError | UpstreamError, known: str = "") -> None:
        """Notes that Redis is away, or still is; `known`: the reason, if `trouble` does not say
        it."""
        is_new = not self.reason
        self.reason = known or str(cause(trouble, self._asked))
        if self._advice and _UNREACHED in str(trouble):
            self.reason += f" ({self._advice})"
        if isinstance(trouble, ServerChanged):
            self._say(logging.WARNING, f": {self.reason}; all clients are closed", is_new)
        else:
            self._say(logging.WARNING, f" is unavailable: {self.reason}", is_new)

    def over(self, managed: int) -> None:
        """Notes that the link serves; `managed`: the number of managed keys."""
        if self.reason or not self._said:
            self._say(logging.INFO, ":", True, f" {counted(managed, 'key')} managed")
        self.reason = self._advice = ""

    def _say(self, level: int, what: str, is_event: bool, more: str = "") -> None:
        """Writes a line at most once a minute; the next line counts those left out."""
        now_ms, line = ServerClock.reading(), f"{self._shown}{what}"
        self._said = {said: at for said, at in self._said.items() if now_ms - at < _SILENCE_MS}
        if line in self._said:
            self._unsaid += is_event
            return
        self._said[line] = now_ms
        unsaid = counted(self._unsaid, "line like this was", "lines like this were")
        times = f" ({unsaid} left out)" if self._unsaid else ""
        self._unsaid = 0
        log.log(level, "Redis at %s%s%s", line, more, times)
