"""Which server the link speaks to: when sessions end, and when what is known holds no more."""

from __future__ import annotations

import pytest

from ttlproxy.errors import ServerChanged
from ttlproxy.link.connecting.known_server import Identity, KnownServer


def _server(said: str) -> Identity:
    """`master a`: a master whose run id is `a`; a server may tell none."""
    role, _, run_id = said.partition(" ")
    return Identity.of({"run_id": run_id, "role": "master" if role == "master" else "slave"})


class Known(KnownServer):
    """A known server that counts how often sessions were ended."""

    def __init__(self, *lives: str) -> None:
        """`lives`: the servers that were met, one after the other."""
        self.ended = 0
        super().__init__("redis://localhost", self._end)
        for said in lives:
            self.met(_server(said))

    def _end(self) -> None:
        self.ended += 1


@pytest.mark.parametrize(
    ("known", "found", "is_other"),
    [
        ("master a", "master b", True),
        ("master a", "replica b", True),
        ("replica a", "master b", True),
        ("replica a", "replica b", False),
        ("master a", "master a", False),
        ("master a", "replica a", False),
        ("master", "master b", False),
        ("master a", "master", False),
    ],
)
def test_another_server_at_the_address_replaces_ours_unless_both_are_replicas(
    known: str, found: str, is_other: bool
) -> None:
    assert _server(known).is_other(_server(found)) == is_other


@pytest.mark.parametrize(
    ("known", "found", "ends"),
    [
        ("master a", "master a", False),
        ("master a", "replica a", True),
        ("replica a", "master a", False),
        ("replica a", "replica a", False),
        ("master a", "master b", True),
        ("replica a", "replica b", True),
        ("master", "master", True),
    ],
)
def test_sessions_end_when_a_life_begins_with_another_server_or_a_master_is_one_no_more(
    known: str, found: str, ends: bool
) -> None:
    server = Known(known)
    assert (server.ended, server.term, server.changes) == (0, 0, 0), "the first ends nothing"
    server.met(_server(found))
    assert (server.ended, server.term, server.changes) == (ends, ends, ends)


@pytest.mark.parametrize(
    ("lives", "is_demoted"),
    [
        (["replica a"], False),
        (["master a"], False),
        (["master a", "replica a"], True),
        (["master a", "replica a", "replica a"], True),
        (["master a", "replica a", "master a"], False),
        (["replica a", "replica a"], False),
    ],
)
def test_a_master_that_became_a_replica_counts_as_demoted_until_it_is_promoted(
    lives: list[str], is_demoted: bool
) -> None:
    """However often the link is lost meanwhile: its address may move to the new master."""
    assert Known(*lives).is_demoted == is_demoted


@pytest.mark.parametrize(
    ("known", "found", "is_new"),
    [("master a", "master a", False), ("master a", "master b", True), ("master", "master", True)],
)
def test_facts_hold_for_the_same_run_of_a_server(known: str, found: str, is_new: bool) -> None:
    assert Known(known).is_new(_server(found)) == is_new
    assert Known().is_new(_server(found))


@pytest.mark.parametrize("found", ["master b", "replica b", "replica a", "master"])
def test_a_heartbeat_answered_by_another_server_or_role_ends_the_life(found: str) -> None:
    server = Known("master a")
    with pytest.raises(ServerChanged):
        server.seen(_server(found))
    assert server.identity == _server("master a")


def test_a_heartbeat_tells_of_a_promotion_once() -> None:
    server = Known("master a", "replica a")
    assert not server.seen(_server("replica a"))
    assert server.is_demoted
    assert server.seen(_server("master a"))
    assert not server.is_demoted
    assert not server.seen(_server("master a"))
    assert server.ended == 1
