"""The completion that `ttlproxy completion` prints, in the shells themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import ttlproxy
from tests.support.requirements import absent
from tests.support.terminal import Terminal
from ttlproxy.cli.completion import SHELLS
from ttlproxy.cli.subcommand import SUMMARIES
from ttlproxy.config import SETTINGS

_TYPED = [
    ("ttlproxy doc", {"doctor"}),
    ("ttlproxy --tls-n", {"--tls-names"}),
    ("ttlproxy --chec", {"--check"}),
    ("ttlproxy --cluster-view ", {"one", "nodes"}),
    ("ttlproxy purge --ap", {"--apply"}),
    ("ttlproxy healthcheck --probe ", {"startup", "livez", "readyz"}),
    ("ttlproxy top --listen", set()),
]


@pytest.fixture(params=SHELLS)
def script(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """(the shell, the file that it reads)"""
    shell: str = request.param
    done = ttlproxy("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / "completion"
    file.write_text(done.stdout)
    return shell, file


def test_it_has_all_subcommands_and_settings(script: tuple[str, Path]) -> None:
    shell, file = script
    text = file.read_text()
    for name in SUMMARIES:
        assert re.search(rf"\b{name}\b", text)
    for name in SETTINGS:
        dashed = name.replace("_", "-")
        assert (f"-l {dashed} " if shell == "fish" else f"--{dashed}") in text


@pytest.mark.parametrize(("typed", "completed"), _TYPED)
def test_a_shell_completes(script: tuple[str, Path], typed: str, completed: set[str]) -> None:
    shell, file = script
    if not shutil.which(shell):
        absent(shell, f"{shell} is not installed")
    found = _COMPLETED[shell](file, typed)
    if shell == "zsh":  # what is typed shows, too
        assert found >= completed
    else:
        assert found == completed


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout


def _bash(file: Path, typed: str) -> set[str]:
    words = typed.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = f"source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _ttlproxy"
    return {*_run("bash", "-c", f'{code}; printf "%s\\n" "${{COMPREPLY[@]}}"').split()}


def _fish(file: Path, typed: str) -> set[str]:
    code = f"source {file}; complete -C {typed!r}"
    return {
        line.partition("\t")[0] for line in _run("fish", "--no-config", "-c", code).split("\n")
    } - {""}


def _zsh(file: Path, typed: str) -> set[str]:
    """What it shows behind the word, or lists below, when Tab is typed."""
    ready = f"autoload -Uz compinit; compinit -D -u; source {file}; compdef _ttlproxy ttlproxy"
    with Terminal(("zsh", "-f", "-i"), file.parent, {"TERM": "dumb", "PS1": "", "RPS1": ""}) as zsh:
        zsh.type(f"{ready}; print be''gin\n".encode())
        zsh.until("begin")
        zsh.type(f"{typed}\t\t".encode())
        zsh.type(b"\x01print en''d '\x05'\n")  # as the argument of another command
        zsh.until("\nend")
        shown = zsh.text.rpartition("begin")[2]
    return {*re.findall(r"(?<![\w-])(?:--)?[a-z]+(?:-[a-z]+)*", shown)}


_COMPLETED = {"bash": _bash, "fish": _fish, "zsh": _zsh}
