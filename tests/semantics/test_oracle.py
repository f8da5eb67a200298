"""Two proxies in front of a Redis against the oracle: any commands in any order, with deadlines.

Each reply is compared, and at each example's end the whole content of Redis. The model shares
nothing with the proxies but docs/semantics.md. By default this takes seconds;
TTLPROXY_HYPOTHESIS=deep continues for TTLPROXY_DEEP_MINUTES in all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import StartProxy
from tests.oracle.example import DATABASES, Site, Trial
from tests.oracle.strategies import (
    ELEMENTS,
    KEYS,
    PLACES,
    STRING,
    TYPES,
    Fleeting,
    Key,
    Words,
    any_key,
    blocking_command,
    command,
    evicting_command,
    fleeting,
    stock,
)
from tests.support.containers import IMAGES, Container, why_no_engine
from tests.support.deep import DEEP, DEEP_MINUTES, TIMEOUT_S
from tests.support.servers import Proxy, Server, find_binaries

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("TTLPROXY_EXAMPLES", "100"))

_COMMON = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)
settings.register_profile("fast", _COMMON, max_examples=EXAMPLES // 5, stateful_step_count=25)
settings.register_profile("deep", _COMMON, max_examples=200, stateful_step_count=80)

T = TypeVar("T")

CLIENT = st.integers(0, len(DATABASES) - 1)

# These change the connection, not the data.
ASIDES: list[Words] = [
    *((word,) for word in (b"MULTI", b"EXEC", b"multi", b"eXeC", b"DISCARD")),
    *((word, db) for word in (b"SELECT", b"select") for db in (b"0", b"1")),
]


# The types of an example: with one type alone it goes deepest.
FOCUS = [*((type_,) for type_ in TYPES), ("set", "zset"), TYPES]


def _drawn(
    strategy: Callable[[tuple[str, ...]], st.SearchStrategy[T]],
) -> st.SearchStrategy[T]:
    """Draws for the types of the running example."""
    return st.runner().flatmap(lambda machine: strategy(machine.types))


def _commands(least: int, most: int) -> st.SearchStrategy[list[Words]]:
    return _drawn(lambda types: st.lists(command(types), min_size=least, max_size=most))


class Conversation(RuleBasedStateMachine):
    """Clients of two proxies. Each rule is one write by one of them."""

    site: Site
    trial: Trial
    types: tuple[str, ...] = TYPES
    ruled = False

    @initialize(
        keys=st.permutations(KEYS),
        elements=st.permutations(ELEMENTS),
        types=st.deferred(lambda: st.sampled_from(FOCUS)),
        stocked=st.booleans(),
        ruled=st.booleans(),
    )
    def begin(
        self,
        keys: list[bytes],
        elements: list[bytes],
        types: tuple[str, ...],
        stocked: bool,
        ruled: bool,
    ) -> None:
        self.types, self.ruled = types, ruled
        self.trial = Trial(self.site, keys[: STRING.place + 1], elements[: len(PLACES)])
        if ruled:
            self.trial.set_rule(0, exists=True)
        if stocked:
            for client in (0, len(DATABASES) - 1):
                self.trial.send(client, stock(types))

    @rule(client=CLIENT, commands=_commands(1, 8))
    def one_by_one(self, client: int, commands: list[Words]) -> None:
        for words in commands:
            self.trial.send(client, [words])

    @rule(client=CLIENT, commands=_commands(2, 6))
    def pipeline(self, client: int, commands: list[Words]) -> None:
        self.trial.send(client, commands)

    @rule(client=CLIENT, commands=_commands(1, 5))
    def transaction(self, client: int, commands: list[Words]) -> None:
        self.trial.send(client, [(b"MULTI",), *commands, (b"EXEC",)])

    @rule(client=CLIENT, words=st.sampled_from(ASIDES))
    def speak_aside(self, client: int, words: Words) -> None:
        self.trial.send(client, [words])

    @rule(client=CLIENT, words=_drawn(blocking_command))
    def block(self, client: int, words: Words) -> None:
        if self.trial.sessions[client].queued is None:
            self.trial.send(client, [words])

    @rule(client=CLIENT, words=_drawn(evicting_command))
    def evict(self, client: int, words: Words) -> None:
        if self.trial.sessions[client].queued is None:
            self.trial.evict(client, words)

    @rule(client=CLIENT, later=CLIENT, fleeting=_drawn(fleeting))
    def look_just_after(self, client: int, later: int, fleeting: Fleeting) -> None:
        """R1: the element was not reaped, but no command sees or counts it."""
        self.trial.send(client, fleeting.first)
        self.trial.let_pass()
        self.trial.send(later, fleeting.then)

    @rule(client=CLIENT, other=CLIENT, key=_drawn(any_key), meddling=_commands(1, 3))
    def watch(self, client: int, other: int, key: Key, meddling: list[Words]) -> None:
        busy = [self.trial.sessions[each].queued is not None for each in (client, other)]
        if client != other and not any(busy):
            self.trial.watch(client, key, other, meddling)

    @precondition(lambda self: self.ruled)
    @rule(client=CLIENT, exists=st.booleans())
    def set_rule(self, client: int, exists: bool) -> None:
        if self.trial.sessions[client].queued is None:
            self.trial.set_rule(client, exists=exists)

    @rule()
    def let_pass(self) -> None:
        self.trial.let_pass()

    def teardown(self) -> None:
        if not hasattr(self, "trial"):
            return
        try:
            self.trial.finish()
        finally:
            self.trial.close()


def _converse(site: Site, share: int) -> None:
    """One run with the profile; if deep, it repeats for a `share`-th of the minutes."""

    class Here(Conversation):
        pass

    Here.site = site
    profile = settings.get_profile("deep" if DEEP else "fast")
    until_s = time.monotonic() + (DEEP_MINUTES * 60 / share if DEEP else 0)
    try:
        run_state_machine_as_test(Here, settings=profile)
        while time.monotonic() < until_s:
            run_state_machine_as_test(Here, settings=profile)
    except BaseException as fault:
        fault.add_note(f"The first time it was:\n{site.first_fault}")
        raise
    finally:
        print(f"{site.trials} examples with {site.requests} requests")
        site.close()


@pytest.fixture
def share(request: pytest.FixtureRequest) -> int:
    """The number of tests in this file that share the minutes; skipped tests do not count."""
    names = [*find_binaries(), *([] if why_no_engine() else IMAGES)]
    mine = [item.name for item in request.session.items if item.path == request.path]
    return max(1, sum(f"-redis-{name}]" in item for item in mine for name in names))


@pytest.fixture(params=["broadcast", "on-demand"])
def proxies(request: pytest.FixtureRequest, proxy: Proxy, start_proxy: StartProxy) -> list[int]:
    """The ports of proxies in front of one server; the clients are spread over them. All hear of
    all keys, or all but the last ask at each request, and all claim them."""
    if request.param == "broadcast":
        return [proxy.port, start_proxy(proxy.upstream).port]
    on_demand = [start_proxy(proxy.upstream, asks=True) for _ in range(2)]
    return [*(each.port for each in on_demand), proxy.port]


@pytest.mark.timeout(TIMEOUT_S)
def test_any_conversation_is_answered_as_the_model_answers_it(
    proxies: list[int], server: Server | Container, share: int
) -> None:
    _converse(Site(proxies, server.port, server.name), share)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_nobody_sees_what_is_due_while_another_proxy_that_sleeps_holds_the_lease(
    proxies: list[int], server: Server | Container, share: int
) -> None:
    _converse(Site(proxies, server.port, server.name, reaper=False), share)
