"""Rewrites one request for Redis, and notes its effects.

While a client has not logged in, Redis refuses nearly all its requests with NOAUTH. Our own
commands must get this error, too: Redis does not know them, and would say so instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, TypeAlias

from ttlproxy import errors
from ttlproxy.commands import NO_KEY, Call, Override, Route, Survey, Virtual
from ttlproxy.commands.calls import left_to_server
from ttlproxy.commands.spec import refusal
from ttlproxy.core.limits import REQUEST_WORDS_MAX
from ttlproxy.core.registry import DbKey
from ttlproxy.core.write_rules import NOTHING_BUT_KEEPS
from ttlproxy.session.connection_commands import change
from ttlproxy.session.effects import Wait
from ttlproxy.session.replies import HeldReply
from ttlproxy.session.state import SessionState
from ttlproxy.wire import encode

_NUMBERS: Final = count()  # of requests that wait

Routed: TypeAlias = tuple[Route, list[bytes], int, int]
"""A request with its route, and where it begins and ends in the chunk."""


def decide(state: SessionState, route: Route, args: list[bytes], now_ms: int) -> bytes | None:
    """Returns the bytes for Redis in place of a request; None if it goes unchanged."""
    if route.stateful:
        instead = change(state, route.stateful, route, args, now_ms)
        if instead is not None:
            return instead
    if route.virtual:
        return _virtual(state, route, route.virtual, args, now_ms)
    if route.longer and route.longer.fits(args):
        return _virtual(state, route, route.longer, args, now_ms)
    if route.override and route.fits(len(args)) and route.override.takes(args):
        return _override(state, route, route.override, args, now_ms)
    if route.survey and route.fits(len(args)):
        return _survey(state, route.survey, args)
    _native(state, route, args, now_ms)
    return None


def refuse(state: SessionState, route: Route, text: bytes) -> bytes:
    """Returns a script call whose reply is this error."""
    return state.encoded(refusal(route.name, text))


def _virtual(
    state: SessionState, route: Route, virtual: Virtual, args: list[bytes], now_ms: int
) -> bytes | None:
    if not virtual.fits(args):
        if state.transaction is not None:
            return None  # Redis refuses it, and EXEC aborts
        return refuse(state, route, errors.wrong_arity(route.name))
    if len(args) > REQUEST_WORDS_MAX:
        return refuse(state, route, errors.TOO_MANY_WORDS_AT_ONCE)
    state.note_named(route.keys(args), now_ms)
    if virtual.of_deferred:
        state.defers(route.keys(args), now_ms, changes=not virtual.reads)
    call, wait_ms = virtual.call(args), virtual.waits(args)
    if virtual.sets_deadlines:
        state.manages([(state.db, args[virtual.target])])
    if virtual.tells_all and not state.script_calls.reads(call):
        state.registry.expect()
        if not state.script_calls.has_state:
            state.must_be_sure([(state.db, state.script_calls.keys.rules)])
        if state.transaction is not None:
            state.transaction.tells_all = True
        elif state.skips_replies and not state.uncounted:
            state.step.settles = HeldReply()
            state.tells.append(state.step.settles)
    if wait_ms is not None and state.transaction is None and not state.silent:
        source, target = (state.db, args[1]), (state.db, args[virtual.target])
        state.step.wait = Wait(source, target, call, wait_ms, next(_NUMBERS))
        return b""
    if not state.script_calls.reads(call):
        state.changes()
    return state.encoded(call, denies_oom=virtual.denies_oom)


def _override(
    state: SessionState, route: Route, override: Override, args: list[bytes], now_ms: int
) -> bytes | None:
    names = state.registry.names
    with_deadlines = getattr(names, "managed", names)
    by_rule = override.on_write or override.with_rule
    if state.registry.rules and not (by_rule and state.may_script()):
        names = with_deadlines  # a key that only matches a rule needs no script
    keys = override.keys(args)
    is_of_family = any(key in names for key in keys)
    late = _matters_later(state, override)
    is_later = late and (names or state.waits_in_redis)
    managed = keys and (is_later or is_of_family)
    if managed and not (state.may_script() and (late or state.may_watch())):
        # Redis would refuse the script. So only deadlines count that certainly exist.
        if not state.unindexed and state.must_ask(keys):
            return None
        managed = any(state.indexed.get(key) for key in keys)
    ruled = _ruled(state, override, args, late) if managed else None
    if managed and not (ruled or late):
        managed = any(key in with_deadlines for key in keys)  # the rule may be for another type
    is_ours = _is_ours(state, override, args)
    if (is_ours is False and not managed) or (override.only_ruled and not ruled):
        if state.transaction is not None and not (is_of_family or override.only_ruled):
            state.transaction.passed.update(keys)
        _native(state, route, args, now_ms)
        return None
    if state.unindexed and managed and not ruled and is_ours is False:
        words = state.script_calls.unindexed(route.keys(args), args)
        if words is not None:
            state.changes()
            _apply_ttl(state, route, args)
            return encode(words)
    call = ruled or override.plan(args)
    if override.is_native and not is_ours:
        call = left_to_server(call, unsure=is_ours is None)
    if not state.script_calls.reads(call):
        state.changes()
    state.note_named(route.keys(args), now_ms)
    target_db = override.other_db(args)
    db = state.db if target_db is None else target_db
    if not override.is_native or is_ours is not False:
        state.manages((db, target) for target in override.targets(args))
    if swept := override.swept(args):
        state.writes(swept)
    if ruled:
        state.manages([(state.db, ruled.keys[-1])])
    state.by_rule = ruled is not None
    _apply_ttl(state, route, args)
    return state.encoded(call, denies_oom=route.denies_oom)


def _ruled(state: SessionState, override: Override, args: list[bytes], late: bool) -> Call | None:
    """Returns the call that a request becomes by a rule of ONWRITE. None if no rule matches its
    key, or the rule only keeps deadlines and the key has none; `late`: it may have some when the
    call is carried out."""
    rules, writes = state.registry.rules, override.on_write
    if not rules:
        return None
    if writes is not None:
        how = rules.how(state.databases, args[1], writes.type, writes.keeps)
        if how == NOTHING_BUT_KEEPS and not late and args[1] not in state.registry.managed:
            return None
        return None if how is None else writes.plan(args, how)
    if override.with_rule is not None:
        type_, plan = override.with_rule
        how = rules.how(state.databases, args[2], type_, True)
        return None if how is None else plan(args, how)
    return None


def _apply_ttl(state: SessionState, route: Route, args: list[bytes]) -> Sequence[DbKey]:
    """Notes the keys that get elements from a request, if no script gives these deadlines by a
    rule."""
    if not state.registry.rules or not route.fits(len(args)):
        return ()
    dbs, keys, override = state.databases, {*route.put_into(args)}, route.override
    if override is not None:
        keys.update(override.filled(args))
        target_db = override.other_db(args)
        dbs = dbs if target_db is None else (target_db,)
    places = [(db, key) for db in dbs for key in keys]
    state.apply_ttl(places)
    return places


def _is_ours(state: SessionState, override: Override, args: list[bytes]) -> bool | None:
    """Whether a script must carry out a request although none of its keys is managed; None if that
    depends on a rule of ONEXPIRE that is still being read, or set before it in the transaction."""
    if override.always is not None and override.always(args):
        return True
    if not override.is_native:
        return False
    found = {state.registry.has_action(key) for key in override.keys(args)}
    is_unsure = None in found or (state.transaction is not None and state.transaction.tells_all)
    return True if True in found else None if is_unsure else False


def _matters_later(state: SessionState, override: Override) -> bool:
    """Whether the script is needed because a key may become managed before the request is carried
    out.

    False if the client may not run scripts or touch indexes.
    """
    may_meet = state.takes_effect_later or state.may_be_held
    return override.needed_later and may_meet and state.may_script() and state.may_watch()


def _survey(state: SessionState, survey: Survey, args: list[bytes]) -> bytes | None:
    if survey.of_keys:
        # In all databases that the client may be in, because a SELECT may have failed.
        state.sees_all()
    is_now = state.transaction is None and not (state.step.unsure or state.uncounted)
    has_nothing = state.script_calls.has_state is False and is_now
    if survey.of_keys and (state.rights.shows_internal or has_nothing):
        # There is nothing to hide, or the user has asked to see it. A later request may make the
        # link store the state, which must not overtake this one.
        state.step.awaits = state.step.awaits or has_nothing
        return None
    plan = survey.plan(args)
    if isinstance(plan, Call) and survey.of_proxy:
        if state.reached is None:
            return None
        # This is done for a client without the right to run scripts, too: Redis's own answer would
        # lead it past the proxy.
        return state.encoded(plan._replace(argv=(*plan.argv, *state.reached.words())))
    if isinstance(plan, Call):
        return state.encoded(plan) if _may_hear(state, survey) else None
    return None if plan is None else encode(plan)


def _may_hear(state: SessionState, survey: Survey) -> bool:
    """Whether a script may answer: the client has the right to all that the script calls."""
    if survey.heard and not state.rights.may_ask_acl(state.users):
        return False
    if survey.counts and not state.rights.may_count(state.users):
        return False
    return state.may_script()


def _native(state: SessionState, route: Route, args: list[bytes], now_ms: int) -> None:
    """Notes the effects of a request that goes unchanged."""
    if route.sweeps and route.key_kind != NO_KEY:
        state.changes()
    if route.blocks:
        state.behind_blocking = True
        if state.blocks_at is None:
            state.blocks_at = state.step.requests
    if state.registry.names or state.transaction is not None:
        state.note_named(route.keys(args), now_ms)
        state.writes(route.written(args))
        state.fills(route.filled(args))
    places = _apply_ttl(state, route, args)
    if route.blocks:
        state.blocks_on(route.written(args), places)


# Redis's limits for a client that has not logged in (src/networking.c, processMultibulkBuffer): the
# number of words, and the bytes of each.
WORDS_BEFORE_LOGIN: Final = 10
LARGEST_BEFORE_LOGIN: Final = 16 * 1024


def decide_before_login(
    state: SessionState, route: Route, args: list[bytes], now_ms: int
) -> bytes | None:
    """Does what `decide` does, for a client that has not logged in."""
    stateful = route.stateful
    logs_in = stateful is not None and stateful.logs_in
    if logs_in and not state.resets and (state.step.requests or state.owes()):
        # Redis 8.2 sends no reply to a login that fails while it has other replies to send.
        state.step.awaits = state.step.is_unsent = True
        return None
    if len(args) > WORDS_BEFORE_LOGIN or max(map(len, args)) > LARGEST_BEFORE_LOGIN:
        return None
    if route.virtual:
        return refuse(state, route, errors.NOAUTH)
    if stateful is not None and stateful.before_login:
        change(state, stateful, route, args, now_ms)
    if logs_in and state.resets:
        state.unauthenticated = state.resets = False
    elif logs_in:
        state.step.awaits = True
        state.tell(state.logs_in)
    return None


def must_be_sure(state: SessionState, found: list[Routed]) -> bool:
    """Whether these requests may have to wait until all proxies know a family. This proxy knows it
    from now on, so it holds no write that does not clear its deadline."""
    rules, names = state.registry.rules, state.registry.names
    keys: list[bytes] = []
    for route, args, _, _ in found:
        virtual, override = route.virtual, route.override
        if virtual and virtual.fits(args):
            keys += _stored_by(state, route, virtual, args)
        elif override and route.fits(len(args)):
            if any(key in names for key in override.keys(args)):
                keys += override.targets(args)
            if rules and (writes := override.on_write):
                how = rules.how(state.databases, args[1], writes.type, writes.keeps)
                keys += args[1:2] if how not in (None, NOTHING_BUT_KEEPS) else ()
    unsure = [key for key in keys if not state.may_set_deadline(key)]
    state.script_calls.families.known.add_of(unsure)
    return bool(unsure)


def _stored_by(
    state: SessionState, route: Route, virtual: Virtual, args: list[bytes]
) -> Iterable[bytes]:
    """Returns the keys that a command of ours may give deadlines, so that their families must be
    known."""
    calls = state.script_calls
    if virtual.sets_deadlines:
        return (args[virtual.target],)
    if virtual.of_deferred and not virtual.reads:
        return map(calls.keys.deferred, route.keys(args))
    return () if calls.has_state or not virtual.tells_all else (calls.keys.rules,)


def may_be_held(state: SessionState, found: list[Routed], now_ms: int) -> bool:
    """Whether these requests may wait for a reap while others may set deadlines."""
    names = state.registry.names
    if not names:
        return False
    for route, args, _, _ in found:
        if route.survey or (route.virtual and route.virtual.of_deferred):
            return True
        if any(names.get(key, now_ms) < now_ms for key in route.keys(args)):
            return True
        if not (names.keys().isdisjoint(route.filled(args)) or _has_script(route, args)):
            return True
    return False


def in_other_databases(found: list[Routed]) -> Iterator[DbKey]:
    """Yields the keys that requests write to in other databases than the client's."""
    for route, args, _, _ in found:
        override = route.override
        db = override.other_db(args) if override else None
        if override and db is not None:
            yield from ((db, key) for key in override.targets(args))


def _has_script(route: Route, args: list[bytes]) -> bool:
    """Whether a script writes the first key if it is managed, and the request names no other
    key."""
    direct = route.override and route.override.direct
    return bool(direct and route.fits(len(args)) and direct.takes(args))
