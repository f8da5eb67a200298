"""Example programs of pages: each is written to a folder, gets its client library and is run there.

The expected output is behind the lines that print it, as `// 100`, in Python as `# 100`. Client
libraries come from the registry of their language; if one cannot be fetched, the test is skipped
with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.npm import CLIENTS
from tests.support.requirements import absent, find_program

# In seconds. The first run compiles the client, or fetches it and its build tools.
SLOW: Final = 900
_PRINTED: Final = re.compile(
    r"(?:Println|println|log|\bprint)\(.*\);? +(?://|#) (.*)$", re.MULTILINE
)
# Half of the CPU time of a JVM that runs for seconds goes into its compiler.
_BRIEF_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Use only the installed Go.
GO: Final = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}


def run(
    command: Sequence[str], folder: Path, typed: str = "", env: dict[str, str] | None = None
) -> str:
    """The program's output; the test fails if the program does."""
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def asked(command: Sequence[str], folder: Path) -> Iterator[None]:
    """A program whose clients have all asked, as its line says, and stay connected."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "asked\n"
            yield
        finally:
            program.kill()


def run_node(program: str, folder: Path) -> None:
    """The folder must be in one that has ioredis."""
    script = folder / "recipe.mjs"
    script.write_text(f'import assert from "node:assert";\n{program}\nprocess.exit(0);\n')
    compare(program, run(["node", str(script)], folder))


def run_go(program: str, folder: Path) -> None:
    go = tool("go")
    (folder / "main.go").write_text(program)
    run([go, "mod", "init", "example"], folder, env=GO)
    fetch("go-redis", [go, "get", "github.com/redis/go-redis/v9"], folder, GO)
    compare(program, run([go, "run", "."], folder, env=GO))


def build_go(folder: Path, *programs: Path, module: str = "github.com/redis/go-redis/v9") -> None:
    """Compiles each of these files with a client; the program has the file's name."""
    run([tool("go"), "mod", "init", "example"], folder, env=GO)
    fetch(module, [tool("go"), "get", module], folder, GO)
    for program in programs:
        shutil.copy(program, folder)
        run([tool("go"), "build", "-o", program.stem, program.name], folder, env=GO)


def run_java(program: str, folder: Path) -> None:
    """The folder must be in that of `java_clients`."""
    (folder / "Cart.java").write_text(program)
    compare(program, run([*java(), "-cp", "../lib/*", "Cart.java"], folder))


def java() -> Sequence[str]:
    """The command, for a program of seconds."""
    return tool("java"), *_BRIEF_JVM


def javac() -> Sequence[str]:
    return tool("javac"), *(f"-J{flag}" for flag in _BRIEF_JVM)


def fetch_java(folder: Path) -> None:
    """Puts Jedis and Lettuce, and what they need, into `lib`."""
    shutil.copy(CLIENTS / "pom.xml", folder)
    words = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    env = {**os.environ, "MAVEN_OPTS": " ".join(_BRIEF_JVM)}
    fetch("jedis", [tool("mvn"), *words], folder, env)


def tool(name: str) -> str:
    """The path of a program; without it the test is skipped."""
    found = find_program(name)
    if found is None:
        absent(name, f"no {name} here")
    return found


def fetch(
    client: str, command: Sequence[str], folder: Path, env: dict[str, str] | None = None
) -> None:
    """Runs the command that gets a client; if it fails, the test is skipped."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()[-300:]
        absent(client, f"{client} cannot be fetched: {said}")


def compare(program: str, printed: str) -> None:
    """Fails if a program did not print what is behind its lines."""
    assert printed.splitlines() == _PRINTED.findall(program)
