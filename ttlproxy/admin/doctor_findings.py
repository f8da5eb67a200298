"""The doctor's findings about Redis for the status page: what is wrong, and how to repair it."""

from __future__ import annotations

from typing import Final

from ttlproxy.addresses import Upstream
from ttlproxy.admin.cached_answers import Answer
from ttlproxy.config import Settings
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import Severity, examined

# Fewer deadlines are examined than by `ttlproxy doctor`, because this runs again and again.
_SAMPLE: Final = 50


_NAMED: Final = "ttlproxy doctor names the key"


async def findings(settings: Settings, upstream: Upstream, *, names: bool) -> Answer:
    """Warnings and errors, the worst first; `names`: with names of keys where they have some."""
    found = await examined(settings, upstream, _SAMPLE, Progress.silent(), fixes=False)
    return {
        "findings": [
            {
                "level": str(finding.severity),
                "what": finding.what if names or not finding.nameless else finding.nameless,
                "why": finding.why,
                "fix": finding.fix if names or not finding.nameless else _NAMED,
            }
            for finding in found
            if finding.severity >= Severity.WARNING
        ]
    }
