"""Requests of a client that has not logged in: Redis refuses nearly all of them.

It does not know our commands, and would answer that instead of NOAUTH.
"""

from __future__ import annotations

from typing import Final

from ttlproxy import errors
from ttlproxy.commands import Route
from ttlproxy.session.connection_commands import change
from ttlproxy.session.rewrite import refuse
from ttlproxy.session.state import State

# What Redis reads from such a client (src/networking.c, processMultibulkBuffer): so many words, and
# so many bytes in each.
MOST_WORDS: Final = 10
LARGEST: Final = 16 * 1024


def decide(state: State, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
    """The bytes for Redis in place of a request; None means the request as it came."""
    rules = route.stateful
    logs_in = rules is not None and rules.logs_in
    if logs_in and not state.resets and (state.requests or state.owes()):
        # Redis 8.2 sends no reply to a login that fails while it has other replies to send.
        state.awaits = state.is_unsent = True
        return None
    if len(args) > MOST_WORDS or max(map(len, args)) > LARGEST:
        return None
    if route.virtual:
        return refuse(state, route, errors.NOAUTH)
    if rules is not None and rules.before_login:
        change(state, rules, route, args, now_ms)
    if logs_in and state.resets:
        state.stranger = state.resets = False
    elif logs_in:
        state.awaits = True
        state.tell(state.logs_in)
    return None
