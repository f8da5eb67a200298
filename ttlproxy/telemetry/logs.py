"""The format of log lines, text or JSON, and what is removed from them. Knows no line itself.

Our own words are `str`; bytes from clients are never decoded. So everything that looks like a bytes
literal is removed from each line and traceback, and with it all that a client has sent: AUTH,
HELLO, ACL, CONFIG, keys and values. Arguments that Redis quotes in some errors are removed, too.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ttlproxy.net.progress import CLEAR

_HIDDEN: Final = "***"
_SECRETS: Final = (
    (re.compile(r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""), f"b'{_HIDDEN}'"),
    (re.compile(r"(with args beginning with:).*"), rf"\1 {_HIDDEN}"),
    (re.compile(r"(://[^\s/@:]*):[^\s/@]*@"), rf"\1:{_HIDDEN}@"),
)


def one_line(text: str) -> str:
    """Returns the text with control and other unprintable characters escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def redacted(text: str) -> str:
    """Returns the text without what may be secret."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class _Time(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Returns the time in UTC, to the millisecond, in the format of ISO 8601 and RFC 3339."""
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(_Time):
    """Time, level, the process if there are several, message; the exception, and where it was
    raised.

    Each event is exactly one line. Otherwise a logged name could forge lines of its own, and
    programs that read the log by lines would take half an event for a whole one.
    """

    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {process and process + ': '}%(message)s")
        # A progress line, of this process or another, may be there.
        self._before = CLEAR if sys.stderr.isatty() else ""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage() + _trouble(record)
        record.asctime = self.formatTime(record)
        return self._before + one_line(redacted(self.formatMessage(record)))


def _trouble(record: logging.LogRecord) -> str:
    """Returns the exception, its causes, and where each was raised: the innermost call first."""
    trouble = record.exc_info[1] if record.exc_info else None
    said = []
    while trouble is not None:
        said.append(f"{type(trouble).__name__}: {trouble} (at {_where(trouble)})")
        context = None if trouble.__suppress_context__ else trouble.__context__
        trouble = trouble.__cause__ or context
    return f": {', from '.join(said)}" if said else ""


def _where(trouble: BaseException) -> str:
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(trouble.__traceback__))
    ]
    return " < ".join(frames) or "an unknown place"


def _json(process: str) -> logging.Formatter:
    """One object per line: time, level, logger, message, exc_info, and the fields of `extra`."""
    from pythonjsonlogger.json import JsonFormatter

    class Json(_Time, JsonFormatter):
        def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
            return {
                name: redacted(value) if isinstance(value, str) else value
                for name, value in log_data.items()
            }

    return Json(
        ["asctime", "levelname", "name", "message"],
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        static_fields={"process": process} if process else {},
    )


def set_up(level: str, form: str, process: str = "") -> None:
    """Sends lines of `level` and above to standard error in the format `form`.

    `process`: the name of this process; empty if there is only one.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_json(process) if form == "json" else _Text(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    logging.getLogger().setLevel(level.upper())
