"""What the doctor says of Redis while somebody looks: what is wrong, and what mends it."""

from __future__ import annotations

from typing import Final

from ttlproxy.addresses import Upstream
from ttlproxy.admin.cached_answers import Answer
from ttlproxy.config import Settings
from ttlproxy.operations.doctor import Severity, examined

# As it is done again and again, fewer deadlines are looked at than by `ttlproxy doctor`.
_SAMPLE: Final = 50


async def findings(settings: Settings, upstream: Upstream) -> Answer:
    """Warnings and errors, the worst first; without the keys that they are about."""
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
