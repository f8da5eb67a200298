"""npm packages, for tests and benchmarks that use other clients."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

CLIENTS = Path(__file__).parent / "clients"


class NoPackagesError(Exception):
    """Says why npm packages cannot be installed here."""


def install(folder: Path) -> None:
    """Puts tests/support/clients and its dependencies into a folder. Raises NoPackagesError."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NoPackagesError("no node and npm here")
    for file in CLIENTS.iterdir():
        shutil.copy(file, folder)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoPackagesError(f"npm cannot install: {done.stderr.strip()[-200:]}")
