"""How log lines look, as text or as JSON, and what may not stand in them. Knows no line itself.

Our own words are `str`, and what comes from clients is `bytes` and never decoded: so whatever looks
like bytes is taken out of each line and each traceback, and with it all that a client has sent as
AUTH, HELLO, ACL, CONFIG, key or value. Redis quotes arguments in some errors; these go as well.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

_HIDDEN: Final = "***"
_SECRETS: Final = (
    (re.compile(r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""), f"b'{_HIDDEN}'"),
    (re.compile(r"(with args beginning with:).*"), rf"\1 {_HIDDEN}"),
    (re.compile(r"(://[^\s/@:]*):[^\s/@]*@"), rf"\1:{_HIDDEN}@"),
)


def redacted(text: str) -> str:
    """A line without what may be secret."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class _Time(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """In UTC, to the millisecond, as ISO 8601 and RFC 3339 have it."""
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(_Time):
    """Time, level, the process if there are several, message."""

    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {process and process + ': '}%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class _Json(_Time, JsonFormatter):
    """An object a line: time, level, logger, message, exc_info, and what `extra` has."""

    def __init__(self, process: str) -> None:
        super().__init__(
            ["asctime", "levelname", "name", "message"],
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            static_fields={"process": process} if process else {},
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {
            name: redacted(value) if isinstance(value, str) else value
            for name, value in log_data.items()
        }


_FORMATS: Final[dict[str, Callable[[str], logging.Formatter]]] = {"text": _Text, "json": _Json}


def set_up(level: str, form: str, process: str = "") -> None:
    """From now on lines of that level and above go to standard error in that format.

    `process`: which of several this is.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATS[form](process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    logging.getLogger().setLevel(level.upper())
