"""A walk over keys: it goes on where it was stopped, gives each key, and keeps to its pace."""

from __future__ import annotations

from contextlib import aclosing

from tests.support.redis_client import Client
from tests.support.servers import Server
from ttlproxy.addresses import Upstream
from ttlproxy.link import client
from ttlproxy.operations.key_walk import KeyWalk, Pace, WalkPosition

KEYS = 300


async def _walked(
    server: Server, place: WalkPosition, pages: int = 1000, match: bytes = b"*", kind: bytes = b""
) -> tuple[list[bytes], WalkPosition]:
    """The names of so many pages, after which it is stopped, and how far it is."""
    found: list[bytes] = []
    async with client(Upstream.parse(server.url), "walk", 5) as redis:
        walk = KeyWalk(redis, 3, Pace(1e6), place, match=match, kind=kind, page=20)
        async with aclosing(walk.pages()) as rest:
            async for names in rest:
                found += names
                pages -= 1
                if not pages:
                    break
    return found, walk.place


def _fill(server: Server) -> None:
    app = Client(server.port, 3)
    app.ask_many([["SADD", b"s%d" % number, "a"] for number in range(KEYS)])
    app.ask_many([["SET", "text", "a"], ["HSET", "h1", "a", "1"]])
    app.close()


async def test_a_stopped_walk_goes_on_with_the_page_it_was_at(plain: Server) -> None:
    _fill(plain)
    begun, place = await _walked(plain, WalkPosition(), pages=4)
    assert not place.is_over
    rest, end = await _walked(plain, place)
    assert end.is_over
    assert {*begun, *rest} == {b"text", b"h1", *(b"s%d" % number for number in range(KEYS))}
    # It does not begin again: three of the four pages were done.
    assert len(rest) < KEYS
    assert end.keys >= KEYS + 2
    assert await _walked(plain, end) == ([], end)


async def test_a_cursor_of_a_server_that_has_started_anew_is_not_used(plain: Server) -> None:
    _fill(plain)
    _, place = await _walked(plain, WalkPosition(), pages=4)
    names, _ = await _walked(plain, place._replace(server="another"))
    assert len({*names}) == KEYS + 2


async def test_a_walk_gives_the_keys_that_match_and_have_the_type(plain: Server) -> None:
    _fill(plain)
    matching, _ = await _walked(plain, WalkPosition(), match=b"s1?")
    assert {*matching} == {b"s%d" % number for number in range(10, 20)}
    assert {*(await _walked(plain, WalkPosition(), kind=b"hash"))[0]} == {b"h1"}


async def test_a_pace_does_not_make_up_for_late_work() -> None:
    now_s, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(seconds)
        now_s += seconds

    pace = Pace(10, lambda: now_s, sleep)
    await pace.spend(5)
    await pace.spend(1)
    await pace.spend(1)
    now_s += 60
    await pace.spend(1)
    await pace.spend(1)
    assert [round(seconds, 6) for seconds in slept] == [0.5, 0.1, 0.1]
