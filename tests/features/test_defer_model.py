"""Any sequence of DEFER and UNDEFER agrees with a dict; and kills lose and double no command."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client

FAR_MS = 4_102_444_800_000

ids = st.sampled_from(["a", "b", "c", "d"])
times = st.integers(0, 3).map(lambda number: FAR_MS + number)
steps = st.one_of(
    st.tuples(st.just("DEFER"), ids, times, st.sampled_from(["", "NX", "XX", "GT", "LT"])),
    st.tuples(st.just("NOW"), ids),
    st.tuples(st.just("UNDEFER"), st.lists(ids, min_size=1, max_size=3)),
)


class _Model:
    """id -> (due, value), and what has been pushed."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[int, str]] = {}
        self.pushed: list[bytes] = []

    def defer(self, id_: str, due_ms: int, condition: str, value: str) -> bytes | None:
        old = self.waiting.get(id_, (None, ""))[0]
        refused = {
            "NX": old is not None,
            "XX": old is None,
            "GT": old is not None and old >= due_ms,
            "LT": old is not None and old <= due_ms,
        }
        if refused.get(condition, False):
            return None
        self.waiting[id_] = (due_ms, value)
        return id_.encode()

    def undefer(self, named: list[str]) -> int:
        return sum(self.waiting.pop(id_, None) is not None for id_ in named)

    def now(self, id_: str, value: str) -> None:
        self.waiting.pop(id_, None)
        self.pushed.append(value.encode())

    def replies(self) -> list[list[bytes]]:
        order = sorted(self.waiting.items(), key=lambda item: (item[1][0], item[0]))
        return [[id_.encode(), b"RPUSH", b"q", value.encode()] for id_, (_, value) in order]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(steps, max_size=25))
def test_what_is_deferred_agrees_with_a_model(client: Client, said: list[tuple]) -> None:  # type: ignore[type-arg]
    client.ask("FLUSHALL")
    model = _Model()
    for number, (what, *words) in enumerate(said):
        value = f"v{number}"
        if what == "DEFER":
            id_, due_ms, condition = words
            request = ["DEFER", "PXAT", due_ms, "ID", id_, *filter(None, [condition])]
            reply = client.ask(*request, "RPUSH", "q", value)
            assert reply == model.defer(id_, due_ms, condition, value)
        elif what == "UNDEFER":
            assert client.ask("UNDEFER", "q", *words[0]) == model.undefer(words[0])
        else:
            client.ask("DEFER", "PXAT", 1, "ID", words[0], "RPUSH", "q", value)
            model.now(words[0], value)
        replies = [[id_, *rest] for id_, _, *rest in client.ask("DEFERRED", "q")]
        assert replies == model.replies()
        assert client.ask("LRANGE", "q", 0, -1) == model.pushed


def _defer_until(port: int, stop: threading.Event, acknowledged: list[int]) -> None:
    """DEFERs new tasks, each with a second one that is cancelled, until the connection breaks."""
    number = 0
    try:
        with Connection(port) as client:
            while not stop.is_set():
                task = f"t{number}"
                client.send(
                    command("DEFER", "PX", 100, "ID", task, "LPUSH", f"q{number % 5}", task)
                    + command("DEFER", "EX", 1000, "ID", f"x{task}", "LPUSH", "never", task)
                    + command("UNDEFER", "never", f"x{task}")
                )
                assert client.read_many(3)[2] == b":1\r\n"
                acknowledged.append(number)
                number += 1
    except (EOFError, ConnectionError):
        pass


def _has_said(acknowledged: list[int], rounds: int) -> bool:
    return len(acknowledged) >= rounds


@pytest.mark.parametrize("kills", [3])
def test_a_kill_at_any_point_loses_no_command_and_doubles_none(
    start_server: StartServer, start_proxy: StartProxy, kills: int
) -> None:
    server = start_server()
    keeper, proxy = start_proxy(server.url), start_proxy(server.url)
    total = 0
    for _ in range(kills):
        stop, acknowledged = threading.Event(), list[int]()
        with Connection(server.port) as direct:
            direct.ask("FLUSHALL")
        thread = threading.Thread(target=_defer_until, args=(proxy.port, stop, acknowledged))
        thread.start()
        wait_until(partial(_has_said, acknowledged, 150), "150 rounds")
        proxy.kill()
        stop.set()
        thread.join()
        proxy.start()
        total += len(acknowledged)
        with Client(server.port) as direct_client:
            _all_delivered_once(direct_client, acknowledged)
    assert total >= 150 * kills
    assert keeper.running


def _all_delivered_once(direct: Client, acknowledged: list[int]) -> None:
    def delivered() -> list[bytes]:
        return [task for n in range(5) for task in direct.ask("LRANGE", f"q{n}", 0, -1)]

    wanted = {b"t%d" % number for number in acknowledged}
    wait_until(lambda: wanted <= set(delivered()), "all that was acknowledged")
    found = delivered()
    assert len(found) == len(set(found))
    assert len(set(found) - wanted) <= 1, "the one whose reply was lost"
    assert direct.ask("EXISTS", "never") == 0
