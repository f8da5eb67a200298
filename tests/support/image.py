"""The image, built and run by buildah and crun, which need no daemon. Knows no command of Redis.

Its base is an archive of a Debian with Python that `make image-test` makes, since a test should need
no registry of images. pip's own settings, such as an index, reach the build but not the image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.processes import STOP_TIMEOUT_S
from tests.support.servers import ROOT

BASE: Final = Path(os.environ.get("TTLPROXY_IMAGE_BASE", ROOT / "build" / "image" / "base.tar"))
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_MOUNTS: Final = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
]


class ImageError(Exception):
    """What a program said that failed."""


def why_not_here() -> str | None:
    """None if the image can be built here, else the reason in one line."""
    lacking = [name for name in ("buildah", "crun") if shutil.which(name) is None]
    if lacking:
        return f"no {' and no '.join(lacking)} here"
    if os.geteuid() != 0:
        return "buildah and crun need root here"
    return None if BASE.exists() else "no base: make image-test makes one"


def _run(*words: str | Path) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def _pip_settings() -> str:
    """pip.conf with what PIP_... says in the environment, and the user's and the system's files."""
    listed = _run(ROOT / ".venv" / "bin" / "python", "-m", "pip", "config", "list")
    named = re.findall(r"^(?:global|:env:)\.([a-z-]+)='(.*)'$", listed, re.MULTILINE)
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in named)


class Image:
    """The image in a store of its own. `folder` must be removed by `remove`: it has mounts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buildah = ("buildah", "--root", folder / "store", "--runroot", folder / "run")
        self._buildah += ("--storage-driver", "vfs")
        self._crun = ("crun", "--root", folder / "crun", "--cgroup-manager", "disabled")
        self._import_base()
        self._build()
        container = self._ask("from", "localhost/ttlproxy")
        self.root = Path(self._ask("mount", container))
        inspected = json.loads(self._ask("inspect", "--type", "image", "localhost/ttlproxy"))
        self.config: dict[str, Any] = inspected["Docker"]["config"]

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
        files = [each for each in (self.root / "opt" / "ttlproxy").rglob("*")]
        return sum(each.lstat().st_size for each in files if not each.is_dir())

    @contextmanager
    def running(self, name: str, *arguments: str, **env: str) -> Iterator[None]:
        """A container with the image's own user, environment and entry point, on a root that is
        read-only and the host's network."""
        bundle = self._folder / name
        bundle.mkdir()
        spec = self._spec([*self.config["Entrypoint"], *arguments], env)
        (bundle / "config.json").write_text(json.dumps(spec))
        with (bundle / "log").open("wb") as log:
            child = subprocess.Popen(
                [*self._crun, "run", "-b", bundle, name], stdout=log, stderr=log
            )
        try:
            yield
        except BaseException as error:
            error.add_note((bundle / "log").read_text())
            raise
        finally:
            subprocess.run([*self._crun, "kill", name, "TERM"], check=False)
            child.wait(STOP_TIMEOUT_S)

    def execute(self, name: str, *command: str) -> str:
        """What a command in a running container prints."""
        return _run(*self._crun, "exec", name, *command)

    def _spec(self, command: list[str], env: dict[str, str]) -> dict[str, Any]:
        user, group = map(int, self.config["User"].split(":"))
        process = {
            "user": {"uid": user, "gid": group},
            "args": command,
            "env": [*self.config["Env"], *(f"{name}={value}" for name, value in env.items())],
            "cwd": "/",
            "noNewPrivileges": True,
        }
        spaces = [{"type": kind} for kind in ("mount", "pid", "ipc", "uts")]
        return {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self.root), "readonly": True},
            "mounts": _MOUNTS,
            "linux": {"namespaces": spaces},
        }

    def remove(self) -> None:
        self._ask("rm", "--all")
