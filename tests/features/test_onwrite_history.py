"""ONWRITE, set again and again through two proxies while clients of both write.

Each element has the deadline of a rule that was in force between its request and the reply.
TTLPROXY_HYPOTHESIS=deep goes on for TTLPROXY_DEEP_MINUTES, with troubles between proxies and Redis.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from random import randrange
from typing import Any, NamedTuple

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.deep import TIMEOUT_S, Tally, repeated
from tests.support.link_troubles import LinkTroubles
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy import errors

CHANGES = 150
CHANGES_IN_TROUBLE = 40
OTHERS = 10  # rules that are changed all the time
WRITERS = 2  # at each proxy
# Rules give times so far apart that what is left after the test tells which it was.
STEP_S = 1000
# Types: how an element is written, and how its time is asked for.
TYPES: dict[str, tuple[Callable[[str, str], list[Any]], Sequence[str]]] = {
    "s": (lambda key, name: ["SADD", key, name], ("STTLMEMBER", "MEMBERS")),
    "h": (lambda key, name: ["HSET", key, name, 1], ("HTTLFIELD", "FIELDS")),
    "z": (lambda key, name: ["ZADD", key, 1, name], ("ZTTLMEMBER", "MEMBERS")),
    "l": (lambda key, name: ["RPUSH", key, name], ("LTTLELEMENT", "ELEMENTS")),
}


class Span(NamedTuple):
    """A request: when it was sent, and when its reply was there."""

    sent_s: float
    replied_s: float


class Change(NamedTuple):
    """ttl_s: what the rule gives from then on; -1 without a rule"""

    ttl_s: int
    span: Span


class Write(NamedTuple):
    key: str
    name: str
    span: Span


def possible(changes: Sequence[Change], write: Span) -> set[int]:
    """What rules that were in force at some time during a write may have given. `changes`: one
    after the other."""
    last = max(at for at, each in enumerate(changes) if each.span.replied_s <= write.sent_s)
    begun = itertools.takewhile(lambda each: each.span.sent_s <= write.replied_s, changes[last:])
    return {each.ttl_s for each in begun}


class Story:
    """Changes of a rule, and writes meanwhile. Clients: of both proxies by turns."""

    def __init__(self, ports: Sequence[int], places: Sequence[str], *, is_noisy: bool) -> None:
        """`places`: hash tags of the keys; `is_noisy`: other rules change all the time."""
        self.changes: list[Change] = []
        self.writes: list[Write] = []
        self._ports = ports
        self._places = places
        self._is_noisy = is_noisy
        self._is_over = False
        self._numbers = itertools.count()
        self._faults: list[BaseException] = []

    def run(self, changes: int) -> None:
        setters = [Client(port) for port in self._ports]
        self._set(setters[0], 0)
        writers = [
            threading.Thread(target=self._keep_writing, args=(port,))
            for port in self._ports
            for _ in range(WRITERS)
        ]
        if self._is_noisy:
            writers.append(threading.Thread(target=self._keep_changing, args=self._ports[:1]))
        for thread in writers:
            thread.start()
        try:
            for number in range(1, changes):
                self._set(setters[number % len(setters)], number)
        finally:
            self._is_over = True
            for thread in writers:
                thread.join()
            for client in setters:
                client.close()
        assert not self._faults, self._faults

    def _set(self, client: Client, number: int) -> None:
        is_rule = number % 4 > 0
        ttl_s = (1 + number) * STEP_S if is_rule else -1
        sent_s = time.monotonic()
        words = ["ONWRITE", "k:*", *(["EX", ttl_s] if is_rule else ["DEL"])]
        while (reply := _reply(client, words)) != b"OK":
            # Not in force: no master could tell its slots in time.
            assert reply is None or str(reply) in errors.NOT_IN_FORCE.decode(), str(reply)
        self.changes.append(Change(ttl_s, Span(sent_s, time.monotonic())))

    def _keep_writing(self, port: int) -> None:
        try:
            with Client(port) as client:
                while not self._is_over:
                    self._write(client, next(self._numbers))
        except BaseException as fault:
            self._faults.append(fault)

    def _keep_changing(self, port: int) -> None:
        """Changes other rules, so many that a proxy is never done with reading them."""
        try:
            with Client(port) as client:
                while not self._is_over:
                    rules: list[list[Any]] = [
                        ["ONWRITE", f"other:{number}", "EX", 5] for number in range(OTHERS)
                    ]
                    assert client.ask_many(rules) == [b"OK"] * OTHERS
        except BaseException as fault:
            self._faults.append(fault)

    def _write(self, client: Client, number: int) -> None:
        letter, place = [*TYPES][number % 4], self._places[number // 4 % len(self._places)]
        key, name = f"k:{{{place}}}:{letter}", f"e{number}"
        request = TYPES[letter][0](key, name)
        sent_s = time.monotonic()
        try:
            if number % 3:
                replies = [client.ask(*request)]
            else:
                replies = client.ask_many([request], transaction=number % 2 > 0)
        except RedisConnectionError:
            return  # given up as a rule may be, in _reply
        assert not any(isinstance(each, Exception) for each in replies), replies
        self.writes.append(Write(key, name, Span(sent_s, time.monotonic())))

    def wrong(self, client: Client) -> list[str]:
        """Elements with a deadline that no rule in force can have given."""
        found = []
        for key in {write.key for write in self.writes}:
            writes = [write for write in self.writes if write.key == key]
            question, noun = TYPES[key[-1]][1]
            names = [write.name for write in writes]
            left = client.ask(question, key, noun, len(names), *names)
            for write, left_s in zip(writes, left, strict=True):
                ttl_s = -(-left_s // STEP_S) * STEP_S if left_s > 0 else left_s
                if ttl_s not in (right := possible(self.changes, write.span)):
                    found.append(f"{key} {write.name}: {ttl_s}, not one of {right}")
        return found


def test_what_rules_are_possible() -> None:
    changes = [Change(1, Span(0, 1)), Change(2, Span(2, 4)), Change(3, Span(5, 6))]
    assert possible(changes, Span(1.2, 1.5)) == {1}
    assert possible(changes, Span(1.2, 3)) == {1, 2}
    assert possible(changes, Span(3, 3.5)) == {1, 2}
    assert possible(changes, Span(4.2, 4.5)) == {2}
    assert possible(changes, Span(1.5, 9)) == {1, 2, 3}


@pytest.fixture
def ports(proxy: Proxy, server: AnyServer, start_proxy: StartProxy) -> list[int]:
    return [proxy.port, start_proxy(server.url).port]


def test_each_element_has_the_deadline_of_a_rule_in_force(ports: list[int], client: Client) -> None:
    follow(Story(ports, ["a"], is_noisy=True), client, CHANGES)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_no_trouble_between_proxies_and_redis_changes_that(
    proxy: Proxy, server: AnyServer, start_proxy: StartProxy, client: Client
) -> None:
    follow_through_troubles([server.port], [proxy, start_proxy(server.url)], ["a"], client)


def _reply(client: Client, words: Sequence[Any]) -> Any:
    """None if the proxy has given it up: troubles may hold a rule up for longer than hold_max."""
    try:
        return client.ask(*words)
    except RedisConnectionError:
        return None


def follow_through_troubles(
    servers: Sequence[int], proxies: Sequence[Proxy], places: Sequence[str], client: Client
) -> None:
    """`servers`: the ports of Redis. If deep, it goes on with one story after the other."""
    ports, tally = [each.port for each in proxies], Tally()

    def tell() -> None:
        assert client.ask("FLUSHALL") == b"OK"
        story = Story(ports, places, is_noisy=False)
        keys = [f"k:{{{place}}}:none" for place in places]
        with LinkTroubles(servers, proxies, keys, seed=randrange(1 << 32)) as troubles:
            follow(story, client, CHANGES_IN_TROUBLE)
        print(dict(troubles.made))
        tally.sequences += len(story.changes)
        tally.commands += len(story.writes)

    repeated(tell, tally)


def follow(story: Story, client: Client, changes: int) -> None:
    story.run(changes)
    wrong = story.wrong(client)
    print(f"{len(story.changes)} changes, {len(story.writes)} writes")
    assert not wrong, f"{len(wrong)} of {len(story.writes)}: {wrong[:5]}"
