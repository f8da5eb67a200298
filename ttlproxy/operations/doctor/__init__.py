"""`ttlproxy doctor`: what is wrong with an upstream, why it matters, and the command that fixes it.

`checks` has the table of checks. Each check is a function, in `server`, `rights`, `content` and
others, that examines a `target` and returns a list of `finding`s. `fix` repairs what can be
repaired from here; `report` shows findings. Other packages call `examined`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from redis.exceptions import NoPermissionError, RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.errors import UpstreamError
from ttlproxy.link import (
    Asked,
    NodeOfSeveral,
    Role,
    cause,
    client,
    located,
    mismatch,
    several_masters,
)
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor.checks import CHECKS, SAMPLE, findings
from ttlproxy.operations.doctor.finding import ERROR, Finding, Severity
from ttlproxy.operations.doctor.fix import fixed
from ttlproxy.operations.doctor.fix_state import FixState
from ttlproxy.operations.doctor.masters import of_masters
from ttlproxy.operations.doctor.report import as_json, as_text, exit_code
from ttlproxy.operations.doctor.required_rights import rules
from ttlproxy.operations.doctor.target import meet

__all__ = [
    "CHECKS",
    "SAMPLE",
    "Finding",
    "Severity",
    "as_json",
    "as_text",
    "examined",
    "exit_code",
    "findings",
]


async def examined(
    settings: Settings,
    upstream: Upstream,
    sample: int,
    progress: Progress,
    *,
    fixes: bool,
    state: Path | None = None,
) -> list[Finding]:
    """The findings, over a connection of its own. If it `fixes`, it does so first, and says what;
    `state`: the file where it keeps how far it is.

    A Redis that cannot be reached is a finding. Raises DoctorError if the state cannot be used.
    """
    fix_state = FixState.at(state, upstream.shown, settings.prefix) if fixes else None
    settings = replace(settings, upstream=upstream)
    try:
        server = await located(upstream, settings.connect_timeout)
    except (UpstreamError, OSError) as trouble:
        return [_away(upstream, trouble)]
    role: Role = "redis" if upstream.sentinels is None else "behind"
    redis = client(server, "ttlproxy:doctor", settings.connect_timeout)
    try:
        await redis.initialize()
        if masters := await _masters(server, settings):
            return await of_masters(masters, settings, sample, progress, fix_state)
        if fix_state is not None:
            await fixed(await meet(redis, settings, sample, progress), fix_state)
            fix_state.end()
        return await findings(redis, settings, progress, sample)
    except (RedisError, OSError, UpstreamError, ValueError) as trouble:
        return [_away(upstream, trouble, await mismatch(server, role))]
    finally:
        progress.clear()
        await redis.aclose()


async def _masters(server: Upstream, settings: Settings) -> list[NodeOfSeveral]:
    """All masters, if there are several; none where a check tells that their list is refused."""
    try:
        return await several_masters(server, "ttlproxy:doctor", settings.connect_timeout)
    except NoPermissionError:
        return []


def _away(upstream: Upstream, trouble: Exception, known: str = "") -> Finding:
    """`known`: what is wrong with TLS, and how to fix it."""
    user = upstream.user or "default"
    found = cause(trouble, Asked(user=user))
    what, _, cure = known.partition(": ") if known else (found.what, "", found.cure)
    if isinstance(trouble, NoPermissionError):
        cure = f"ACL SETUSER {user} {' '.join(rules())}"
    return Finding(
        "connection",
        ERROR,
        f"Redis at {upstream.shown}: {what}",
        "No client can be served without it.",
        cure or "check whether Redis runs there, and is well",
    )
