"""The image, built by buildah, which needs no daemon, and run. Knows no command of Redis.

Its base is an archive of a Debian with Python, which `make image-test` makes, since a test should
need no registry of images. pip's own settings, such as an index, reach the build, not the image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.processes import STOP_TIMEOUT_S
from tests.support.servers import ROOT

BASE: Final = Path(os.environ.get("TTLPROXY_IMAGE_BASE", ROOT / "build" / "image" / "base.tar"))
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
# For sh in a mount namespace of its own: $0 is the root, and the rest is the command.
_READ_ONLY: Final = """
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
exec "$@"
"""


class ImageError(Exception):
    """What a program said that failed."""


def why_not_here() -> str | None:
    """None if the image can be built here, else the reason in one line."""
    if shutil.which("buildah") is None:
        return "no buildah here"
    if os.geteuid() != 0:
        return "an image is built and run as root"
    return None if BASE.exists() else "no base: make image-test makes one"


def _run(*words: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def _pip_settings() -> str:
    """A pip.conf of what PIP_... says in the environment, and else of the files that pip reads."""
    listed = _run(sys.executable, "-m", "pip", "config", "list")
    settings = dict[str, str](re.findall(r"^global\.([a-z-]+)='(.*)'$", listed, re.MULTILINE))
    settings |= re.findall(r"^:env:\.([a-z-]+)='(.*)'$", listed, re.MULTILINE)
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())


class Image:
    """The image in a store of its own. `folder` must be removed by `remove`: it has mounts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        stored = ("--root", folder / "store", "--runroot", folder / "run")
        self._buildah = ("buildah", *stored, "--storage-driver", "vfs")
        self._import_base()
        self._build()
        container = self._ask("from", "localhost/ttlproxy")
        self.root = Path(self._ask("mount", container))
        inspected = json.loads(self._ask("inspect", "--type", "image", "localhost/ttlproxy"))
        self.config: dict[str, Any] = inspected["Docker"]["config"]
        self._env = dict[str, str](each.split("=", 1) for each in self.config["Env"])

    def _ask(self, *words: str | Path) -> str:
        return _run(*self._buildah, *words)

    def _import_base(self) -> None:
        container = self._ask("from", "scratch")
        self._ask("add", "--quiet", container, BASE, "/")
        self._ask("commit", "--quiet", "--rm", container, "localhost/base")

    def _build(self) -> None:
        """What `docker build .` does, with another base."""
        settings = self._folder / "pip.conf"
        settings.write_text(_pip_settings())
        volumes = [f"{settings}:/etc/pip.conf:ro"]
        if _CERTIFICATES.exists():
            volumes.append(f"{_CERTIFICATES}:{_CERTIFICATES}:ro")
        flags = [f"--volume={each}" for each in volumes]
        flags += ["--isolation=chroot", "--format=docker", "--from=localhost/base"]
        self._ask("build", "--quiet", *flags, "--tag=localhost/ttlproxy", ".")

    def added_bytes(self) -> int:
        """The files that the image adds to its base."""
        paths = (self.root / "opt" / "ttlproxy").rglob("*")
        return sum(each.lstat().st_size for each in paths if not each.is_dir())

    @contextmanager
    def running(self, *arguments: str, **env: str) -> Iterator[None]:
        """A process with the image's own user, environment and entry point, on the host's network.
        Its root is the image's, read-only."""
        words = [*self._as_user(), *self.config["Entrypoint"], *arguments]
        log_path = self._folder / "log"
        with log_path.open("wb") as log:
            self._child = subprocess.Popen(
                ["unshare", "--mount", "sh", "-euc", _READ_ONLY, self.root, *words],
                env=self._env | env,
                stdout=log,
                stderr=log,
            )
        try:
            yield
        except BaseException as error:
            error.add_note(log_path.read_text())
            raise
        finally:
            self._child.terminate()
            self._child.wait(STOP_TIMEOUT_S)

    def execute(self, *command: str, **env: str) -> str:
        """What a command prints beside the running process."""
        entering = ("nsenter", "--mount", "--target", str(self._child.pid))
        return _run(*entering, *self._as_user(), *command, env=self._env | env)

    def _as_user(self) -> tuple[str | Path, ...]:
        user, group = self.config["User"].split(":")
        return "chroot", f"--userspec={user}:{group}", f"--groups={group}", self.root

    def remove(self) -> None:
        self._ask("rm", "--all")
