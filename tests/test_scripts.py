"""The text of scripts as Redis gets it."""

import re
import threading
from itertools import islice

import pytest

from tests.asked import calls
from tests.containers import AnyServer
from tests.raw import Connection
from ttlproxy.keys import DEFAULT_PREFIX
from ttlproxy.scripts import Scripts, Traits

SCRIPTS = Scripts(DEFAULT_PREFIX)
ALL_TRAITS = [Traits(), Traits(field_ttls=True, subkeys=True, events="hszlKESTIV")]


@pytest.mark.parametrize("traits", ALL_TRAITS)
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_makes_no_function_that_it_does_not_use(name: str, traits: Traits) -> None:
    SCRIPTS.suit(traits)
    text = SCRIPTS[name].text.decode()
    for function in re.findall(r"^local function (\w+)", text, re.MULTILINE):
        assert len(re.findall(rf"\b{function}\b", text)) > 1, function


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_is_sent_without_its_comments(name: str) -> None:
    assert b"\n--" not in SCRIPTS[name].text


def test_a_later_deadline_leaves_the_schedule_alone(app: Connection, server: AnyServer) -> None:
    app.ask("HSETEX", "h", "EX", "1000", "FIELDS", "1", "a", "1")
    with Connection(server.port) as direct:
        direct.ask("CONFIG", "RESETSTAT")
    app.ask("HSETEX", "h", "EX", "2000", "FIELDS", "1", "b", "2")
    assert calls(server.port, "zadd") == 1


def test_who_looks_at_scripts_while_they_change_leaves_no_old_ones_behind() -> None:
    """The status page does, from a thread of its own."""
    scripts, ended = Scripts(b"__ttl:"), threading.Event()

    def look() -> None:
        while not ended.is_set():
            list(scripts.values())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            scripts.suit(Traits(field_ttls=True))
            assert all(b"field_ttls = true" in scripts[name].text for name in islice(scripts, 20))
            scripts.suit(Traits())
            assert all(b"field_ttls = false" in script.text for script in scripts.values())
    finally:
        ended.set()
        looking.join()
