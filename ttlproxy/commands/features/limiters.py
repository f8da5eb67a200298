"""Rate limiters and bounded counters, as in redis-cell (CL.THROTTLE) and Redis 8.8 (INCREX).

Each is one string key of the client's own. If the server has the command itself, it answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.options import EXPIRIES, SHOWN_EXPIRIES
from ttlproxy.commands.parsing import Refused
from ttlproxy.commands.spec import Call, Virtual

Args = Sequence[bytes]
Options = Mapping[bytes, bytes]

# The largest numbers that scripts/string_throttle.lua can compute with.
_MOST = 2**31 - 1
_MOST_US = 2**51


def _plan_throttle(args: Args) -> Call:
    max_burst, count, period, *given = map(_parsed, args[2:])
    quantity = given[0] if given else 1
    if not count or not period:
        raise Refused(errors.ZERO_RATE)
    if min(max_burst, count, period, quantity) < 0:
        raise Refused(errors.NOT_POSITIVE)
    times = [divmod(n * period * 1_000_000, count) for n in (quantity, max_burst + 1, 1)]
    if max(max_burst + 1, count) > _MOST or max(us for us, _ in times) > _MOST_US:
        raise Refused(errors.NOT_AN_INTEGER)
    numbers = (max_burst + 1, count, *(number for time in times for number in time))
    return Call("string_throttle", args[1:2], (b" ".join(b"%d" % each for each in numbers),))


def _parsed(word: bytes) -> int:
    if not parsing.is_integer(word):
        raise Refused(errors.not_parsed(word))
    return int(word)


# Option -> group; a request may have one option of each group.
_GROUPS = {
    b"BYINT": "increment",
    b"BYFLOAT": "increment",
    **dict.fromkeys((*EXPIRIES, b"PERSIST"), "expiry"),
    b"LBOUND": "lower",
    b"UBOUND": "upper",
    b"SATURATE": "saturate",
    b"ENX": "condition",
}
_ALONE = frozenset({b"PERSIST", b"SATURATE", b"ENX"})
_LEAST, _MOST_INTEGER = b"%d" % -(2**63), b"%d" % (2**63 - 1)
# Redis adds its clock to a relative time; until the year 2109 the clock is below this.
_MOST_NOW_MS = 2**42


def _plan_increx(args: Args) -> Call:
    options = _options(args)
    script, numbers = "string_increx", _integers
    if b"BYFLOAT" in options:
        script, numbers = "string_increx_float", _floats
    how = b"SATURATE" if b"SATURATE" in options else b""
    return Call(script, args[1:2], (how, *numbers(options), _expiry(options)))


def _options(args: Args) -> Options:
    """Reads each option with its word. Refuses a wrong increment before mistakes after it."""
    found: dict[bytes, bytes] = {}
    groups: set[str] = set()
    words = iter(args[2:])
    for word in map(bytes.upper, words):
        group = _GROUPS.get(word)
        value = b"" if word in _ALONE else next(words, None)
        if group is None or group in groups or value is None:
            raise Refused(errors.SYNTAX)
        groups.add(group)
        found[word] = _increment(word, value) if group == "increment" else value
        if found.keys() >= {b"PERSIST", b"ENX"}:
            raise Refused(errors.SYNTAX)
    return found


def _increment(option: bytes, word: bytes) -> bytes:
    if option == b"BYINT":
        return _integer("Increment", word)
    found = _float("Increment", word)
    if abs(found) == parsing.INFINITE:
        raise Refused(errors.INFINITE_INCREMENT)
    return parsing.written(found)


def _integers(options: Options) -> Args:
    """Returns the increment and the bounds."""
    low = _integer("LBOUND", options.get(b"LBOUND", _LEAST))
    high = _integer("UBOUND", options.get(b"UBOUND", _MOST_INTEGER))
    if int(low) > int(high):
        raise Refused(errors.BOUNDS)
    return options.get(b"BYINT", b"1"), low, high


def _floats(options: Options) -> Args:
    """Returns increment and bounds, as Redis writes numbers; an infinite bound becomes b"", which
    means none."""
    low = _float("LBOUND", options.get(b"LBOUND", b"-inf"))
    high = _float("UBOUND", options.get(b"UBOUND", b"inf"))
    if low > high or low == parsing.INFINITE or high == -parsing.INFINITE:
        raise Refused(errors.BOUNDS)
    return options[b"BYFLOAT"], parsing.written(low), parsing.written(high)


def _integer(name: str, word: bytes) -> bytes:
    if not parsing.is_integer(word):
        raise Refused(errors.named_not_an_integer(name))
    return word


def _float(name: str, word: bytes) -> Fraction:
    found = parsing.long_double(word)
    if found is None:
        raise Refused(errors.named_not_a_float(name))
    return found


def _expiry(options: Options) -> bytes:
    """Returns the command that sets the expiry, its time, and ENX; b"" if the expiry stays."""
    if b"PERSIST" in options:
        return b"PERSIST"
    given = [(unit, options[word]) for word, unit in EXPIRIES.items() if word in options]
    if not given:
        if b"ENX" in options:
            raise Refused(errors.ENX_ALONE)
        return b""
    ((unit, word),) = given
    if not parsing.is_integer(word):
        raise Refused(errors.NOT_AN_INTEGER)
    most = 2**63 - 1 - (_MOST_NOW_MS if unit.relative else 0)
    amount_ms = int(word) * unit.ms
    if not 0 < amount_ms <= most:
        raise Refused(errors.invalid_expire("INCREX"))
    name = b"PEXPIRE" if unit.relative else b"PEXPIREAT"
    return b"%s %d%s" % (name, amount_ms, b" ENX" if b"ENX" in options else b"")


VIRTUALS = (
    Virtual(
        name="CL.THROTTLE",
        summary="Takes tokens from a bucket that refills at a steady rate, if it has enough.",
        group="string",
        forms=("key max_burst count period [quantity]",),
        reply="five integers: 0, or 1 if limited; the size of the bucket, `max_burst` + 1; the"
        " tokens left; seconds until a retry can succeed, or -1; seconds until the bucket is full",
        complexity="O(1)",
        since="0.1.0",
        plan=_plan_throttle,
        example=(
            (
                "CL.THROTTLE api:pay 15 30 60",
                "1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2",
            ),
            (
                "CL.THROTTLE api:pay 15 30 60 17",
                "1) (integer) 1\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2",
            ),
        ),
    ),
    Virtual(
        name="INCREX",
        summary="Adds to a number within bounds, and sets the key's time to live.",
        group="string",
        forms=(
            "key [BYINT increment|BYFLOAT increment] [LBOUND lowerbound] [UBOUND upperbound]"
            f" [SATURATE] [{SHOWN_EXPIRIES}|PERSIST] [ENX]",
        ),
        reply="the value, and by how much it was changed: 0 if a bound prevents it, and then"
        " nothing changes",
        complexity="O(1)",
        since="0.1.0",
        plan=_plan_increx,
        open_ended=True,
        example=(
            ("INCREX api:login UBOUND 2 EX 60 ENX", "1) (integer) 1\n2) (integer) 1"),
            ("INCREX api:login UBOUND 2 EX 60 ENX", "1) (integer) 2\n2) (integer) 1"),
            ("INCREX api:login UBOUND 2 EX 60 ENX", "1) (integer) 2\n2) (integer) 0"),
            ("INCREX api:login BYINT -9 LBOUND 0 SATURATE", "1) (integer) 0\n2) (integer) -2"),
        ),
    ),
)
