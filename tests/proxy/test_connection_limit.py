"""The limit of connections: who waits, who is admitted next, and whose connection makes room."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ttlproxy.core.counters import Connections, NodeCounts
from ttlproxy.link import Link
from ttlproxy.proxy.routed.connection_limit import ConnectionLimit
from ttlproxy.proxy.routed.lane import Lane


class _Context:
    def __init__(self) -> None:
        self.node_counts = NodeCounts()
        self.connections = Connections()


class _Master:
    def __init__(self) -> None:
        self.context = _Context()


def _link() -> Link:
    return cast(Link, _Master())


class Connection:
    """A lane, as far as the limit knows one."""

    def __init__(self, world: World, link: Link, used_s: float = 0.0) -> None:
        self.link = link
        self.used_s = used_s
        self.is_unused = False
        self._world = world
        self.entering = asyncio.create_task(world.limit.enter(cast(Lane, self)))

    def give_up(self) -> None:
        self.is_unused = False
        self._world.gone.append(self)
        asyncio.get_running_loop().call_soon(self.leave)

    def leave(self) -> None:
        self._world.limit.leave(cast(Lane, self))


class World:
    """gone: the connections that were closed, in order"""

    def __init__(self, each: int = 2, in_all: int = 100) -> None:
        self.each = each
        self.limit = ConnectionLimit(lambda: self.each, lambda: in_all)
        self.gone: list[Connection] = []

    async def connected(self, *of: Link) -> list[Connection]:
        """One connection to each of these, which were used one after the other."""
        found = [Connection(self, link, number) for number, link in enumerate(of)]
        await asyncio.gather(*(each.entering for each in found))
        return found


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_connection_that_was_used_the_longest_ago_makes_room() -> None:
    world, link = World(each=3), _link()
    busy, older, newer = await world.connected(link, link, link)
    older.is_unused = newer.is_unused = True
    await Connection(world, link).entering
    assert world.gone == [older]
    assert link.context.node_counts.connection_waits == 1
    assert not busy.is_unused


async def test_the_first_client_to_come_is_admitted_first() -> None:
    world, link = World(), _link()
    one, other = await world.connected(link, link)
    first, second = Connection(world, link), Connection(world, link)
    await _turns()
    assert link.context.connections.waiting == 2
    other.leave()
    await first.entering
    assert not second.entering.done()
    one.is_unused = True  # nobody tells the limit: it looks
    await second.entering
    assert (world.gone, link.context.connections.waiting) == ([one], 0)


async def test_one_master_does_not_hold_up_another() -> None:
    world, link, other = World(each=1), _link(), _link()
    await world.connected(link)
    waits = Connection(world, link)
    await Connection(world, other).entering
    assert not waits.entering.done()
    waits.entering.cancel()
    await _turns()


async def test_of_all_masters_who_waits_the_longest_is_next() -> None:
    world, link, other = World(each=9, in_all=2), _link(), _link()
    one, _ = await world.connected(link, other)
    waiting = [Connection(world, at) for at in (other, link, other)]
    for each in waiting:
        one.leave()
        await each.entering
        one = each
        assert [later.entering.done() for later in waiting].count(True) == waiting.index(each) + 1


async def test_an_unused_connection_to_another_master_makes_room_for_one_too_many_in_all() -> None:
    world, link, other = World(each=9, in_all=1), _link(), _link()
    (one,) = await world.connected(link)
    one.is_unused = True
    await Connection(world, other).entering
    assert world.gone == [one]


async def test_a_client_that_stops_waiting_takes_nothing() -> None:
    world, link = World(each=1), _link()
    (one,) = await world.connected(link)
    gone, next_one = Connection(world, link), Connection(world, link)
    await _turns()
    gone.entering.cancel()
    await _turns()
    one.leave()
    await next_one.entering
    next_one.leave()
    await Connection(world, link).entering


async def test_a_client_that_leaves_just_when_it_is_admitted_takes_nothing() -> None:
    world, link = World(each=1), _link()
    (one,) = await world.connected(link)
    gone = Connection(world, link)
    await _turns()
    one.leave()
    gone.entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone.entering
    await asyncio.wait_for(Connection(world, link).entering, 10)


async def test_a_limit_that_is_raised_admits_who_waits() -> None:
    world, link = World(each=1), _link()
    await world.connected(link)
    waits = Connection(world, link)
    await _turns()
    world.each = 2
    await asyncio.wait_for(waits.entering, 10)
