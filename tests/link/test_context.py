"""What is shared from the start: whose secret signs, and what the parts tell each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.link.conftest import FAR_MS, S
from ttlproxy.cli.main import load
from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import DbKey
from ttlproxy.core.signing import RULE, Signer
from ttlproxy.link import Context
from ttlproxy.link.connecting.known_server import Serving

SECRET = "x" * 64


def _context(*flags: str) -> Context:
    return Context(load(["--upstream", "redis://127.0.0.1:1", *flags]), Counters())


def test_a_secret_from_a_file_signs_and_else_one_that_nobody_knows(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(SECRET)
    words = (b"a", b"b")
    of_file = _context("--signing-key-file", str(path))
    assert of_file.has_own_secret
    assert of_file.script_calls.signer.sign(RULE, words) == Signer(SECRET.encode()).sign(
        RULE, words
    )
    others = [_context() for _ in range(2)]
    assert not any(each.has_own_secret for each in others)
    assert len({each.script_calls.signer.sign(RULE, words) for each in others}) == 2


def test_internal_keys_have_the_prefix_that_is_set() -> None:
    context = _context("--prefix", "other:")
    assert context.keys.schedule == b"other:schedule"
    assert context.scripts["reap"].text != _context().scripts["reap"].text


def test_an_announcement_wakes_the_reaper() -> None:
    context = _context()
    context.agenda.leads = True
    context.registry.announced(*S, FAR_MS)
    assert context.agenda.next_ms == FAR_MS
    assert context.agenda.woken.is_set()


def test_entries_that_a_request_may_leave_are_swept_once_it_must_have_been_carried_out() -> None:
    context = _context()
    context.clock.adjust(FAR_MS, context.clock.reading())
    context.agenda.next_ms = FAR_MS * 2
    context.sweep_later([S])
    planned_ms = context.agenda.next_ms
    assert FAR_MS < planned_ms < FAR_MS * 2
    assert context.agenda.take_sweeps(planned_ms) == {}
    assert set(context.agenda.take_sweeps(planned_ms + 1)) == {S}


@pytest.mark.parametrize("shows", ["yes", "no"])
def test_internal_keys_are_shown_if_that_is_set(shows: str) -> None:
    assert _context("--show-internal-keys", shows).rights.shows_internal == (shows == "yes")


def test_scripts_check_rights_while_a_user_may_lack_some() -> None:
    context = _context()
    for all_have_all in (False, True):
        context.rights.all_have_all = all_have_all
        context.suit_scripts_to_users()
        assert context.scripts.traits.careful != all_have_all


async def test_whether_clients_are_served_is_told_to_those_who_ask_and_those_who_wait() -> None:
    serving = Serving()
    serving.begin_life()
    for _ in range(2):
        assert (serving.now, serving.in_this_life, serving.ready.is_set()) == (False, False, False)
        serving.start()
        assert (serving.now, serving.in_this_life, serving.ready.is_set()) == (True, True, True)
        assert serving.tried.is_set()
        serving.stop()
        assert (serving.now, serving.in_this_life, serving.ready.is_set()) == (False, True, False)
        serving.begin_life()
    assert serving.tried.is_set()
    assert not Serving().tried.is_set()


def test_keys_that_a_rule_has_still_to_date_go_to_another_master_at_the_end() -> None:
    """Also what a client's connection to the old one tells afterwards."""
    context, told = _context(), list[DbKey]()
    context.on_awaiting_ttl = told.extend
    context.apply_ttl_later([(0, b"before")])
    context.end()
    context.on_awaiting_ttl(context.agenda.drop(lambda key: True))
    context.apply_ttl_later([(0, b"after")])
    assert told == [(0, b"before"), (0, b"after")]
