"""What a process is doing that does not end: from /proc, and by gdb where it is. Linux only."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# Of each task: where it waits in the kernel, and the system call with its arguments.
_OF_A_TASK = ("wchan", "syscall")
_GDB = ("gdb", "-batch", "-ex", "thread apply all backtrace", "-p")
_GDB_TIMEOUT_S = 20.0


def doing(pid: int) -> str:
    """Several lines: the state of the process, and of each of its tasks."""
    process = Path(f"/proc/{pid}")
    files = [process / "status"]
    files += [task / name for task in process.glob("task/*") for name in _OF_A_TASK]
    return "\n".join([*map(_content, files), _backtrace(pid)])


def _content(file: Path) -> str:
    try:
        return f"{file}: {file.read_text(errors='replace')}"
    except OSError as refusal:  # not every kernel has each file, and tasks end
        return str(refusal)


def _backtrace(pid: int) -> str:
    if shutil.which(_GDB[0]) is None:
        return "gdb is not installed"
    try:
        ran = subprocess.run(
            [*_GDB, str(pid)], capture_output=True, text=True, timeout=_GDB_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"gdb has said nothing within {_GDB_TIMEOUT_S} s"
    return ran.stdout + ran.stderr
