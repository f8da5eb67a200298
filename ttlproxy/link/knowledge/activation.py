"""News that all proxies must know before they count: families of keys (core/families.py), and
rules.

A key of a family gets deadlines only when all proxies know the family: from then on each proxy
sends writes there with the clearing of their deadlines. The client that has set a rule gets OK only
when all proxies have heard of the rule.

News are announced, as deadlines are: a proxy that has heard them has heard all that was announced
before. It acknowledges them by subscribing to their channel, on another connection, once no write
is under way that was sent before it knew them. So Redis knows how many have acknowledged: the news
are sure when as many have as there are proxies. No clock is needed: a proxy that ends is no longer
a subscriber, and a new one asks for all channels before it serves (decisions/0036). A proxy that
does not react loses its push connection, and then serves nobody before it knows all families.

In front of several masters a family is sure at one master when all proxies of most masters know it.
So a proxy that has missed only what one master has told knows all families (decisions/0040).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import hiredis
from redis.exceptions import ResponseError

from ttlproxy.commands import Call
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import Backoff
from ttlproxy.link.connecting.known_server import acknowledging_name, listed_clients
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.knowledge.announcements import Acknowledging, Announcements
from ttlproxy.link.server.shared_state import SharedState
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import cancel, fail, run_all

log = logging.getLogger(__name__)

# How news of a family begin, and news of rules, which have an id.
_FAMILY: Final = b"f:"
_RULES: Final = b"r:"
_LONGEST: Final = 256
# News of rules are forgotten after this time: all others can have acknowledged them.
_OVER_S: Final = 30.0
# The time that all others may take to acknowledge.
_PATIENCE_S: Final = 2.0
# A proxy that has lost its push connection notices that in this time, and serves nobody then. It is
# no subscriber from the loss on, and a request may come to it before the news of the loss.
_NOTICED_S: Final = 0.25
# A higher count is wrong: no server has so many proxies.
_MOST_PROXIES: Final = 1_000_000
# Seconds until masters that are away are tried again.
_AGAIN_S: Final = 0.1
# Pauses between two looks at who has acknowledged.
_LOOKS: Final = Backoff(cap=0.02, base=0.0005)
_MOST_LOOKS: Final = 8  # after these the pause does not grow


class AskedPlaces:
    """Gathers the questions of sessions at one moment, and serves them in rounds: questions that
    come during one are answered in the next."""

    def __init__(self, serve: Callable[[set[DbKey]], Awaitable[None]]) -> None:
        """`serve(places)` asks Redis; raises UpstreamError if a connection is lost."""
        self._serve = serve
        self._new: list[tuple[Sequence[DbKey], asyncio.Future[None]]] = []
        self._under_way: list[tuple[Sequence[DbKey], asyncio.Future[None]]] = []
        self._asked = asyncio.Event()

    def add(self, places: Iterable[DbKey]) -> asyncio.Future[None]:
        """Returns a future that is done when these places were served; it has an UpstreamError if a
        connection, or the link, was lost before."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._new.append((tuple(places), done))
        self._asked.set()
        return done

    async def run(self) -> None:
        """Serves until cancelled."""
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                self._under_way, self._new = self._new, []
                try:
                    await self._serve(set[DbKey]().union(*(at for at, _ in self._under_way)))
                    self._end(None)
                except UpstreamError as lost:
                    self._end(lost)
        finally:
            self._under_way += self._new
            self._new = []
            self._end(UpstreamError("the link was lost"))

    def _end(self, trouble: UpstreamError | None) -> None:
        under_way, self._under_way = self._under_way, []
        for _, done in under_way:
            if trouble is not None:
                fail(done, trouble)
            elif not done.done():
                done.set_result(None)


# Stands among places for the rules.
_RULES_PLACE: Final[DbKey] = (-1, b"")


class Activation:
    """Publishes news, and acknowledges the news of others."""

    def __init__(
        self, context: Context, announcements: Announcements, shared_state: SharedState
    ) -> None:
        self._context = context
        self._keys = context.keys
        self._families = context.script_calls.families
        self._known = self._families.known
        self._announcements = announcements
        self._modes = announcements.modes
        announcements.on_news, announcements.on_connected = self.take_news, self.connected
        self._shared_state = shared_state
        self._rounds = AskedPlaces(self._make_sure)
        self._rules = set[bytes]()  # news of rules that are not over
        self._unheard = set[bytes]()  # news that are to be told again
        self._wanted = asyncio.Event()  # there may be something to acknowledge
        self._acknowledged = asyncio.Condition()

    def add(self, places: Iterable[DbKey]) -> asyncio.Future[None]:
        """Returns a future that is done when all proxies know the families of these places; see
        AskedPlaces."""
        return self._rounds.add(places)

    def tell_all(self) -> asyncio.Future[None]:
        """Returns a future that is done when all proxies have heard what Redis has told them until
        now, and have carried out what they had decided before. It has an UpstreamError if a
        connection, or the link, is lost."""
        return self._rounds.add([_RULES_PLACE])

    def connected(self, news: Collection[bytes]) -> None:
        """Begins with a new push connection; other proxies have acknowledged these news. News that
        only this process knows are told again: a proxy that came meanwhile may not have heard of
        them."""
        self.take_news(news)
        self._unheard = {_FAMILY + family for family in self._known.all}.difference(news)

    def take_news(self, news: Iterable[bytes]) -> None:
        """Takes news that other proxies tell, or have told before this one came."""
        for each in news:
            if len(each) > _LONGEST:
                continue  # no proxy tells this
            if each.startswith(_FAMILY):
                self._known.add([each[len(_FAMILY) :]])
            elif each not in self._rules:
                self._rules.add(each)
                asyncio.get_running_loop().call_later(_OVER_S, self._are_over, each)
        self.wake()

    def wake(self) -> None:
        """Asks for a look at what is to be acknowledged."""
        self._wanted.set()

    async def run(self) -> None:
        """Serves until cancelled."""
        self._known.add_observer(self.wake)
        try:
            await run_all(self._rounds.run(), self._acknowledge())
        finally:
            self._known.remove_observer(self.wake)

    def _are_over(self, rules: bytes) -> None:
        self._rules.discard(rules)
        self.wake()

    async def _acknowledge(self) -> None:
        """Acknowledges what this process knows, as soon as it may."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            connection = self._announcements.acknowledging
            if connection is None:
                continue
            known = self._rules.union(_FAMILY + family for family in self._known.all)
            if new := known - connection.acknowledged:
                await self._landed()
            try:
                for each in new:
                    await connection.ask([(b"SUBSCRIBE", self._keys.news_channel(each))])
                    connection.acknowledged.add(each)
                for each in connection.acknowledged - known:
                    await connection.ask([(b"UNSUBSCRIBE", self._keys.news_channel(each))])
                    connection.acknowledged.discard(each)
                async with self._acknowledged:
                    self._acknowledged.notify_all()
                if self._unheard and self._modes.may_subscribe:
                    unheard, self._unheard = self._unheard, set()
                    await self._tell(connection, unheard)
            except UpstreamError:
                continue  # the next connection begins anew

    async def _landed(self) -> None:
        """Ends when no write is under way that was sent before this process knew what it knows
        now."""
        marks = [(sender, sender.mark()) for sender in self._families.senders]
        looks = 0
        while marks := [(each, mark) for each, mark in marks if not each.has_landed(mark)]:
            looks += 1
            await asyncio.sleep(_LOOKS.compute(min(looks, _MOST_LOOKS)))

    async def _make_sure(self, places: Collection[DbKey]) -> None:
        """Ends when all proxies know the families of these places. Raises UpstreamError if a
        connection is lost before."""
        families = {self._known.of(key) for db, key in places if (db, key) != _RULES_PLACE}
        news = of_families = frozenset(_FAMILY + family for family in families)
        connection = self._announcements.acknowledging
        if _RULES_PLACE in places:
            news |= {_RULES + os.urandom(8).hex().encode()}
        self.take_news(news)
        if self._modes.may_subscribe:  # else nobody can tell
            await self.until_all_have_acknowledged(news)
        if families and not self._keys.clustered:
            await self._note(families)
        if families:
            await self._until_most_masters_know(of_families)
        if connection is None or connection is not self._announcements.acknowledging:
            raise UpstreamError("the push connection was lost")
        self._families.confirm(families)

    async def _until_most_masters_know(self, news: Collection[bytes]) -> None:
        """Tells other masters, because proxies may have lost their connection to this one. Raises
        UpstreamError if too few masters of the Cluster can be reached."""
        tellers = self._context.tellers()
        lacking = (len(tellers) + 1) // 2  # with this one it is most of them
        tasks = [asyncio.create_task(each.until_all_have_acknowledged(news)) for each in tellers]
        try:
            async with asyncio.timeout(self._context.settings.hold_max):
                for task in asyncio.as_completed(tasks):
                    with suppress(UpstreamError):
                        await task
                        lacking -= 1
                    if not lacking:
                        break
        except TimeoutError:
            log.debug("masters do not answer, so families cannot be told to all proxies")
        finally:
            await cancel(*tasks)
        if lacking:
            await asyncio.sleep(_AGAIN_S)
            raise UpstreamError("too few masters of the Cluster are there")

    async def _note(self, families: Collection[bytes]) -> None:
        """Stores the families for proxies that start later. Raises UpstreamError."""
        await self._carry_out(self._connection, [self._shared_state.noting(families)], "note")

    async def _tell(self, connection: Acknowledging, news: Iterable[bytes]) -> None:
        """Tells all proxies. Raises UpstreamError."""
        calls = [Call("announce", (self._keys.telling(each),), ()) for each in news]
        await self._carry_out(connection, calls, "tell")

    async def _carry_out(self, connection: Acknowledging, calls: Iterable[Call], verb: str) -> None:
        """Raises UpstreamError if Redis refuses a call, unless it is a replica."""
        words = self._context.script_calls.words
        for reply in await connection.ask([words(each, b"0", by_text=True) for each in calls]):
            if isinstance(reply, hiredis.ReplyError) and not str(reply).startswith("READONLY"):
                refusal = ResponseError(str(reply))
                self._context.refusals.note(f"to {verb} new families or rules", refusal)
                raise UpstreamError(f"Redis refuses to {verb} families or rules: {reply}")

    async def until_all_have_acknowledged(self, news: Collection[bytes]) -> None:
        """Tells all proxies of this server, and waits for them. Raises UpstreamError if a
        connection is lost before."""
        connection = await self._acknowledged_here(news)
        await self._tell(connection, news)
        await self._until_all_know(connection, news)
        if connection is not self._announcements.acknowledging:
            raise UpstreamError("the push connection was lost")

    async def _acknowledged_here(self, news: Collection[bytes]) -> Acknowledging:
        """Ends when this process has acknowledged; returns the connection on which it has. Raises
        UpstreamError."""
        while True:
            if (connection := self._connection).acknowledged.issuperset(news):
                return connection
            self._wanted.set()
            async with self._acknowledged:
                await self._acknowledged.wait()

    @property
    def _connection(self) -> Acknowledging:
        """The present one. Raises UpstreamError if there is none."""
        connection = self._announcements.acknowledging
        if connection is None:
            raise UpstreamError("there is no push connection")
        return connection

    async def _until_all_know(self, connection: Acknowledging, news: Collection[bytes]) -> None:
        """Ends when as many have acknowledged as there are proxies. Raises UpstreamError."""
        channels = (self._modes.channel, *map(self._keys.news_channel, news))
        loop = asyncio.get_running_loop()
        ends_s, looks = loop.time() + _PATIENCE_S, 0
        while True:
            (reply,) = await connection.ask([(b"PUBSUB", b"NUMSUB", *channels)])
            if isinstance(reply, hiredis.ReplyError):
                self._context.refusals.note("to count proxies", ResponseError(str(reply)))
                return
            proxies, *counts = reply[1::2]
            if max(proxies, *counts) > _MOST_PROXIES:
                proxies, *counts = await self._reached(connection, news)
            if min(counts) >= proxies:
                if proxies >= self._modes.lately:
                    return
                await asyncio.sleep(_NOTICED_S)  # one has gone, or is about to notice its loss
                self._modes.forget_counts()
                continue
            if loop.time() >= ends_s:
                ends_s = loop.time() + _PATIENCE_S
                if not await self._context.is_paused():
                    await self._end_those_that_lack(connection)
            looks += 1
            await asyncio.sleep(_LOOKS.compute(min(looks, _MOST_LOOKS)))

    async def _reached(self, connection: Acknowledging, news: Collection[bytes]) -> list[int]:
        """Returns the numbers of subscribers to the channel of all proxies, and to those of the
        news, where Redis does not count them right (docs/compatibility.md). PUBLISH returns how
        many get a message, which repeats what they have heard. Raises UpstreamError."""
        told = [(b"PUBLISH", self._keys.news_channel(each), each) for each in news]
        first = (b"PUBLISH", self._modes.channel, next(iter(news)))
        counts = await connection.ask([first, *told])
        for each in counts:
            if isinstance(each, hiredis.ReplyError):
                raise UpstreamError(f"proxies cannot be counted: {each}")
        return counts

    async def _end_those_that_lack(self, connection: Acknowledging) -> None:
        """Kills the connections of proxies that have not acknowledged all that others have. Raises
        UpstreamError."""
        (listed,) = await connection.ask([(b"CLIENT", b"LIST")])
        if isinstance(listed, hiredis.ReplyError):
            self._context.refusals.note("to list proxies", ResponseError(str(listed)))
            return
        name = acknowledging_name(self._keys.prefix)
        proxies = [client for client in listed_clients(listed) if client.get(b"name") == name]
        most = max((int(client[b"sub"]) for client in proxies), default=0)
        late = [client for client in proxies if int(client[b"sub"]) < most]
        for client in late:
            log.warning(
                "the proxy at %s does not acknowledge which keys get deadlines, or rules: its push"
                " connection is closed, and it learns that anew",
                client[b"addr"].decode(errors="replace"),
            )
        if all(killed == 0 for killed in await self._kill(connection, late)):
            log.warning(
                "a proxy does not acknowledge which keys get deadlines, or rules, and has heard of"
                " others that are over: the push connections of all other proxies are closed"
            )
            await self._kill(connection, proxies)

    async def _kill(
        self, connection: Acknowledging, proxies: Sequence[Mapping[bytes, bytes]]
    ) -> Sequence[object]:
        """Kills these connections but `connection`; returns of each how many that were, or Redis's
        error. Raises UpstreamError."""
        kills: list[Words] = [(b"CLIENT", b"KILL", b"ID", client[b"id"]) for client in proxies]
        return await connection.ask(kills) if kills else ()
