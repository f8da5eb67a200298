"""The file that keeps the position of a run, so that the next one goes on there.

Knows that it is JSON, replaced as a whole, and which run it belongs to. Does not know what a run
does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ttlproxy.errors import OperationError

_JOB: Final = "job"
T = TypeVar("T")


class ResumeFile:
    """Exists while a run is unfinished."""

    def __init__(
        self, path: Path | None = None, job: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`path`: without one, nothing is kept; `job`: what makes it the same run."""
        self._path = path
        self._job = dict(job)

    def load(self, read: Callable[[Any], T]) -> T | None:
        """Returns what `read` makes of what was kept; None if there is no file.

        Raises OperationError, also if the file belongs to another run. `read` may raise KeyError,
        TypeError or ValueError.
        """
        if self._path is None:
            return None
        try:
            content: Any = json.loads(self._path.read_text("utf-8"))
            job, kept = dict(content[_JOB]), read(content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as trouble:
            raise OperationError(f"{self._path} is no state that can be read: {trouble}") from None
        names = sorted(name for name in {*job, *self._job} if job.get(name) != self._job.get(name))
        if names:
            raise OperationError(
                f"{self._path} is of another run, which is not over ({', '.join(names)} differ):"
                f" delete the file, or name another one with --state"
            )
        return kept

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Replaces what was kept before. Raises OperationError."""
        if self._path is None:
            return
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            beside.write_text(json.dumps({_JOB: self._job, **kept}), "utf-8")
            os.replace(beside, self._path)
        except OSError as trouble:
            raise OperationError(f"cannot write {self._path}: {trouble.strerror}") from None

    def remove(self) -> None:
        """Removes the file: the run is over, and the next one begins anew."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
