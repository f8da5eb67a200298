"""Feeds random bytes to the compiled core, built with sanitizers, and compares it with its twin.

    python -m tests.support.core_fuzzer --seconds 3600

Random requests and replies, whole, cut and with changed bytes. A read or write outside of the
bytes, an undefined operation, or a difference ends it. Needs Linux, gcc, and Python's headers.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.servers import ROOT
from ttlproxy.core.keys import Keys
from ttlproxy.wire import Names, bulks, encode, head_of, head_of_any, twin

_SANITIZED: Final = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_STRICT: Final = ("-Wall", "-Wextra", "-Werror")
_SOURCE: Final = ROOT / "ttlproxy" / "wire" / "_core.c"
_KINDS: Final = {b"PING": 0, b"MGET": 1, b"SET": 2, b"HMGET": 3, b"GET": 4}
_NAMES: Final = (*_KINDS, b"LATER", b"")
_KEYS: Final = (
    b"",
    b"a",
    b"b",
    b"cart:1",
    b"c",
    b"__ttl:x",
    b"v" * 1100,
    b"\r\n*1\r\n",
    b"1234567890",
)
_HEADS: Final = ((), (b"",), (b"cart:",), (b"a", b"b"))
_REPLIES: Final = (b"+OK\r\n", b":1\r\n", b"-ERR x\r\n", b"_\r\n", b"#t\r\n", b"=5\r\ntxt:f\r\n")
_PIECES: Final = (
    *(b"%b%d\r\n" % (kind, number) for kind in (b"*", b"$", b">", b"|") for number in range(4)),
    *(b"*01\r\n", b"*-1\r\n", b"$-1\r\n", b"$-2\r\n", b"\r\n", b"\r", b"\n", b"*", b"$", b"k"),
    *(b"$999999999\r\n", b"*1048577\r\n", b"$536870912\r\n", b"*9999999999\r\n", b"%1\r\n"),
    *(b"%b999999999999999999\r\n" % kind for kind in (b"*", b"$", b"%", b"|")),
)
_WRITE: Final = ("write", bulks(b"1" * 40), bulks(b"SET"), 1, b"", False, 0)
_SCORED: Final = ("add", bulks(b"2" * 40), b"", 0, b"ac", False, 0)
_SETS: Final = ("set", bulks(b"3" * 40), bulks(b"0 later", b"how"), 2, b"", True, 0)
_NAMES_OF_OURS: Final = Names(b"__ttl:", Keys().all_words, bulks(b"__ttl:schedule"))
_NUMBERS: Final = (-1, 0, 1, 7, 1 << 60, 1 << 61, (1 << 61) + 1)


def built(folder: Path, *flags: str) -> Path:
    """Compiles the core into `folder`. Raises CalledProcessError, also for a warning."""
    library = folder / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_paths()["include"]
    files = (str(_SOURCE), "-o", str(library))
    subprocess.run(
        ("gcc", *flags, *_STRICT, "-shared", "-fPIC", f"-I{include}", *files), check=True
    )
    return library


def sanitized(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs this file in a process of its own with the sanitizers, which must be loaded first."""
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder), *_SANITIZED)
        env = {
            **os.environ,
            "LD_PRELOAD": " ".join(map(_library, ("libasan.so", "libubsan.so"))),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves some
            "PYTHONMALLOC": "malloc",
        }
        command = (sys.executable, "-m", "tests.support.core_fuzzer", "--library", str(library))
        return subprocess.run(
            (*command, *words), cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )


def _library(name: str) -> str:
    asked = ("gcc", f"-print-file-name={name}")
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _random_bytes(chance: random.Random) -> bytes:
    data = bytearray()
    for _ in range(chance.randrange(7)):
        kind = chance.random()
        if kind < 0.5:
            words = [chance.choice(_KEYS) for _ in range(chance.randrange(4))]
            data += encode((chance.choice(_NAMES), *words))
        elif kind < 0.95:
            data += chance.choice(_PIECES + _REPLIES)
        else:
            data += chance.randbytes(chance.randrange(20))
    for _ in range(chance.randrange(3) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if data and chance.random() < 0.3:
        del data[chance.randrange(len(data)) :]
    return bytes(data)


def _result(call: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or what its error says."""
    try:
        return call(*args)
    except ValueError as error:
        return str(error)


def _same(name: str, core: Any, *args: Any) -> Any:
    """What both return. Raises SystemExit if that differs."""
    found, expected = _result(getattr(core, name), *args), _result(getattr(twin, name), *args)
    if found != expected:
        raise SystemExit(f"{name}{args!r}: the core says {found!r}, its twin {expected!r}")
    return found


def _pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 1 + chance.randrange(20)
        yield data[at:end]
        at = end


def _compare(core: Any, tables: tuple[Any, Any], chance: random.Random) -> None:
    data = _random_bytes(chance)
    _same("cut", core, data)
    _same("request_ends", core, data, chance.randrange(len(data) + 2))
    begun = chance.choice(_NUMBERS), chance.choice(_NUMBERS), chance.choice(b"\0>*$+")
    _same("reply_ends", core, data, *begun)
    _same("whole_replies", core, data)
    left, size, kind, head = 0, 0, 0, b""
    for piece in _pieces(data, chance):
        found = _same("reply_ends", core, head + piece, left, size, kind)
        if isinstance(found, str):
            break
        _, _, left, size, kind, end = found
        head = (head + piece)[end:]
    heads = chance.choice(_HEADS)
    begins = tuple(b"" in heads or byte in {head[0] for head in heads} for byte in range(256))
    managed = {
        chance.choice(_KEYS): chance.choice((0, 5, 1 << 60)) for _ in range(chance.randrange(3))
    }
    hidden = chance.choice(((), (b"__ttl:",)))
    _same_of_tables(tables, "plain", data, hidden, managed, begins, heads, chance.choice(_HEADS))
    sure, other, now = chance.choice(_HEADS), chance.choice((0, 5, 9)), chance.choice((0, 6))
    of_calls = (_NAMES_OF_OURS, other, now, chance.choice((1, 2, 128)), chance.random() < 0.5)
    became = _became(chance)
    names = (heads, chance.choice(_HEADS), sure, chance.choice(_HEADS))
    _same_of_tables(tables, "calls", data, became, hidden, managed, begins, *names, *of_calls)


def _same_of_tables(tables: tuple[Any, Any], name: str, *args: Any) -> None:
    found, expected = (getattr(table, name)(*args) for table in tables)
    if found != expected:
        raise SystemExit(f"{name}{args!r}: the core says {found!r}, its twin {expected!r}")


def _became(chance: random.Random) -> dict[bytes, Any]:
    """What requests like these may have become: Table.calls."""
    became: dict[bytes, Any] = {}
    for words in range(1, 5):
        for name in _NAMES:
            head = b"*%d\r\n%b" % (words, bulks(name))
            became[head] = chance.choice((_WRITE, _SCORED, chance.randrange(-1, 5)))
            if isinstance(became[head], int) and chance.random() < 0.7:
                rest = [chance.choice(_KEYS)]
                any_head, _ = head_of_any(words, name, rest)
                became[any_head or head_of(words, name, rest)] = (*_SETS[:6], chance.randrange(30))
            if chance.random() < 0.3:
                del became[head]
    return became


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", help="the built core; without it, it is built and run anew")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=int, default=0, help="instead of a time")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = parser.parse_args()
    if chosen.library is None:
        done = sanitized(*sys.argv[1:])
        print(done.stdout + done.stderr, end="")
        raise SystemExit(done.returncode)
    spec = spec_from_file_location("ttlproxy.wire._core", chosen.library)
    assert spec is not None
    assert spec.loader is not None
    core = module_from_spec(spec)
    spec.loader.exec_module(core)
    chance = random.Random(chosen.seed)
    tables = core.Table(_KINDS), twin.Table(_KINDS)
    until = time.monotonic() + chosen.seconds
    for number in count(1):
        _compare(core, tables, chance)
        if number == chosen.inputs or (not chosen.inputs and time.monotonic() > until):
            print(f"seed {chosen.seed}: {number} inputs, no difference")
            return


if __name__ == "__main__":
    main()
