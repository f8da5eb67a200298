"""The text of scripts that Redis gets."""

import re
import threading
from itertools import islice

import pytest

from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.keys import DEFAULT_PREFIX
from ttlproxy.scripts import Scripts, Traits

SCRIPTS = Scripts(DEFAULT_PREFIX)
_IN_A_CLUSTER = {
    *("cluster_scan", "cluster_topology", "slots_learn", "slots_occupied", "slots_survey"),
    *("outbox_apply", "outbox_drop", "outbox_read"),
}
ALL_TRAITS = [Traits(), Traits(field_ttls=True, subkeys=True, events="hszlKESTIV", flags=True)]


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
    app.ask("HSETEX", "h", *BOUNDED, "EX", "1000", "FIELDS", "1", "a", "1")
    with Connection(server.port) as direct:
        direct.ask("CONFIG", "RESETSTAT")
    app.ask("HSETEX", "h", "EX", "2000", "FIELDS", "1", "b", "2")
    assert calls(server.port, "zadd") == 1


def test_a_server_is_not_given_scripts_that_only_a_cluster_needs() -> None:
    alone, clustered = Scripts(b""), Scripts(b"")
    clustered.suit(Traits(clustered=True))
    names = [{script.name for script in scripts.all()} for scripts in (alone, clustered)]
    assert names[1] - names[0] == _IN_A_CLUSTER
    assert names[1] == {*alone}


def test_a_call_that_announces_no_key_makes_no_name_of_its_slot() -> None:
    clustered = Scripts(DEFAULT_PREFIX)
    clustered.suit(Traits(clustered=True))
    text = clustered["hash_write"].text
    before, announcing = text.split(b"if is_earlier then", 1)
    assert b"string.sub(KEYS[1], " not in before
    assert b"string.sub(KEYS[1], " in announcing


def test_a_reader_of_scripts_while_they_change_leaves_no_old_ones_behind() -> None:
    """The status page reads them like this, from its own thread."""
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


READS = {"dragonfly_ttl", "keydb_ttl", "deferred_list", "rule_list", "refuse", "proxy_info"}


def test_a_script_that_reads_says_so_and_calls_no_write(direct: Client) -> None:
    SCRIPTS.suit(Traits())
    reads = {name for name, script in SCRIPTS.items() if script.reads}
    assert reads >= READS | {name for name in SCRIPTS if re.fullmatch("[a-z]+_(ttl|refuse)", name)}
    assert not reads & {"reap", "sweep", "barrier", "hash_set", "lease_take"}
    called = {
        name
        for script in reads
        for name in re.findall(r"(?:call|try)\(\s*'(\w+)'", SCRIPTS[script].text.decode())
    }
    known = filter(None, direct.ask("COMMAND", "INFO", *called))
    flags = {row[0].upper(): row[2] for row in known}
    assert b"ZSCORE" in flags
    assert not [name for name, found in flags.items() if b"write" in found]


def test_a_line_has_the_same_number_with_and_without_flags(direct: Client, version: str) -> None:
    """Redis's errors contain the line number."""
    places = []
    for traits in (Traits(), Traits(flags=version != "6.2")):
        SCRIPTS.suit(traits)
        text = SCRIPTS["keys_random"].text.replace(
            b"local enough", b"redis.call('no') local enough"
        )
        place, *_ = re.findall(r"user_script:\s?\d+", str(direct.ask("EVAL", text, 0)))
        places.append(place)
    assert places[0] == places[1]
