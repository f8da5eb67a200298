"""A finding of the doctor, and its severity. Knows no Redis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """ok: as it should be; info: worth knowing; warning: a promise is broken, or soon will be;
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
    """check: the name of the check; what: the fact; why: why it matters; fix: the command that
    repairs it, for redis-cli or, if it begins with `ttlproxy`, for a shell; or else what to do;
    keys: some of the keys that are affected; nameless: the fact for who may see no names of keys,
    if `what` has some.
    """

    check: str
    severity: Severity
    what: str
    why: str = ""
    fix: str = ""
    keys: tuple[bytes, ...] = ()
    nameless: str = ""
