"""The doctor as other parts of ttlproxy call it, on servers that a test has damaged."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.servers import release
from ttlproxy.config import Settings
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import CHECKS, Finding, examination, examined
from ttlproxy.operations.doctor.required_rights import rules


def examine(
    url: str,
    *,
    only: Sequence[str] = tuple(CHECKS),
    sample: int = 1000,
    fix: bool = False,
    state: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
    **settings: object,
) -> list[Finding]:
    """The findings of all checks, or of `only` these; with `fix` those after fixing, which goes on
    where `state` says; `say` takes what it did."""
    chosen = Settings.read({"upstream": url, **settings})
    assert chosen.upstream
    progress = Progress(say, io.StringIO(), note=lambda line: None)
    with patch.object(examination, "CHECKS", {name: CHECKS[name] for name in only}):
        return asyncio.run(
            examined(chosen, chosen.upstream, sample, progress, fixes=fix, state=state)
        )


def rights_of(server: str, *, clustered: bool = False) -> list[str]:
    """The rules of docs/security.md for a proxy's user at a server of that name."""
    return rules(release(server), server.startswith("valkey-9"), clustered)


def check(name: str, url: str, **settings: Any) -> Finding:
    """The worst finding of this check alone."""
    return next(each for each in examine(url, only=[name], **settings) if each.check == name)


def above_info(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """The findings worse than info: check and severity."""
    return [(found.check, str(found.severity)) for found in findings if found.severity > 1]


def of(check: str, findings: Sequence[Finding]) -> Finding:
    """The one finding of a check."""
    (found,) = [each for each in findings if each.check == check]
    return found
