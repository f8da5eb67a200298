"""A wall clock that jumps while a process runs by it: a library that is preloaded (clock_shim.c).

    with Clock(built(folder)) as clock:
        server = Server(binary, env=clock.env).start()
        clock.jump(-3_600_000)

In a test the fixture `clock` does that: `start_server(env=clock.env)`. The process's monotonic
clock, by which timers run, goes on undisturbed. Knows no Redis. Linux, with a C compiler.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

SOURCE = Path(__file__).with_suffix(".c")


class NoShimError(Exception):
    """Why there is none here."""


def built(folder: Path) -> Path:
    """The library, compiled into `folder`. Raises NoShimError."""
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

    ahead_ms: how far it is ahead of the machine's now
    """

    def __init__(self, library: Path) -> None:
        """`library`: see `built`."""
        self._file = tempfile.NamedTemporaryFile(prefix="ttlproxy-clock-")  # noqa: SIM115
        self.env = {"LD_PRELOAD": str(library), "CLOCK_SHIM": self._file.name}
        self.ahead_ms = 0
        self.jump(0)

    def __enter__(self) -> "Clock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def jump(self, by_ms: int) -> None:
        """From now on it shows so much more, or less."""
        self.ahead_ms += by_ms
        self._file.seek(0)
        self._file.write((self.ahead_ms * 1000).to_bytes(8, sys.byteorder, signed=True))
        self._file.flush()

    def close(self) -> None:
        """Nobody who runs by it is left: a file that is gone cannot be mapped anew."""
        self._file.close()
