"""Where `ttlproxy doctor --apply` is in each database of each server, in a file if there is one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, Self

from ttlproxy.errors import DoctorError
from ttlproxy.operations.key_walk import Place
from ttlproxy.operations.resume_file import ResumeFile

FLAG: Final = "--state"


class FixState:
    """Raises DoctorError if the file cannot be read or written, or is of another run."""

    def __init__(self, file: ResumeFile | None = None) -> None:
        """`file`: without one, nothing is noted."""
        self._file = file
        self._begun: dict[str, tuple[Place, Counter[str]]] = (file and file.load(_read)) or {}

    @classmethod
    def at(cls, path: Path | None, upstream: str, prefix: str) -> Self:
        """In the file at `path`, about the internal keys with this prefix in this upstream."""
        if path is None:
            return cls()
        return cls(ResumeFile(path, {"upstream": upstream, "prefix": prefix}, FLAG, DoctorError))

    def begun(self, where: str) -> tuple[Place, Counter[str]]:
        """How far the walk there was, and what it had counted until then."""
        place, counts = self._begun.get(where, (Place(), Counter[str]()))
        return place, Counter(counts)

    def keep(self, where: str, place: Place, counts: Counter[str]) -> None:
        """The walk there is at this place."""
        self._begun[where] = (place, Counter(counts))
        if self._file is not None:
            self._file.keep({"begun": self._begun})

    def end(self) -> None:
        """All is fixed: the next run begins anew."""
        if self._file is not None:
            self._file.remove()


def _read(kept: Any) -> dict[str, tuple[Place, Counter[str]]]:
    return {
        where: (Place(*place), Counter(counts)) for where, (place, counts) in kept["begun"].items()
    }
