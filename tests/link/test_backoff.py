"""The pause of a link before an attempt."""

from __future__ import annotations

from ttlproxy.link.connecting.connections import Backoff, stagger_s


def test_pauses_differ_also_when_they_are_as_long_as_they_get() -> None:
    """Else a thousand proxies that lost Redis together would come back together."""
    backoff = Backoff(cap=2.0, base=0.05)
    pauses = [backoff.compute(1_000_000) for _ in range(100)]
    assert len(set(pauses)) > 90
    assert all(1.0 <= pause <= 2.0 for pause in pauses)


def test_a_pause_is_longer_after_more_failures() -> None:
    backoff = Backoff(cap=2.0, base=0.05)
    assert 0.05 <= backoff.compute(1) <= 0.1 <= backoff.compute(2) <= 0.2


def test_proxies_spread_their_attempts_the_more_of_them_there_are() -> None:
    assert stagger_s(0) == 0
    assert stagger_s(1) <= 0.003, "one alone does not notice it"
    assert max(stagger_s(1000) for _ in range(100)) > 1
    assert max(stagger_s(1_000_000) for _ in range(100)) <= 3, "clients wait for hold_max"
