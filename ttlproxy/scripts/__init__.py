"""The Lua scripts: read from their files, with included pieces in place, ready to be called.

A script's first lines say what it does and name its KEYS, ARGV and RESULT. The loader makes locals
of the names in KEYS and ARGV. It puts them on the line of the first comment, so a line number in an
error of Redis is that of the file, up to the first include. Comments and unused functions are not
sent. A line `READS` says that a script writes nothing; from Redis 7.0 on, the server runs it even
while it takes no writes. `name...` stands for all words from there on; the local `first_name` is
the number of the first. Other locals are `class`, the letter of the type that the script's name
begins with, what `traits` says of the server, and `dry_run`, which checks a write instead of doing
it. In front of a Cluster, KEYS begins with the guard (core/keys.py), and the names of shared keys
end in `slot_tag`. Knows no Redis connection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from ttlproxy.commands import SCRIPTED
from ttlproxy.core.element_types import TYPES
from ttlproxy.core.keys import NONE, Keys
from ttlproxy.scripts import pieces
from ttlproxy.scripts.pieces import assembled
from ttlproxy.scripts.sources import script_names, source_of
from ttlproxy.scripts.traits import Traits

# It follows the text of an EVAL, so that Redis knows it by another name than what is loaded: it
# evicts scripts of EVAL, and Redis 8 those too that it is told to load later.
NOT_LOADED: Final = b"\n"

# The names in KEYS of scripts on one key: these may be called for several requests at once, see
# lib/several.lua.
ON_ONE_KEY: Final = ("data", "index", "schedule")

__all__ = ["ON_ONE_KEY", "Script", "Scripts", "Traits", "written_commands"]

_HEADER = re.compile(r"-- (KEYS|ARGV):(.*)\n")
_READS = re.compile(r"^-- READS( IN ALL SLOTS)?$", re.MULTILINE)
_CALLED = re.compile(r"\b(?:call|pcall|try|try_all)\(\s*'(\w+)'")
_WORD = re.compile(r"'([A-Z]{3,})'")
_READING = {
    *(
        "CLUSTER",
        "COMMAND",
        "INFO",
        "TIME",
        "DBSIZE",
        "EXISTS",
        "PTTL",
        "RANDOMKEY",
        *("SCAN", "CLUSTERSCAN"),
        "TYPE",
        "GET",
    ),
    *("HGET", "HKEYS", "HPEXPIRETIME", "HRANDFIELD", "LRANGE", "LINDEX", "SRANDMEMBER"),
    *("ZCOUNT", "ZRANDMEMBER", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANK"),
    *(command for type_ in TYPES.values() for command in (type_.find, type_.count)),
}
# The last two only keep what scripts may do without flags: run on a full server or on stale data.
_FLAGS = "#!lua flags=no-writes,allow-oom,allow-stale{}\n"
_ALL_SLOTS = ",allow-cross-slot-keys"
# The flags of a script that writes, in any slot as a script without flags may.
_DENIES_OOM = b"#!lua flags=allow-cross-slot-keys\n"
_WORKS_WHEN_FULL = b"#!lua flags=allow-cross-slot-keys,allow-oom\n"
_DRY_RUN = "dry_run"
_TAGS = {"slot_tag", "home_tag"}
_TAGGED = re.compile(rf" \.\. (?:{'|'.join(sorted(_TAGS))})\b")
_SLOT_TAG = re.compile(r"\bslot_tag\b")
# A block, or a part of a condition.
_IN_DRY_RUNS = re.compile(
    r"^( *)if dry_run then\n(?:.*\n)*?\1end\n| or dry_run\b| and not dry_run\b"
    r"|\bnot dry_run and |\bdry_run or ",
    re.MULTILINE,
)
# Scripts that are needed in front of a Cluster only.
_IN_A_CLUSTER = {
    *("cluster_scan", "cluster_topology", "slots_learn", "slots_occupied", "slots_survey"),
    *("outbox_apply", "outbox_drop", "outbox_read"),
}
# Names of indexes end with this in a script's header; "key..." are data keys, then their indexes.
_INDEXES = ("index", "key...")
# The letter of a type, by how the names of its scripts begin.
_LETTERS = {type_.name: type_.letter for type_ in TYPES.values()}


@dataclass(frozen=True)
class Script:
    """One script as Redis gets it.

    name: its file's; text: its source; sha: its SHA-1 in hex, for EVALSHA; keys, argv: the names
    in its header, the last may end in `...`; reads: whether it writes nothing.
    """

    name: str
    text: bytes
    sha: bytes
    keys: tuple[str, ...]
    argv: tuple[str, ...]
    reads: bool


_Make: TypeAlias = Callable[[str, bytes, Traits], Script]


class Scripts(Mapping[str, Script]):
    """All scripts, made for one prefix of internal keys and one server.

    loaded: whether Redis is believed to know them by their SHA; if not, the text is sent.
    called: whether one was called while it was not: then all are to be loaded, see `on_call`.
    by_text: whether the server has no EVALSHA, so that loading them is of no use.
    doubts: how many requests have passed that may change `loaded` or the traits; unanswered: how
    many that may change what all sessions share have been sent and not answered.
    changed: whether Redis was found to lack some, or to publish other events, since this was last
    reset.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._names = script_names()
        self.by_text = False
        self.called = False
        self.on_call: Callable[[], None] = lambda: None
        self.doubts = self.unanswered = 0
        self.changed = False
        self._suit(Traits())

    def careful(self, name: str) -> Script:
        """The script for a client that may lack a right: it changes all, or nothing."""
        script = self[name]
        if script.reads:
            return script
        made = self._careful
        return made.get(name) or self._make(name, made, _careful_script)

    def declared(self, script: Script, denies_oom: bool) -> bytes:
        """The text of a script that says what the command does that it stands for: it writes, and
        needs memory if it `denies_oom`. So Redis refuses the script, and EXEC, where it would
        refuse the command. Before Redis 7.0 a script cannot say so: see session/replies.py."""
        if script.reads or not self.traits.flags:
            return script.text
        text = self._declared.get((script.sha, denies_oom))
        if text is None:
            flags = _DENIES_OOM if denies_oom else _WORKS_WHEN_FULL
            # The flags replace the first line, which is a comment.
            text = flags + script.text.replace(b"\n", b"", 1)
            self._declared[script.sha, denies_oom] = text
        return text

    def all(self) -> list[Script]:
        """The scripts that Redis should know: careful scripts only if somebody may need them."""
        names = [name for name in self if self.traits.clustered or name not in _IN_A_CLUSTER]
        careful = map(self.careful, names) if self.traits.careful else ()
        both = (*map(self.__getitem__, names), *careful)
        pieces.forget()
        return list({script.sha: script for script in both}.values())

    def digests(self) -> list[bytes]:
        """The digests by which Redis may know them: loaded, by EVAL, by EVAL in a transaction."""
        found = set[bytes]()
        for script in self.all():
            called = (script.text, *(self.declared(script, denies) for denies in (False, True)))
            texts = {text + NOT_LOADED for text in called}
            found.update((script.sha, *map(_sha, texts)))
        return list(found)

    def miss(self) -> None:
        """One is called that Redis may not know."""
        if not (self.called or self.by_text):
            self.called = True
            self.on_call()

    def flushed(self) -> None:
        """Redis no longer knows them, or soon may not."""
        self.loaded = False
        self.doubts += 1

    def suit(self, traits: Traits) -> None:
        """Remakes them if the traits are new; the server does not know the new scripts yet."""
        if traits != self.traits:
            self._suit(traits)

    def ruled(self, ruled: bool, counting: bool) -> None:
        """`ruled`: whether there is a rule of ONEXPIRE; `counting`: whether one has a MAX."""
        self.suit(self.traits._replace(ruled=ruled, counting=counting))

    def wanted(self, careful: bool) -> None:
        """`careful`: whether a user may lack a right that a script needs."""
        self.suit(self.traits._replace(careful=careful))

    def _suit(self, traits: Traits) -> None:
        self.traits = traits
        self.loaded = False
        # A script is made when it is first asked for, so that changes of the traits cost little.
        self._scripts: dict[str, Script] = {}
        self._careful: dict[str, Script] = {}
        self._declared: dict[tuple[bytes, bool], bytes] = {}

    def __getitem__(self, name: str) -> Script:
        made = self._scripts
        return made.get(name) or self._make(name, made, _script)

    def _make(self, name: str, made: dict[str, Script], make: _Make) -> Script:
        """`made` was read before the traits: another thread may read while they change."""
        if name not in self._names:
            raise KeyError(name)
        script = made[name] = make(name, self._prefix, self.traits)
        return script

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _script(name: str, prefix: bytes, traits: Traits) -> Script:
    body, reads = _suited(_for_real(name), name, prefix, traits), _reads(name)
    keys, argv, given = _given(name, prefix, traits, body)
    prologue = _locals(given)
    source = prologue + body
    if keys == ON_ONE_KEY and not (reads or traits.clustered):
        source = f"local function script(KEYS, ARGV) {source}end\n" + _end("several")
    elif reads and traits.flags:  # replaces the file's first line, which is a comment
        more = _ALL_SLOTS if traits.clustered and _reads_all_slots(name) else ""
        source = _FLAGS.format(more) + prologue + body.removeprefix("\n")
    return Script(name, source.encode(), _sha(source.encode()), keys, argv, reads)


def _careful_script(name: str, prefix: bytes, traits: Traits) -> Script:
    """A script as a function that is called twice: see lib/dry_run.lua."""
    body = _suited(_body(name), name, prefix, traits)
    end = _suited(_end("dry_run" if traits.flags else "dry_run_6_2"), name, prefix, traits)
    keys, argv, given = _given(name, prefix, traits, body)
    first = _first_key(keys, traits)
    index = next((place for key, place in _places(keys, first) if key.endswith(_INDEXES)), "nil")
    of_end = {
        "prefix": given["prefix"],
        **_of_home(prefix, traits, end),
        "index": index,
        "only_key": f"KEYS[{first}]" if len(keys) == 1 else "nil",
    }
    source = (
        f"local function script(redis, {_DRY_RUN}) {_locals(given)}{body}end\n"
        + _locals(of_end)
        + end
    )
    return Script(name, source.encode(), _sha(source.encode()), keys, argv, False)


def _suited(body: str, name: str, prefix: bytes, traits: Traits) -> str:
    """The body of a script for a server. Names end in tags in a Cluster only: the tags as local
    variables make a short script 2 % slower. That of the slot is made where it is used, because a
    call that announces no key needs none: there it makes a native write 4 % slower."""
    if not traits.clustered:
        body = _TAGGED.sub("", body)
    has_guard = _first_key(_header(name, source_of(name))[0], traits) > 1
    slot_tag = f"string.sub(KEYS[1], {len(prefix + NONE)})" if has_guard else "''"
    return _SLOT_TAG.sub(slot_tag, body)


def _given(
    name: str, prefix: bytes, traits: Traits, body: str
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """The names in KEYS and in ARGV, and the locals that a script with this body gets."""
    keys, argv = _header(name, source_of(name))
    of_call = _of_call(keys, argv, _first_key(keys, traits))
    of_home = _of_home(prefix, traits, body)
    return keys, argv, _of_server(name, prefix, traits) | of_home | of_call


def _of_home(prefix: bytes, traits: Traits, body: str) -> dict[str, str]:
    """The local for what names of shared keys of the home slot end in, if the body has it."""
    tag = Keys(prefix, traits.clustered).home(b"")
    return {"home_tag": _quoted(tag)} if "home_tag" in body else {}


def _first_key(keys: tuple[str, ...], traits: Traits) -> int:
    """The position in KEYS of the header's first key: behind the guard, in front of a Cluster."""
    return 2 if traits.clustered and keys else 1


def _places(keys: tuple[str, ...], first: int) -> Iterator[tuple[str, str]]:
    """(name, where it is); of several keys the last, which is the index of a data key."""
    for number, name in enumerate(keys, first):
        yield name, "KEYS[#KEYS]" if name.endswith("...") else f"KEYS[{number}]"


def _locals(given: Mapping[str, str]) -> str:
    return "".join(f"local {local} = {value} " for local, value in given.items())


def _sha(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


def written_commands(known: Collection[str]) -> set[str]:
    """The commands of the server that a script may call for a client, and that may be refused
    when it has changed something. A command that replaces keys comes first in its script."""
    found = set(SCRIPTED)
    for name in Scripts(b""):
        if not _reads(name) and _header(name, source_of(name))[0]:
            found.update(_WORD.findall(_body(name)))
    return found.intersection(known)


@cache
def _reads(name: str) -> bool:
    """Whether a script says that it writes nothing. ValueError if it calls a command that may."""
    if not _READS.search(source_of(name)):
        return False
    if writes := {*_CALLED.findall(_body(name))} - _READING:
        raise ValueError(f"script {name}: it says that it reads, and calls {sorted(writes)}")
    return True


def _for_real(name: str) -> str:
    """The body without what only a dry run needs: it makes a short script 15 % slower."""
    return "".join(map(_part_for_real, _parts(name)))


@cache
def _part_for_real(part: str) -> str:
    return _IN_DRY_RUNS.sub("", part)


@cache
def _reads_all_slots(name: str) -> bool:
    """Whether a script says that it reads in all slots of a Cluster's node."""
    found = _READS.search(source_of(name))
    return found is not None and found[1] is not None


def _body(name: str) -> str:
    """The part of a script that is the same for all prefixes and servers."""
    return "".join(_parts(name))


@cache
def _parts(name: str) -> tuple[str, ...]:
    given = _of_server(name, b"", Traits()) | _of_call(*_header(name, source_of(name)), 1)
    return assembled(name, {*given, *_TAGS, _DRY_RUN}, source_of)


@cache
def _end(piece: str) -> str:
    """A piece that stands behind a script."""
    given = {"script", "index", "only_key", "prefix", "slot_tag"}

    def read(name: str) -> str:
        return f"-- include {piece}\n" if name == piece else source_of(name)

    return "".join(assembled(piece, given, read))


def _header(name: str, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = {match[1]: tuple(match[2].split()) for match in _HEADER.finditer(source)}
    if set(found) != {"KEYS", "ARGV"}:
        raise ValueError(f"script {name}: its header must name KEYS and ARGV")
    return found["KEYS"], found["ARGV"]


def _of_server(name: str, prefix: bytes, traits: Traits) -> dict[str, str]:
    """The locals that every script has, and their values."""
    return {
        "prefix": _quoted(prefix),
        "class": f"'{_LETTERS.get(name.partition('_')[0], '')}'",
        "events": f"'{traits.events}'",
        "field_ttls": str(traits.field_ttls).lower(),
        "counting": str(traits.counting).lower(),
        "ruled": str(traits.ruled).lower(),
    }


def _of_call(keys: tuple[str, ...], argv: tuple[str, ...], first_key: int) -> dict[str, str]:
    """The locals for the words of a call, as the header names them, and their values."""
    found: dict[str, str] = {}
    for table, names, begin in (("KEYS", keys, first_key), ("ARGV", argv, 1)):
        for number, name in enumerate(names, begin):
            if name.endswith("..."):
                found[f"first_{name[:-3]}"] = str(number)
            else:
                found[name] = f"{table}[{number}]"
    return found


def _quoted(value: bytes) -> str:
    """A Lua string literal."""
    return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"
