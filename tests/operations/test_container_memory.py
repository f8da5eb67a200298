"""The container's memory limit: read as Linux shows it, told, and compared with the settings."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartServer
from tests.support.doctor import examine, of
from tests.support.requirements import absent
from ttlproxy.config import Settings
from ttlproxy.telemetry import memory
from ttlproxy.telemetry.memory import Memory, needed, shortage

_MIB: Final = 1 << 20
_V1: Final = "9:name=systemd:/a\n4:memory:/pods/one\n1:cpu,cpuacct:/pods\n0::/\n"
_UNLIMITED: Final = 9223372036854771712
_STAT: Final = "cache 9\n{}inactive_file 5\ninactive_anon 1"


class _System:
    """Files of Linux, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._membership = folder / "cgroup"
        self._mount = folder / "mount"
        self._mount.mkdir()

    def member(self, lines: str) -> None:
        self._membership.write_text(lines)

    def write(self, path: str, **files: object) -> None:
        """`_` in the names of files is `.` behind the first word."""
        folder = self._mount / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name.replace("_", ".", 1)).write_text(f"{content}\n")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _System:
    monkeypatch.setattr(memory, "_MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_MOUNT", tmp_path / "mount")
    return _System(tmp_path)


def test_a_container_sees_its_own_group_at_the_mount(system: _System) -> None:
    system.member("0::/\n")
    system.write("", memory_max=256 * _MIB, memory_current=105, memory_stat=_STAT.format(""))
    assert memory.container_memory() == Memory(256 * _MIB, 100)


def test_the_lowest_limit_of_the_groups_around_counts(system: _System) -> None:
    system.member("0::/slice/unit\n")
    system.write("", memory_stat="")
    system.write("slice", memory_max=500, memory_current=400, memory_stat="")
    system.write("slice/unit", memory_max="max", memory_current=300, memory_stat="")
    assert memory.container_memory() == Memory(500, 400)


def test_without_a_limit_the_own_group_counts(system: _System) -> None:
    system.member("0::/slice/unit\n")
    for folder, used in (("slice", 400), ("slice/unit", 300)):
        system.write(folder, memory_max="max", memory_current=used, memory_stat="")
    assert memory.container_memory() == Memory(math.inf, 300)


@pytest.mark.parametrize("folder", ["memory/pods/one", "memory"])
def test_the_first_version_has_other_files(system: _System, folder: str) -> None:
    """Its namespaces do not change the path, so that a container may not find it."""
    system.member(_V1)
    stat = _STAT.format("total_")
    system.write(
        "memory",
        memory_limit_in_bytes=_UNLIMITED,
        memory_usage_in_bytes=10**9,
        memory_stat=stat,
    )
    system.write(folder, memory_limit_in_bytes=1000, memory_usage_in_bytes=105, memory_stat=stat)
    assert memory.container_memory() == Memory(1000, 100)


@pytest.mark.parametrize("lines", [None, "", "7:cpu:/\n", "0::/\n", "0::/gone\n"])
def test_where_nothing_is_told_there_is_no_limit(system: _System, lines: str | None) -> None:
    if lines is not None:
        system.member(lines)
    found = memory.container_memory()
    assert math.isinf(found.limit)
    assert math.isnan(found.used)


def _limited(system: _System, mib: int) -> None:
    system.member("0::/\n")
    system.write("", memory_max=mib * _MIB, memory_current=0, memory_stat="")


def test_what_the_advice_names_is_enough(system: _System) -> None:
    _limited(system, 256)
    given = {"admin": "127.0.0.1:9380", "workers": 2, "max_clients": 1000}
    short = shortage(Settings.read(given))
    assert short
    assert short.what.startswith("the memory limit of the container is 256 MiB, but ")
    words = short.fix.partition(",")[0].replace("--", "").replace("-", "_").split()
    advised = Settings.read({**given, **dict(zip(words[::2], words[1::2], strict=True))})
    assert shortage(advised) is None
    assert needed(advised) > 0.99 * 256 * _MIB
    _limited(system, int(short.fix.split()[-2]))
    assert shortage(Settings.read(given)) is None


@pytest.mark.parametrize(
    ("buffers", "mib", "fix"),
    [(0, 100, "a memory limit above 187 MiB"), (1, 64, "a memory limit of 4283 MiB")],
)
def test_a_limit_that_no_settings_fit_has_to_be_raised(
    system: _System, buffers: int, mib: int, fix: str
) -> None:
    _limited(system, mib)
    short = shortage(Settings(max_buffer_bytes=buffers))
    assert short
    assert short.fix == fix


@pytest.mark.any_server
@pytest.mark.parametrize(("mib", "severity"), [(256, "warning"), (6000, "ok")])
def test_the_doctor_compares_the_limit_with_the_settings(
    system: _System, start_server: StartServer, mib: int, severity: str
) -> None:
    _limited(system, mib)
    found = of("memory", examine(start_server().url))
    assert (str(found.severity), f"{mib} MiB" in found.what) == (severity, severity != "ok")
    assert bool(found.fix) == (severity == "warning")


@pytest.fixture
def group() -> Iterator[Path]:
    """A real group below this process's own."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line.split(":", 2)[2] for line in lines if ":memory:" in line), None)
    own = Path(f"/sys/fs/cgroup/memory{path}/ttlproxy-test-{os.getpid()}")
    try:
        if path is None:
            raise OSError("no memory controller of the first version")
        own.mkdir()
    except OSError as error:
        absent("cgroup", f"no cgroup can be made here: {error}")
    yield own
    with suppress(OSError):
        own.rmdir()


def test_a_start_in_a_group_that_is_too_small_says_so(group: Path) -> None:
    (group / "memory.limit_in_bytes").write_text(str(256 * _MIB))
    join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    command = [sys.executable, "-m", "ttlproxy", "--upstream", "redis://127.0.0.1:1"]
    with subprocess.Popen(
        ["sh", "-c", join, "sh", *command, "--listen", "127.0.0.1:0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as proxy:
        assert proxy.stderr
        try:
            said = next(line for line in proxy.stderr if "memory" in line)
        finally:
            proxy.terminate()
            proxy.communicate(timeout=60)
    assert "WARNING" in said
    assert "the memory limit of the container is 256 MiB, but the settings allow" in said
