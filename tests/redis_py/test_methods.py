"""The methods of ttlproxy.redis against the command tables, without a server."""

from __future__ import annotations

import ast
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import redis

import ttlproxy.redis
from tests.redis_py import elements
from tests.redis_py.calls import CALLS, Call
from ttlproxy.commands.router import VIRTUALS
from ttlproxy.redis import words
from ttlproxy.redis.commands import Commands

_PROGRAM = """\
import asyncio
from typing import assert_type
import ttlproxy.redis
import ttlproxy.redis.asyncio
from ttlproxy.redis import Lease, Pipeline, Row, Throttled

r = ttlproxy.redis.Redis()
assert_type(r.sexpiremember("s", "m", ttl=60), int)
assert_type(r.sexpiremember("s", ["m", "n"], ttl=60), list[int])
assert_type(r.lbtop("b", 0, 9), list[Row])
assert_type(r.lease("l", "s", ex=3), bytes | str | None)
assert_type(r.lease("l", "s", ex=3, count=2), list[bytes | str] | None)
assert_type(r.lease_with_token("l", "s", ex=3), Lease | None)
assert_type(r.renew("s", 5, "m", ex=3), int | None)
assert_type(r.pipeline().saddex("s", ["m"], ex=60), Pipeline)


async def main() -> None:
    a = ttlproxy.redis.asyncio.Redis()
    assert_type(await a.sexpiremember("s", "m", ttl=60), int)
    assert_type(await a.cl_throttle("t", 15, 30, 60), Throttled)
    assert_type(a.pipeline().lbrank("b", "m"), ttlproxy.redis.asyncio.Pipeline)
    r.sexpiremember("s", "m")  # wrong


asyncio.run(main())
"""


class _Sent:
    """Stands for redis-py."""

    def execute_command(self, *args: Any, **options: Any) -> str:
        return " ".join(map(str, args))


class _Recorder(Commands, _Sent):  # type: ignore[type-arg]
    """Returns what would be sent."""


@pytest.mark.parametrize(("call", "sent"), CALLS, ids=[sent for _, sent in CALLS])
def test_a_method_sends_the_words_of_its_command(call: Call, sent: str) -> None:
    assert call(_Recorder()) == sent


def test_every_command_of_the_tables_has_a_method_that_gives_all_its_words() -> None:
    """redis-py itself has INCREX. HELP and INFO are for people and for `info`."""
    sent: dict[str, set[str]] = {}
    for _, line in CALLS:
        name, *rest = line.split()
        sent.setdefault(name, set()).update(rest)
    ours = {name for name, row in VIRTUALS.items() if not row.dialect} - {"INCREX"}
    assert {*sent} == ours
    assert hasattr(redis.Redis, "increx")
    for name, given in sent.items():
        tokens = {word for form in VIRTUALS[name].forms for word in _tokens(form)}
        missing = tokens - given
        assert missing <= _ELSEWHERE.get(name, set()) | _CONDITIONS | _TIMES, name


_CONDITIONS = {"NX", "XX", "GT", "LT", "FXX"}
_TIMES = {"EX", "PX", "EXAT", "PXAT", "KEEPTTL", "MAXLEN", "EVICT"}
_ELSEWHERE = {
    "TTLPROXY": {"HELP", "INFO"},
    "ONEXPIRE": {"LPUSH", "PUBLISH", "SPUBLISH", "DEL", "ELEMENT", "VALUE"},
}


def _tokens(form: str) -> list[str]:
    return [word for word in form.translate(str.maketrans("[]|", "   ")).split() if word.isupper()]


def test_the_types_of_the_methods_of_elements_are_generated() -> None:
    assert elements.FILE.read_text() == elements.text(), "python -m tests.redis_py.elements"


def test_the_methods_of_elements_have_the_parameters_of_their_types_and_say_what_they_do() -> None:
    typed = {
        node.name: [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
        for node in ast.walk(ast.parse(elements.FILE.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    rows = {row.name.lower(): row for row, _ in elements.rows()}
    assert {*typed} == {*rows}
    for name, row in rows.items():
        method = getattr(ttlproxy.redis.Redis, name)
        assert list(signature(method).parameters) == typed[name]
        assert method.__doc__ == f"{row.summary}\n\nReturns {row.reply}."


def test_no_method_hides_one_of_redis_py() -> None:
    ours = {name for name in dir(Commands) if not name.startswith("_")} - {"execute_command"}
    assert not [name for name in ours if hasattr(redis.Redis, name)]
    assert all(hasattr(ttlproxy.redis.Redis, name) for name in ours)


def test_a_time_is_never_rounded_down() -> None:
    """0 seconds would remove the element at once."""
    assert words.seconds(timedelta(milliseconds=1)) == 1
    assert words.milliseconds(timedelta(microseconds=1)) == 1
    assert words.unix_seconds(datetime.fromtimestamp(1.5, UTC)) == 2
    assert words.unix_milliseconds(datetime.fromtimestamp(1.5, UTC)) == 1500


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_type_checker_knows_arguments_and_replies(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(wrong) == 1, done.stdout
    assert 'No overload variant of "sexpiremember"' in wrong[0]
