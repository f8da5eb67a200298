"""What a run of `ttlproxy adopt` notes in a file, so that the next one goes on where it was.

Knows nothing of keys. The file is JSON, and replaced as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ttlproxy.errors import AdoptError
from ttlproxy.operations.key_walk import Place


class Notes:
    """
    place: where to begin; counts: what was done until there
    """

    def __init__(self, path: Path | None, of: Mapping[str, str | int | None]) -> None:
        """`path`: None if nothing is to be noted; `of`: what the run is, so that only the same goes
        on. Raises AdoptError."""
        self.place = Place()
        self.counts: dict[str, int] = {}
        self._path = path
        self._of = of
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            noted = json.loads(path.read_text("utf-8"))
            of, place, counts = noted["of"], Place(*noted["place"]), dict(noted["counts"])
        except (OSError, ValueError, KeyError, TypeError) as trouble:
            raise AdoptError(f"{path} cannot be read as notes of a run: {trouble}") from trouble
        if of != self._of:
            raise AdoptError(
                f"{path} is of another run ({_shown(of)}): name another file, or delete it"
            )
        self.place, self.counts = place, counts

    def keep(self, place: Place, counts: Mapping[str, int]) -> None:
        """So far. Raises OSError."""
        if self._path is not None:
            beside = self._path.with_name(f"{self._path.name}.new")
            noted = {"of": self._of, "place": place, "counts": counts}
            beside.write_text(json.dumps(noted), "utf-8")
            beside.replace(self._path)

    def end(self) -> None:
        """The run is over: the next one begins anew."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _shown(of: Mapping[str, str | int | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in of.items())
