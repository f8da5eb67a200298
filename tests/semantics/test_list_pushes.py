"""Pushes to lists with deadlines: LPUSH, RPUSH, LPUSHX, RPUSHX, LINSERT, LPUSHEX and RPUSHEX."""

from __future__ import annotations

from tests.support.containers import AnyServer
from tests.support.conversation import in_multi, talking
from tests.support.servers import Proxy

# --- MAXLEN: entries count, copies too


def test_evicted_entries_are_not_counted_in_the_length(proxy: Proxy, server: AnyServer) -> None:
    """Their reap cannot come within the transaction."""
    with talking(proxy, server, in_multi) as talk:
        talk("""
            RPUSHEX l EX 100 ELEMENTS 3 a b c             -> 3
            LPUSHEX l MAXLEN 2 EVICT EX 200 ELEMENTS 1 d  -> 2
            RPUSHEX l MAXLEN 3 EX 200 ELEMENTS 1 e        -> 3
        """)
        talk('LRANGE l 0 -1                               -> ["d", "c", "e"]')


def test_a_push_of_an_entry_past_its_deadline_counts_as_one_before_it(
    proxy: Proxy, server: AnyServer
) -> None:
    """It would bring the copy back, so nothing else may be past its deadline either."""
    with talking(proxy, server, in_multi) as talk:
        talk("""
            RPUSHEX l EX 100 ELEMENTS 2 a b               -> 2
            RPUSHEX l MAXLEN 2 EVICT EX 200 ELEMENTS 2 c d  -> 2
            RPUSHEX l MAXLEN 4 EX 200 ELEMENTS 1 a        -> -1
            RPUSHEX l MAXLEN 5 EX 200 ELEMENTS 1 a        -> 5
        """)
