"""`ttlproxy adopt`: what was there before anybody thought of deadlines gets one."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import ttlproxy
from tests.support.containers import AnyServer
from tests.support.processes import free_port
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.addresses import Upstream
from ttlproxy.core.element_types import TYPES
from ttlproxy.net.progress import Progress
from ttlproxy.operations.adopt import AdoptOptions, Page, Wanted, adopted
from ttlproxy.operations.key_walk import Pace, ResumeFile

FAST = AdoptOptions(10**9)
DAY_MS = 86_400_000


def run_adopt(*words: str) -> subprocess.CompletedProcess[str]:
    return ttlproxy("adopt", *words)


class Adopt:
    """Runs it in this process."""

    def __init__(self, proxy: Proxy, stop_after: int = -1) -> None:
        self._upstream = Upstream.parse(f"redis://127.0.0.1:{proxy.port}")
        self._stop_after = stop_after
        self.said: list[str] = []

    async def __call__(self, wanted: Wanted, how: AdoptOptions = FAST) -> str:
        """What it said at the end."""
        progress = Progress(self.said.append)
        progress.at = self._at  # type: ignore[method-assign]
        await adopted(self._upstream, 5, wanted, how, progress)
        return self.said[-1]

    def _at(self, how_far: Callable[[], str]) -> None:
        self._stop_after -= 1
        if not self._stop_after:
            raise asyncio.CancelledError


@pytest.mark.any_server
def test_on_the_command_line(proxy: Proxy, client: Client, tmp_path: Path) -> None:
    client.ask("SELECT", 3)
    client.ask("SADD", "old:s", "a", "b", "c")
    client.ask("SEXPIREMEMBER", "old:s", "a", 50)
    client.ask("HSET", "old:h", "a", 1, "b", 2)
    client.ask("ZADD", "old:z", 1, "a")
    client.ask("RPUSH", "old:l", "a", "b", "a")
    client.ask("SET", "old:text", "a")
    client.ask("SADD", "other", "a")
    proxied = ("--proxy", f"redis://127.0.0.1:{proxy.port}", "--db", "3", "--ex", "1000")
    tried = run_adopt("--match", "old:*", *proxied)
    assert (tried.returncode, tried.stderr) == (0, "")
    assert tried.stdout == (
        "database 3: 4 keys with 8 elements, of which 7 would get a deadline\n"
        "nothing was changed; --apply does it\n"
    )
    assert client.ask("STTLMEMBER", "old:s", "b") == -1
    state = tmp_path / "state"
    done = run_adopt("--match", "old:*", *proxied, "--apply", "--state", str(state))
    assert done.stdout == "database 3: 4 keys with 8 elements, of which 7 have got a deadline\n"
    assert client.ask("STTLMEMBER", "old:s", "MEMBERS", 3, "a", "b", "c")[0] <= 50
    for words in (
        ("STTLMEMBER", "old:s", "MEMBERS", 2, "b", "c"),
        ("HTTLFIELD", "old:h", "FIELDS", 2, "a", "b"),
        ("ZTTLMEMBER", "old:z", "MEMBERS", 1, "a"),
        ("LTTLELEMENT", "old:l", "ELEMENTS", 2, "a", "b"),
    ):
        assert all(900 < ttl <= 1000 for ttl in client.ask(*words)), words
    assert client.ask("STTLMEMBER", "other", "a") == -1
    assert not state.exists()


@pytest.mark.any_server
@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("--ex", "1"), 2, "--match"),
        (("--match", "a"), 2, "give a time, with --ex or --px"),
        (("--match", "a", "--ex", "1", "--px", "1"), 2, "give a time, with --ex or --px"),
        (("--match", "a", "--ex", "1", "--jitter", "101"), 2, "must be 100 at most"),
        (("--match", "a", "--ex", "1", "--proxy", "redis://a,b"), 2, "must name one proxy"),
        (
            ("--match", "a", "--ex", "1", "--proxy", "{free}"),
            1,
            "nothing listens at",
        ),
        (
            ("--match", "a", "--ex", "1", "--proxy", "{redis}"),
            1,
            "is no ttlproxy",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    plain: AnyServer, words: tuple[str, ...], code: int, problem: str
) -> None:
    free, redis = (f"redis://127.0.0.1:{port}" for port in (free_port(), plain.port))
    done = run_adopt(*(word.format(free=free, redis=redis) for word in words))
    assert done.returncode == code
    assert problem in done.stderr


async def test_a_jitter_spreads_deadlines(proxy: Proxy, client: Client) -> None:
    names = [f"m{number}" for number in range(200)]
    client.ask("SADD", "k", *names)
    said = await Adopt(proxy)(Wanted(b"k", 1_000_000, jitter=50))
    assert said == "database 0: 1 key with 200 elements, of which 200 have got a deadline"
    left = client.ask("SPTTLMEMBER", "k", "MEMBERS", 200, *names)
    assert all(990_000 < each <= 1_500_000 for each in left)
    assert max(left) - min(left) > 200_000


@pytest.mark.any_server
async def test_a_run_that_was_stopped_goes_on_where_it_was(
    proxy: Proxy, client: Client, tmp_path: Path
) -> None:
    client.ask_many([["SADD", f"k{number}", "a"] for number in range(2000)])
    path, wanted = tmp_path / "state", Wanted(b"k*", DAY_MS)
    noting = AdoptOptions(10**9, state=ResumeFile(path, {"of": "1"}))
    stopped = Adopt(proxy, stop_after=50)
    with pytest.raises(asyncio.CancelledError):
        await stopped(wanted, noting)
    assert stopped.said[-1].startswith("stopped: database 0: ")
    looked_at = int(stopped.said[-1].split()[3])
    # It has dated 50 groups of 16 keys. Of these, at most a page is looked at again.
    assert 50 * 16 <= looked_at < 2000
    noted = json.loads(path.read_text())["counts"]["keys"]
    assert 0 < noted <= looked_at
    assert looked_at - noted < 600
    said = await Adopt(proxy)(wanted, noting)
    assert int(said.split()[2]) >= 2000
    ttls = client.ask_many([["STTLMEMBER", f"k{number}", "a"] for number in range(2000)])
    assert min(ttls) > 0
    assert not path.exists()


async def test_keys_that_others_change_meanwhile_are_left_alone(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change(pace: Pace, things: int) -> None:
        """After the names, and again after the elements, were read."""
        client.ask("DEL", "gone")
        client.ask("SREM", "less", "a")
        client.ask("SEXPIREMEMBER", "own", "a", 50)
        client.ask("SET", "text", "now")

    for key in ("gone", "less", "own", "text"):
        client.ask("SADD", key, "a", "b")
    monkeypatch.setattr(Pace, "spend", change)
    await Adopt(proxy)(Wanted(b"*", DAY_MS))
    assert client.ask("EXISTS", "gone") == 0
    assert client.ask("STTLMEMBER", "less", "MEMBERS", 2, "a", "b") == [-2, 86_400]
    assert client.ask("STTLMEMBER", "own", "MEMBERS", 2, "a", "b") == [50, 86_400]
    assert client.ask("GET", "text") == b"now"


@pytest.mark.parametrize("end", ["head", "tail"])
def test_pops_at_an_end_of_a_long_list_hide_nothing(end: str) -> None:
    elements = deque(b"%d" % number for number in range(30_000))
    there = list(elements)
    seen, waiting = set[bytes](), [Page(b"l", TYPES[b"list"])]
    while waiting:
        page = waiting.pop()
        _, _, first, last = page.request
        whole, start, stop = list(elements), int(first), int(last)
        start = max(start + len(whole), 0) if start < 0 else start
        stop = stop + len(whole) if stop < 0 else stop
        found, more = page.read(whole[start : stop + 1] if stop >= 0 else [])
        seen.update(found)
        waiting += more
        for _ in range(700):
            elements.popleft() if end == "head" else elements.pop()
    assert seen.issuperset(elements)
    assert len(there) > len(elements) > 15_000
