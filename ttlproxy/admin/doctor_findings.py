"""The doctor's findings about Redis for the status page: what is wrong, and how to repair it."""

from __future__ import annotations

from typing import Final

from ttlproxy.addresses import Upstream
from ttlproxy.admin.cached_answers import Answer
from ttlproxy.config import Settings
from ttlproxy.operations.doctor import Severity, examined

# Fewer deadlines are examined than by `ttlproxy doctor`, because this runs again and again.
_SAMPLE: Final = 50


async def findings(settings: Settings, upstream: Upstream) -> Answer:
    """Warnings and errors, the worst first, without the names of keys."""
    found = await examined(settings, upstream, _SAMPLE, None)
    return {
        "findings": [
            {
                "level": str(finding.severity),
                "what": finding.what,
                "why": finding.why,
                "mend": finding.mend,
            }
            for finding in found
            if finding.severity >= Severity.WARNING
        ]
    }
