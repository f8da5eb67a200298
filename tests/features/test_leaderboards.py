"""The leaderboard family: its replies, compared with a list, and that it uses one key."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.features.conftest import Limited
from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold
from tests.support.error_texts import NOT_AN_INTEGER
from tests.support.raw_client import Connection
from tests.support.redis_client import Client, Word
from tests.support.servers import Proxy

MIN, MAX = -(2**63), 2**63 - 1
OVERFLOW = "ERR increment or decrement would overflow"


# --- what each command answers


def test_scores_are_exact_to_the_last_of_64_bits(talk: Talk) -> None:
    talk(
        f"""
        LBADD lb {MAX - 1} a    -> 1
        LBADD lb {MAX} b        -> 1
        LBADD lb {MIN} c        -> 1
        LBADD lb {MIN + 1} d    -> 1
        LBTOP lb 0 -1           -> [[0, "b", "{MAX}"], [1, "a", "{MAX - 1}"], [2, "d", "{MIN + 1}"], [3, "c", "{MIN}"]]
        LBADD lb GT {MAX} a     -> 0
        LBAROUND lb a 0         -> [[1, "a", "{MAX}"]]
        LBINCRBY lb 1 a         -> {OVERFLOW}
        LBINCRBY lb -1 c        -> {OVERFLOW}
        LBINCRBY lb {MIN} a     -> "-1"
        LBINCRBY lb {MAX} c     -> "-1"
        LBINCRBY lb {MIN} d     -> {OVERFLOW}
        LBINCRBY lb {MIN} e     -> "{MIN}"
        LBINCRBY lb {MAX} f     -> "{MAX}"
        LBINCRBY lb 0 g         -> "0"
        LBTOP lb 2 3            -> [[2, "g", "0"], [3, "a", "-1"]]
        """  # noqa: E501
    )


def test_what_is_malformed_gets_redis_own_error_before_the_type_is_looked_at(talk: Talk) -> None:
    talk(
        f"""
        SET lb text             -> OK
        LBADD lb 1.5 a          -> {NOT_AN_INTEGER}
        LBADD lb {MAX + 1} a    -> {NOT_AN_INTEGER}
        LBADD lb CH 1 a         -> ERR syntax error
        LBINCRBY lb {MIN - 1} a -> {NOT_AN_INTEGER}
        LBTOP lb 0 x            -> {NOT_AN_INTEGER}
        LBAROUND lb a x         -> {NOT_AN_INTEGER}
        LBAROUND lb a -1        -> ERR value is out of range, must be positive
        """
    )


EVERY = ("LBADD lb 1 a", "LBINCRBY lb 1 a", "LBTOP lb 0 -1", "LBRANK lb a", "LBAROUND lb a 1",
         "LBREM lb a")  # fmt: skip


@pytest.mark.parametrize(
    "other", ["SET lb text", "ZADD lb 0 x 1 sy", "ZADD lb 0 x 0 y", "ZADD lb 0 s", "SADD lb a"]
)
def test_what_is_no_leaderboard_is_of_the_wrong_type(talk: Talk, other: str) -> None:
    wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
    talk("\n".join((f"{other} -> *", *(f"{line} -> {wrong}" for line in EVERY))))


# --- refused in the middle


@pytest.mark.parametrize("rule", ["-zadd", "-zrem"])
@pytest.mark.parametrize("line", ["LBADD lb 5 a", "LBINCRBY lb 5 a", "LBREM lb a b"])
def test_a_user_who_is_refused_one_of_the_writes_has_changed_nothing(
    limited: Limited, app: Connection, direct: Client, rule: str, line: str
) -> None:
    hold(app, direct, "LBADD lb 1 a -> 1\nLBADD lb 2 b -> 1")
    reply = limited(rule, line)
    if line.startswith("LBREM") and rule == "-zadd":
        assert reply == b":2\r\n"
        return
    assert reply.startswith(b"-"), reply
    hold(app, direct, 'LBTOP lb 0 -1 -> [[0, "b", "2"], [1, "a", "1"]]')


def test_a_full_server_refuses_a_score_and_lets_members_go(app: Connection, direct: Client) -> None:
    hold(app, direct, "LBADD lb 1 a -> 1\nLBADD lb 2 b -> 1\nLBADD lb 0 c -> 1")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        for line in ("LBADD lb 5 a", "LBADD lb 5 new", "LBINCRBY lb 5 a"):
            assert app.ask(*line.split()).startswith(b"-OOM"), line
        hold(app, direct, 'LBREM lb c -> 1\nLBTOP lb 0 -1 -> [[0, "b", "2"], [1, "a", "1"]]')
    finally:
        direct.ask("CONFIG", "SET", "maxmemory", 0)


# --- any commands, in any order


class _Model:
    """A leaderboard as a list: by score, then by the time at which the member got it."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, int]] = {}
        self._arrivals = 0

    def _rows(self) -> list[list[object]]:
        ordered = sorted(self._entries.items(), key=lambda entry: (-entry[1][0], entry[1][1]))
        return [
            [rank, member.encode(), b"%d" % score]
            for rank, (member, (score, _)) in enumerate(ordered)
        ]

    def _rank(self, member: str) -> int | None:
        found = [rank for rank, name, _ in self._rows() if name == member.encode()]
        return int(str(found[0])) if found else None

    def _write(self, member: str, score: int) -> None:
        if member not in self._entries or self._entries[member][0] != score:
            self._arrivals += 1
            self._entries[member] = (score, self._arrivals)

    def ask(self, name: Word, *words: Word) -> object:
        reply: object = getattr(self, str(name).lower())(*words)
        return reply

    def lbadd(self, *words: Word) -> int:
        condition = words[0] if len(words) == 3 else ""
        score, member = int(words[-2]), str(words[-1])
        old = self._entries.get(member, (None,))[0]
        meets = {
            "": True,
            "NX": old is None,
            "XX": old is not None,
            "GT": old is None or score > old,
            "LT": old is None or score < old,
        }
        if meets[str(condition)]:
            self._write(member, score)
        return int(old is None and member in self._entries)

    def lbincrby(self, delta: int, member: str) -> object:
        score = self._entries.get(member, (0,))[0] + delta
        if not MIN <= score <= MAX:
            return OVERFLOW
        self._write(member, score)
        return b"%d" % score

    def lbtop(self, start: int, stop: int) -> list[list[object]]:
        return self._rows()[start : None if stop == -1 else stop + 1]

    def lbrank(self, member: str) -> int | None:
        return self._rank(member)

    def lbaround(self, member: str, count: int) -> list[list[object]]:
        rank = self._rank(member)
        return [] if rank is None else self._rows()[max(rank - count, 0) : rank + count + 1]

    def lbrem(self, *members: str) -> int:
        return sum(self._entries.pop(member, None) is not None for member in members)


_MEMBERS = st.sampled_from(["a", "b", "bb", "", "c" * 70, *map(str, range(8))])
_SCORES = st.sampled_from(
    [0, 1, 2, -1, MAX, MAX - 1, MIN, MIN + 1, 2**53, 2**53 + 1, 2**32, 2**32 - 1, -(2**32)]
) | st.integers(MIN, MAX)
_CONDITIONS = st.sampled_from(["NX", "XX", "GT", "LT"])
_COMMANDS = st.one_of(
    st.tuples(st.just("LBADD"), _SCORES, _MEMBERS),
    st.tuples(st.just("LBADD"), _CONDITIONS, _SCORES, _MEMBERS),
    st.tuples(st.just("LBINCRBY"), _SCORES, _MEMBERS),
    st.tuples(st.just("LBTOP"), st.integers(0, 9), st.integers(-1, 9)),
    st.tuples(st.just("LBRANK"), _MEMBERS),
    st.tuples(st.just("LBAROUND"), _MEMBERS, st.integers(0, 3)),
    st.tuples(st.just("LBREM"), _MEMBERS, _MEMBERS),
)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(commands=st.lists(_COMMANDS, min_size=10, max_size=60))
def test_any_commands_answer_as_a_sorted_list_does(
    client: Client, direct: Client, commands: list[tuple[str, ...]]
) -> None:
    direct.ask("DEL", "lb")
    model = _Model()
    for name, *words in [*commands, ("LBTOP", 0, -1)]:
        reply = client.ask(name, "lb", *words)
        expected = model.ask(name, *words)
        assert (f"ERR {reply}" if isinstance(reply, Exception) else reply) == expected, name


def test_a_large_leaderboard_keeps_its_order(proxy: Proxy, server: AnyServer) -> None:
    """It is so large that Redis no longer keeps it as one packed list."""
    model = _Model()
    requests: list[tuple[str, ...]] = []
    for number in range(3000):
        requests.append(("LBADD", str(number * 7 % 40), f"m{number % 1000}"))
    with Client(proxy.port) as client:
        replies = client.ask_many([(name, "lb", *words) for name, *words in requests])
        assert replies == [model.ask(name, *words) for name, *words in requests]
        assert client.ask("LBTOP", "lb", 0, -1) == model.ask("LBTOP", 0, -1)
        assert client.ask("LBAROUND", "lb", "m500", 20) == model.ask("LBAROUND", "m500", 20)
