"""A wall clock that jumps while a process uses it: a preloaded library (clock_shim.c).

    with Clock(built(folder)) as clock:
        server = Server(binary, env=clock.env).start()
        clock.jump(-3_600_000)

In a test the fixture `clock` does that: `start_server(env=clock.env)`. The process's monotonic
clock, which timers use, is not changed. Knows no Redis. Needs Linux and a C compiler.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class NoShimError(Exception):
    """Says why the library cannot be built here."""


def built(folder: Path) -> Path:
    """Compiles the library into `folder`, and returns its path. Raises NoShimError."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux":
        raise NoShimError("LD_PRELOAD is Linux's")
    if compiler is None:
        raise NoShimError("no C compiler here")
    library = folder / "clock_shim.so"
    made = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise NoShimError(f"it does not compile: {made.stderr}")
    return library


class Clock:
    """The clock of every process that is started with `env`.

    ahead_ms: how far this clock is ahead of the machine's clock now
    """

    def __init__(self, library: Path) -> None:
        """`library`: what `built` returns."""
        self._file = tempfile.NamedTemporaryFile(prefix="ttlproxy-clock-")  # noqa: SIM115
        self.env = {"LD_PRELOAD": str(library), "CLOCK_SHIM": self._file.name}
        self.ahead_ms = 0
        self.jump(0)

    def __enter__(self) -> "Clock":
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def jump(self, by_ms: int) -> None:
        """Moves the clock forward by so many ms, or back."""
        self.ahead_ms += by_ms
        self._file.seek(0)
        self._file.write((self.ahead_ms * 1000).to_bytes(8, sys.byteorder, signed=True))
        self._file.flush()

    def close(self) -> None:
        """Call it after the last process that uses it: nobody can map a deleted file."""
        self._file.close()
