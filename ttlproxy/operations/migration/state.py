"""How far an import is, in a file, so that one that was interrupted goes on."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttlproxy.errors import MigrationError
from ttlproxy.operations.key_walk import Place

MOVING: Final = "moving"
CHECKING: Final = "checking"


@dataclass
class State:
    """
    job: what is moved, and how: an import goes on only with the same words
    phase: MOVING or CHECKING; part: the number of the source's part; place: how far it is there
    counts: of keys and of outcomes in this phase, by name; moved: those of MOVING when it is over
    """

    job: Mapping[str, str]
    phase: str = MOVING
    part: int = 0
    place: Place = field(default_factory=Place)
    counts: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)

    def check(self) -> None:
        """MOVING is over."""
        self.phase, self.part, self.place = CHECKING, 0, Place()
        self.moved, self.counts = self.counts, Counter()


class StateFile:
    """The file; it is there while an import is not over."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, job: Mapping[str, str]) -> State | None:
        """The state of this job; None if there is no file. Raises MigrationError."""
        try:
            read: Any = json.loads(self._path.read_text("utf-8"))
            place = Place(**read["place"])
            state = State(
                *(read["job"], read["phase"], read["part"], place),
                *(Counter(read["counts"]), Counter(read["moved"])),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as trouble:
            raise MigrationError(f"{self._path} is no state that can be read: {trouble}") from None
        if state.job != job:
            names = sorted(
                name for name in {*state.job, *job} if state.job.get(name) != job.get(name)
            )
            raise MigrationError(
                f"{self._path} is of another one, which is not over ({', '.join(names)} differ):"
                " delete the file, or name another one with --state"
            )
        return state

    def save(self, state: State) -> None:
        """Raises MigrationError."""
        content = {**vars(state), "place": state.place._asdict()}
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            beside.write_text(json.dumps(content), "utf-8")
            os.replace(beside, self._path)
        except OSError as trouble:
            raise MigrationError(f"cannot write {self._path}: {trouble.strerror}") from None

    def remove(self) -> None:
        """It is over."""
        self._path.unlink(missing_ok=True)

    def __str__(self) -> str:
        return str(self._path)
