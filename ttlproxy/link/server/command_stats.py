"""What a server counts of commands and errors, of all its clients, summed up by family.

Read from INFO's sections commandstats and errorstats. A command that a script calls counts too,
beside the script's own call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ttlproxy.commands import Native
from ttlproxy.core.counters import ERRORS, OTHER, CommandCounts

COMMANDS: Final = (b"INFO", b"commandstats")
# A command is of the first family of which it has the category.
_CATEGORIES: Final = (
    (b"@scripting", "scripting"),
    (b"@transaction", "transaction"),
    (b"@pubsub", "pubsub"),
    (b"@geo", "geo"),
    (b"@stream", "stream"),
    (b"@bitmap", "bitmap"),
    (b"@hyperloglog", "hyperloglog"),
    (b"@keyspace", "keyspace"),
    (b"@hash", "hash"),
    (b"@sortedset", "zset"),
    (b"@set", "set"),
    (b"@list", "list"),
    (b"@string", "string"),
    (b"@connection", "connection"),
)


def families(natives: Iterable[Native]) -> dict[str, str]:
    """Command, in lower case -> its family. One that is not here is of the family OTHER."""
    found = {native.name.lower(): _family(native) for native in natives}
    return {name: family for name, family in found.items() if family}


def _family(native: Native) -> str:
    return next((family for name, family in _CATEGORIES if name in native.categories), "")


def commands(info: Mapping[str, str], of: Mapping[str, str]) -> dict[str, CommandCounts]:
    """The counts by family; `of`: what `families` gives."""
    found: dict[str, CommandCounts] = {}
    for name, words in info.items():
        if name.startswith("cmdstat_"):
            command = name.removeprefix("cmdstat_").partition("|")[0].lower()
            family = of.get(command, OTHER)
            numbers = _numbers(words)
            before = found.get(family, CommandCounts())
            found[family] = CommandCounts(
                before.calls + int(numbers.get("calls", 0)),
                before.seconds + numbers.get("usec", 0) / 1_000_000,
                before.failed + int(numbers.get("failed_calls", 0)),
                before.rejected + int(numbers.get("rejected_calls", 0)),
            )
    return found


def errors(info: Mapping[str, str]) -> dict[str, int]:
    """How many errors there were by their first word, those of programs' own as OTHER."""
    found: dict[str, int] = {}
    for name, words in info.items():
        if name.startswith("errorstat_"):
            code = name.removeprefix("errorstat_")
            code = code if code in ERRORS else OTHER
            found[code] = found.get(code, 0) + int(_numbers(words).get("count", 0))
    return found


def _numbers(words: str) -> dict[str, float]:
    """The numbers of "calls=1,usec=2"."""
    pairs = (word.partition("=") for word in words.split(","))
    return {name: float(number) for name, _, number in pairs if _is_number(number)}


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()
