"""Writes ttlproxy/redis/elements.pyi from the command tables.

`python -m tests.redis_py.elements`
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tests.support.servers import ROOT
from ttlproxy.commands.router import VIRTUALS
from ttlproxy.commands.spec import Virtual
from ttlproxy.commands.types import lists, sets, sorted_sets
from ttlproxy.commands.types.hashes import NOUN as FIELD

FILE: Final = ROOT / "ttlproxy" / "redis" / "elements.pyi"
NOUNS: Final = (FIELD, sets.NOUN, sorted_sets.NOUN, lists.NOUN)
# The parameter, by the argument of the command.
_TIMES: Final = {
    "seconds": "ttl: Ttl",
    "milliseconds": "ttl: Ttl",
    "unix-time-seconds": "at: UnixTime",
    "unix-time-milliseconds": "at: UnixTime",
}
_HEAD: Final = '''\
# The types of the methods in elements.py, generated from the command tables by
# `python -m tests.redis_py.elements`.

from typing import Generic, overload

from ttlproxy.redis.replies import Int, Ints
from ttlproxy.redis.words import Condition, Sender, Ttl, UnixTime, Value, Values

class Elements(Sender, Generic[Int, Ints]):
    """ttl: seconds or milliseconds, as the command counts, or a timedelta; at: Unix time, or a
    datetime.
    """
'''


def rows() -> list[tuple[Virtual, str]]:
    """(the command, the word for one element) for each command."""
    return [
        (row, noun.one)
        for noun in NOUNS
        for row in VIRTUALS.values()
        if not row.dialect and row.group == noun.group and row.name.endswith(noun.one.upper())
    ]


def text() -> str:
    """The whole file."""
    written = _HEAD + "".join(_method(*each) for each in rows())
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=written, capture_output=True, text=True, check=True).stdout


def _method(row: Virtual, one: str) -> str:
    name = row.name.lower()
    argument = row.forms[0].split()[2:3]
    more = f", {_TIMES[argument[0]]}, *, condition: Condition | None = None" if argument else ""

    def signature(named: str, reply: str) -> str:
        return (
            f"\n    @overload\n    def {name}(self, key: Value, {one}: {named}{more}) -> {reply}:"
        )

    return (
        f'{signature("Value", "Int")}\n        """{row.summary}"""\n'
        f"{signature('Values', 'Ints')} ...\n"
    )


if __name__ == "__main__":
    FILE.write_text(text())
