"""Which small faults no test notices: `python -m tests.mutants`.

Chooses mutants by a seed, each with one changed place of a Python file or of a Lua script, and runs
the tests that are mapped to the file in a copy of the checkout. Prints a line for each mutant, and
the changed lines of those that live; ends with 1 if more live than `--living` allows. A mutant is
dead if a test fails, or if the run takes longer than `--timeout`. As long as the files are the
same, so are the mutants of a seed: two versions of the tests can be compared.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
_COPIED: Final = ("ttlproxy", "tests", "docs", "deploy", "pyproject.toml", "README.md")
# The scripts behind the commands that are used most, and the reaper's.
_SCRIPTS: Final = (
    *("reap", "hash_set", "hash_setex", "set_add", "zset_add", "list_push", "element_expire"),
    *("element_ttl", "key_delete", "key_expire"),
)
# What begins with these words is tested there, the lowest level first.
TESTS: Final = {
    "ttlproxy/session/": ("tests/core", "tests/proxy", "tests/data_path", "tests/semantics"),
    "ttlproxy/core/": ("tests/core", "tests/link", "tests/operations", "tests/semantics"),
    "ttlproxy/proxy/routed": ("tests/proxy", "tests/cluster"),
    "ttlproxy/proxy/": ("tests/proxy", "tests/data_path", "tests/faults"),
    "ttlproxy/link/": ("tests/link", "tests/faults", "tests/features", "tests/cluster"),
    "ttlproxy/scripts/": ("tests/semantics", "tests/features", "tests/link"),
}
# What is changed, and into what. A change after which Python cannot read the file is none.
_BOTH: Final = (
    (r"==", "!="),
    (r"[!~]=", "=="),
    (r"(?<= )([<>])(?= )", r"\1="),
    (r"(?<= )([<>])=(?= )", r"\1"),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bnot ", ""),
    (r"(?<=[\s(\[,=])\d+\b", r"(\g<0> + 1)"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
)
_PYTHON: Final = (
    *_BOTH,
    (r"\bis\b", "is not"),
    (r"\bin\b", "not in"),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r"(?<=\breturn ).+", "None"),
    (r"^( *)(?:await )?[\w.]+\(.*\)$", r"\1pass"),
)
_LUA: Final = (*((old, new.replace("!=", "~=")) for old, new in _BOTH), (r"^ *[\w.]+\(.*\)$", ""))
_LUA_TEXT: Final = re.compile(r"--.*|'[^']*'")


class Mutant(NamedTuple):
    """A file with one line changed. `row` counts from 0."""

    path: Path
    row: int
    line: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.row + 1}"

    @property
    def text(self) -> str:
        lines = self.path.read_text().splitlines()
        return "\n".join([*lines[: self.row], self.line, *lines[self.row + 1 :], ""])


def _code(path: Path) -> list[str]:
    """The lines of a file, with stars in place of comments and strings."""
    lines = path.read_text().splitlines()
    if path.suffix == ".lua":
        return [_LUA_TEXT.sub(lambda found: "*" * len(found[0]), line) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (first, start), (last, end) = token.start, token.end
            for row in range(first - 1, last):
                begin = start if row == first - 1 else 0
                stop = end if row == last - 1 else len(lines[row])
                lines[row] = lines[row][:begin] + "*" * (stop - begin) + lines[row][stop:]
    return lines


def _is_readable(mutant: Mutant) -> bool:
    """Whether it is a program. Of Lua only brackets that stand in one line are looked at."""
    if mutant.path.suffix == ".lua":
        return bool(mutant.line) or mutant.path.read_text().splitlines()[mutant.row][-1] == ")"
    try:
        compile(mutant.text, str(mutant.path), "exec")
    except SyntaxError:
        return False
    return True


def mutants_of(path: Path) -> Iterator[Mutant]:
    lines, changes = path.read_text().splitlines(), _LUA if path.suffix == ".lua" else _PYTHON
    for row, code in enumerate(_code(path)):
        for old, new in changes:
            for found in re.finditer(old, code):
                if code.count("(") == code.count(")"):
                    line = lines[row][: found.start()] + found.expand(new)
                    yield Mutant(path, row, line + lines[row][found.end() :])


def usual_files() -> list[Path]:
    """session, core, proxy, reaper, and the scripts that are used most."""
    folders = (ROOT / "ttlproxy" / each for each in ("session", "core", "proxy", "link/reaper"))
    scripts = [ROOT / "ttlproxy/scripts" / f"{name}.lua" for name in _SCRIPTS]
    return [*sorted(each for folder in folders for each in folder.rglob("*.py")), *scripts]


def tests_of(path: Path) -> Sequence[str]:
    name = str(path.relative_to(ROOT))
    return next(tests for start, tests in TESTS.items() if name.startswith(start))


def lives(mutant: Mutant, tests: Sequence[str], copy: Path, timeout_s: float) -> bool:
    """Whether the tests pass with it, in this copy of the checkout."""
    place = copy / mutant.path.relative_to(ROOT)
    usual = "-m", "pytest", "--quick", "-qx", "-p", "no:cacheprovider", "--numprocesses", "2"
    place.write_text(mutant.text)
    try:
        command = [sys.executable, *usual, *tests]
        done = subprocess.run(command, cwd=copy, timeout=timeout_s, capture_output=True)
    except subprocess.TimeoutExpired:
        return False
    finally:
        shutil.copy(mutant.path, place)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="what is changed, if not the usual")
    parser.add_argument("--tests", nargs="+", help="what runs, in place of what TESTS maps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--living", type=int, default=0, help="how many may live")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each mutant")
    options = parser.parse_args()
    files = [path.resolve() for path in options.files] or usual_files()
    every = [mutant for path in files for mutant in mutants_of(path)]
    Random(options.seed).shuffle(every)
    chosen = list(islice(filter(_is_readable, every), options.count))
    living = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in _COPIED:
            copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copied(ROOT / name, Path(folder, name))
        for mutant in sorted(chosen):
            begun, tests = time.monotonic(), options.tests or tests_of(mutant.path)
            is_living = lives(mutant, tests, Path(folder), options.timeout)
            living += is_living
            verdict, took = "LIVES" if is_living else "dead", time.monotonic() - begun
            print(f"{verdict} {mutant} ({took:.0f} s): {mutant.line.strip()}", flush=True)
    print(f"{living} of {len(chosen)} live")
    return int(living > options.living)


if __name__ == "__main__":
    sys.exit(main())
