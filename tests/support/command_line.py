"""The subcommands of ttlproxy, as a shell runs them. Imports are nine tenths of a short run: so it
is forked from a process that has done them (tests.support.forkserver)."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import NamedTemporaryFile

from tests.support.forkserver import Forked

_TIMEOUT_S = 60.0


def ttlproxy(*words: str) -> CompletedProcess[str]:
    """Runs it to its end. Nobody is at a terminal."""
    with NamedTemporaryFile(prefix="ttlproxy-", suffix=".log") as log:
        child = Forked(words, {**os.environ}, log.name)
        with child.stdout:
            said = child.stdout.read()
        code = child.wait(_TIMEOUT_S)
        return CompletedProcess(words, code, said.decode(), Path(log.name).read_text("utf-8"))
