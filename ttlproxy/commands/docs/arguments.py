"""The arguments of a command: turns its forms, as text, into the tree that COMMAND DOCS shows.

`key [NX|XX] FIELDS numfields field [field ...]` is read as `redis-cli help` writes it: words in
capitals and signs are tokens, brackets are options, bars stand between alternatives, of which one
must be there if braces are around them. `[x ...]` repeats the x before it, or means any number of x
if there is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

_WORD = re.compile(r"[\[\]{}|]|[^\s\[\]{}|]+")
_ENDS = ("|", "]", "}")
_TYPES = {
    "key": "key",
    "source": "key",
    "destination": "key",
    "pattern": "pattern",
    "score": "double",
    "lowerbound": "double",
    "upperbound": "double",
    "unix-time-seconds": "unix-time",
    "unix-time-milliseconds": "unix-time",
}
_INTEGER = re.compile(
    r"n|num\w+|maxlen|count|offset|start|stop|delta|(milli)?seconds|delay|max_burst|period|quantity"
)
# The type by the token before the argument, if its name does not tell.
_TYPED = {"BYINT": "integer", "BYFLOAT": "double"}
_MORE = "..."


@dataclass(frozen=True)
class Argument:
    """An argument as in COMMAND DOCS; `type`: a plain one, or pure-token, block or oneof."""

    name: str
    type: str
    token: str = ""
    flags: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()


def arguments(forms: Sequence[str], integers: Collection[str] = ()) -> tuple[Argument, ...]:
    """The arguments of a command, as its first form has them.

    redis-cli takes what is typed for the first of several, and would show the others for ever.
    `integers`: names of arguments that are integers in this command.
    """
    return _Form(forms[0], integers).sequence()


class _Form:
    """One form, read from left to right."""

    def __init__(self, text: str, integers: Collection[str]) -> None:
        self._words = _WORD.findall(text)[::-1]
        self._integers = integers

    def sequence(self) -> tuple[Argument, ...]:
        """The arguments before the next bar, closing bracket or end."""
        found: list[Argument] = []
        while self._words and self._words[-1] not in _ENDS:
            word = self._words.pop()
            if word == "[":
                self._bracket(found)
            elif word == "{":
                found.append(_one_of(self._alternatives(), "form"))
            elif _is_token(word):
                found.append(self._behind(word))
            else:
                found.append(self._plain(word))
        return tuple(found)

    def _bracket(self, found: list[Argument]) -> None:
        """An option, or a sign that the arguments before it may be repeated."""
        alternatives = self._alternatives()
        *_, last = alternatives[-1]
        if last.name == _MORE:
            named = alternatives[-1][:-1]
            if tuple(found[-len(named) :]) == named:
                found[-len(named) :] = [replace(_together(named), flags=("multiple",))]
            else:
                found.append(replace(_together(named), flags=("optional", "multiple")))
            return
        option = _one_of(alternatives, "option")
        found.append(replace(option, flags=("optional", *option.flags)))

    def _alternatives(self) -> list[tuple[Argument, ...]]:
        """What stands between bars, up to the end of the bracket."""
        found = [self.sequence()]
        while self._words.pop() == "|":
            found.append(self.sequence())
        return found

    def _behind(self, token: str) -> Argument:
        """A token with its arguments: all that follow, up to another token."""
        own: list[Argument] = []
        while self._words and self._words[-1] not in _ENDS and not _is_token(self._words[-1]):
            word = self._words.pop()
            if word == "[":
                self._bracket(own)
            else:
                own.append(self._plain(word))
        if not own:
            return Argument(token.lower(), "pure-token", token)
        if len(own) == 1 and not own[0].token:
            return replace(own[0], token=token, type=_TYPED.get(token, own[0].type))
        return Argument(token.lower(), "block", token, arguments=tuple(own))

    def _plain(self, word: str) -> Argument:
        if word in self._integers or _INTEGER.fullmatch(word):
            return Argument(word, "integer")
        return Argument(word, _TYPES.get(word, "string"))


def _is_token(word: str) -> bool:
    """Whether it is a word in capitals, or a sign of XADD's MAXLEN."""
    return word.isupper() or word in ("=", "~")


def _together(sequence: tuple[Argument, ...]) -> Argument:
    """Several arguments as one."""
    if len(sequence) == 1:
        return sequence[0]
    return Argument("_".join(each.name for each in sequence), "block", arguments=sequence)


def _one_of(alternatives: Sequence[tuple[Argument, ...]], name: str) -> Argument:
    choices = tuple(_together(each) for each in alternatives)
    return choices[0] if len(choices) == 1 else Argument(name, "oneof", arguments=choices)
