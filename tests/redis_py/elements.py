"""Writes ttlproxy/redis/elements.py from the command tables.

`python -m tests.redis_py.elements`
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Final

from tests.support.servers import ROOT
from ttlproxy.commands.router import VIRTUALS
from ttlproxy.commands.spec import Virtual
from ttlproxy.commands.types import lists, sets, sorted_sets
from ttlproxy.commands.types.hashes import NOUN as FIELD

FILE: Final = ROOT / "ttlproxy" / "redis" / "elements.py"
NOUNS: Final = (FIELD, sets.NOUN, sorted_sets.NOUN, lists.NOUN)
# The parameter, its type, and what turns it into words: by the argument of the command.
_TIMES: Final = {
    "seconds": ("ttl", "Ttl", "seconds"),
    "milliseconds": ("ttl", "Ttl", "milliseconds"),
    "unix-time-seconds": ("at", "UnixTime", "unix_seconds"),
    "unix-time-milliseconds": ("at", "UnixTime", "unix_milliseconds"),
}
_HEAD: Final = '''\
"""The nine commands of each type that set, read and remove deadlines of elements.

Generated from the command tables by `python -m tests.redis_py.elements`. Each takes one element,
and returns one number; or a list of elements, and returns a list.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from ttlproxy.redis import words
from ttlproxy.redis.words import Condition, Sender, Ttl, UnixTime, Value, Values

Int = TypeVar("Int")
Ints = TypeVar("Ints")


class Elements(Sender, Generic[Int, Ints]):
    """ttl: seconds or milliseconds, as the command counts, or a timedelta; at: Unix time, or a
    datetime.
    """
'''


def rows() -> list[tuple[Virtual, str, str]]:
    """(the command, the word for one element, the keyword before several) for each command."""
    return [
        (row, noun.one, noun.many.upper())
        for noun in NOUNS
        for row in VIRTUALS.values()
        if not row.dialect and row.group == noun.group and row.name.endswith(noun.one.upper())
    ]


def text() -> str:
    """The whole file."""
    written = _HEAD + "".join(_method(*each) for each in rows())
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=written, capture_output=True, text=True, check=True).stdout


def _method(row: Virtual, one: str, keyword: str) -> str:
    name = row.name.lower()
    argument = row.forms[0].split()[2:3]
    if argument:
        time, kind, convert = _TIMES[argument[0]]
        more = f", {time}: {kind}, *, condition: Condition | None = None"
        sent = f'*words.deadline("{keyword}", {one}, words.{convert}({time}), condition)'
    else:
        more, sent = "", f'*words.elements("{keyword}", {one})'

    def signature(named: str, reply: str) -> str:
        return f"    def {name}(self, key: Value, {one}: {named}{more}) -> {reply}:"

    return (
        f"\n    @overload\n{signature('Value', 'Int')} ...\n"
        f"\n    @overload\n{signature('Values', 'Ints')} ...\n"
        f"\n{signature('Value | Values', 'Any')}\n"
        f'        """{row.summary}\n\n{_indented(f"Returns {row.reply}.")}\n        """\n'
        f'        return self.execute_command("{row.name}", key, {sent})\n'
    )


def _indented(sentence: str) -> str:
    return textwrap.fill(sentence, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)


if __name__ == "__main__":
    FILE.write_text(text())
