"""The nine commands of each type that set, read and remove deadlines of elements.

Each takes one element, and returns one number; or a list of elements, and returns a list. The
methods are made from two tables; `elements.pyi` has their types.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final, Generic, NamedTuple

from ttlproxy.redis import words
from ttlproxy.redis.replies import Int, Ints
from ttlproxy.redis.words import Condition, Sender, Ttl, UnixTime, Value, Values


class _Verb(NamedTuple):
    """time: the name and the type of the parameter, None if the command takes no time; convert:
    turns the time into the command's number"""

    summary: str
    reply: str
    time: tuple[str, object] | None = None
    convert: Callable[[Any], int] = int


_SET: Final = "1 set, 0 condition not met, 2 deleted because the time is past"
_READ: Final = "the time, -1 no deadline"
_TTL: Final = ("ttl", Ttl)
_AT: Final = ("at", UnixTime)
# The part of a name between the type's letter and its word for one element.
_VERBS: Final = {
    "EXPIRE": _Verb("Sets the time to live of {}, in seconds", _SET, _TTL, words.seconds),
    "PEXPIRE": _Verb(
        "Sets the time to live of {}, in milliseconds", _SET, _TTL, words.milliseconds
    ),
    "EXPIREAT": _Verb(
        "Sets the expiry time of {}, as Unix time in seconds", _SET, _AT, words.unix_seconds
    ),
    "PEXPIREAT": _Verb(
        "Sets the expiry time of {}, as Unix time in milliseconds",
        _SET,
        _AT,
        words.unix_milliseconds,
    ),
    "TTL": _Verb("Returns the time to live of {}, in seconds", _READ),
    "PTTL": _Verb("Returns the time to live of {}, in milliseconds", _READ),
    "EXPIRETIME": _Verb("Returns the expiry time of {}, as Unix time in seconds", _READ),
    "PEXPIRETIME": _Verb("Returns the expiry time of {}, as Unix time in milliseconds", _READ),
    "PERSIST": _Verb("Removes the deadline of {}", "1 removed, -1 had none"),
}
# The first letter of the commands, the word for one element, and the words for several.
_TYPES: Final = (
    ("H", "field", "hash fields"),
    ("S", "member", "set members"),
    ("Z", "member", "sorted-set members"),
    ("L", "element", "list elements"),
)


class Elements(Sender, Generic[Int, Ints]):
    """ttl: seconds or milliseconds, as the command counts, or a timedelta; at: Unix time, or a
    datetime.
    """


def _method(command: str, one: str, many: str, verb: _Verb) -> Callable[..., Any]:
    def parameter(name: str, kind: object, **how: Any) -> Parameter:
        return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, **how)

    parameters = [parameter("self", Elements), parameter("key", Value)]
    parameters.append(parameter(one, Value | Values))
    if verb.time:
        kind = Condition | None
        condition = Parameter("condition", Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        parameters += [parameter(*verb.time), condition]
    signature, keyword = Signature(parameters, return_annotation=Any), f"{one.upper()}S"

    def method(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named).arguments
        sent = words.elements(keyword, given[one])
        if verb.time:
            time = verb.convert(given[verb.time[0]])
            sent = words.deadline(keyword, given[one], time, given.get("condition"))
        return given["self"].execute_command(command, given["key"], *sent)

    method.__name__ = command.lower()
    method.__qualname__ = f"Elements.{method.__name__}"
    method.__doc__ = (
        f"{verb.summary.format(many)}.\n\nReturns {verb.reply}, -2 no such key or {one}."
    )
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


for _letter, _one, _many in _TYPES:
    for _name, _verb in _VERBS.items():
        _command = f"{_letter}{_name}{_one.upper()}"
        setattr(Elements, _command.lower(), _method(_command, _one, _many, _verb))
