"""Purge and doctor tell how far they are, and go on after an interruption."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.cli.main import load
from ttlproxy.core.keys import Keys
from ttlproxy.errors import OperationError
from ttlproxy.net import progress as module
from ttlproxy.net.progress import Progress
from ttlproxy.operations.doctor import examined
from ttlproxy.operations.purge import PurgeOptions, purged

pytestmark = pytest.mark.any_server

# Sets, each with an index: four pages of SCAN.
MANY = 2000
NAMES = 2 * MANY
KEYS = Keys()


class Told(Progress):
    """Keeps what it is told; interrupts the work after so many steps."""

    def __init__(self, interrupt_after: int = -1) -> None:
        self.results: list[str] = []
        self.lines: list[str] = []
        super().__init__(self.results.append, io.StringIO(), note=self.lines.append)
        self._left = interrupt_after

    def at(self, how_far: Callable[[], str]) -> None:
        super().at(how_far)
        self._left -= 1
        if not self._left:
            raise asyncio.CancelledError


@pytest.fixture(autouse=True)
def each_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NOTED_S", 0.0)


@pytest.fixture
def left(plain: AnyServer) -> Callable[[], int]:
    """Deadlines without elements, as a client without a proxy leaves them; how many indexes are
    there."""
    names = [b"k%d" % number for number in range(MANY)]
    with closing(Client(plain.port)) as direct:
        direct.ask_many([["SADD", name, "here"] for name in names])
        direct.ask_many([["ZADD", KEYS.index(name), 4102444800000, "gone"] for name in names])

    def count() -> int:
        with closing(Client(plain.port)) as direct:
            size = direct.ask("DBSIZE")
            assert isinstance(size, int)
            return size - MANY

    return count


async def _purge(server: AnyServer, told: Told) -> None:
    settings = load(["--upstream", server.url])
    assert settings.upstream
    await purged(settings, settings.upstream, PurgeOptions(), told)


async def _examine(
    server: AnyServer, told: Told, *, fixes: bool, state: Path | None = None, prefix: str = "__ttl:"
) -> None:
    settings = load(["--upstream", server.url, "--prefix", prefix])
    assert settings.upstream
    await examined(settings, settings.upstream, MANY, told, fixes=fixes, state=state)


def _number(pattern: str, line: str) -> int:
    found = re.fullmatch(pattern, line)
    assert found, line
    return int(found[1])


async def test_a_purge_that_was_interrupted_goes_on(
    plain: AnyServer, left: Callable[[], int]
) -> None:
    stopped = Told(interrupt_after=2)
    with pytest.raises(asyncio.CancelledError):
        await _purge(plain, stopped)
    far = rf"database 0: (\d+) internal keys removed, after about 2000 of {NAMES} names"
    removed = _number(far, stopped.lines[-1])
    line = f"interrupted: {stopped.lines[-1]}; start it again to remove the rest"
    assert stopped.results == [line]
    assert 0 < removed == MANY - left() < MANY
    again = Told()
    await _purge(plain, again)
    assert again.results == [f"database 0: {MANY - removed} internal keys removed"]
    assert left() == 0


async def test_fixing_that_was_interrupted_goes_on(
    plain: AnyServer, left: Callable[[], int]
) -> None:
    stopped = Told(interrupt_after=2)
    with pytest.raises(asyncio.CancelledError):
        await _examine(plain, stopped, fixes=True)
    told = r"database 0: checked \d+ keys, dropped (\d+) deadlines without an element; 0 keys have"
    (result,) = stopped.results
    dropped = _number(f"interrupted: {told} deadlines; start it again to fix the rest", result)
    assert stopped.lines[-1].endswith(f" deadlines, after about 2000 of {NAMES} names")
    assert 0 < dropped == MANY - left() < MANY
    again = Told()
    await _examine(plain, again, fixes=True)
    assert _number(f"{told} deadlines", again.results[0]) == MANY - dropped
    assert left() == 0


async def test_fixing_with_a_state_goes_on_where_it_was(
    plain: AnyServer, left: Callable[[], int], tmp_path: Path
) -> None:
    state, names = tmp_path / "state", [KEYS.index(b"k%d" % number) for number in range(MANY)]
    with pytest.raises(asyncio.CancelledError):
        await _examine(plain, Told(interrupt_after=3), fixes=True, state=state)
    with closing(Client(plain.port)) as direct:
        there = direct.ask_many([["EXISTS", name] for name in names])
        fixed = [name for name, is_there in zip(names, there, strict=True) if not is_there]
        direct.ask_many([["ZADD", name, 4102444800000, "gone"] for name in fixed])
    again = Told()
    await _examine(plain, again, fixes=True, state=state)
    # It has not looked again where it had been, but for the page that it was at, and knows how many
    # it has dropped in all.
    assert 0 < left() < len(fixed)
    told = r"database 0: checked \d+ keys, dropped (\d+) deadlines without .*"
    assert _number(told, again.results[0]) == MANY + len(fixed) - left()
    assert not state.exists()


async def test_a_state_of_another_run_is_refused(plain: AnyServer, tmp_path: Path) -> None:
    state = tmp_path / "state"
    kept = {"job": {"upstream": plain.url, "prefix": "__ttl:"}, "begun": {}}
    state.write_text(json.dumps(kept))
    with pytest.raises(OperationError, match=r"another run, which is not over \(prefix differ"):
        await _examine(plain, Told(), fixes=True, state=state, prefix="other:")
    assert json.loads(state.read_text()) == kept


async def test_the_walks_of_the_doctor_tell_how_far_they_are(
    plain: AnyServer, left: Callable[[], int]
) -> None:
    told = Told()
    await _examine(plain, told, fixes=False)
    assert told.results == []
    assert re.fullmatch(r"looking for deadlines: found \d+ keys", told.lines[0])
    assert told.lines[-1] == f"examined {MANY} of {MANY} keys"
    assert left() == MANY
