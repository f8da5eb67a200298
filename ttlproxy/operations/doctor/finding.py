"""What the doctor has to say: a finding, and how bad it is. Knows no Redis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """ok: as it should be; info: worth knowing; warning: a promise does not hold, or soon will not;
    error: ttlproxy does not work."""

    OK = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


OK, INFO, WARNING, ERROR = Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """check: which of the checks says so; what: is found; why: it matters; mend: the command that
    mends it, as typed in redis-cli or, where it begins with `ttlproxy`, in a shell; or what to do.
    keys: some that it is about.
    """

    check: str
    severity: Severity
    what: str
    why: str = ""
    mend: str = ""
    keys: tuple[bytes, ...] = ()
