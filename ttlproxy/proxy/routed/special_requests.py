"""Requests that concern more than one node, or the client's connection itself.

Each waits until all before it are answered, so its reply is the next one for the client. A function
for each command, in `_SPECIAL`, returns it, or nothing if it has told the client itself; those of a
transaction, and of subscriptions, have modules of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from random import shuffle
from typing import TYPE_CHECKING, Final

from ttlproxy import errors
from ttlproxy.core.keys import slot
from ttlproxy.errors import UpstreamError
from ttlproxy.proxy.routed import gathering
from ttlproxy.proxy.routed.all_masters import replies_of
from ttlproxy.proxy.routed.connection_settings import KEPT, options
from ttlproxy.proxy.routed.gathering import OK, Split
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.lane_calls import asked, logs_in, relay
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.requests_in import Request
from ttlproxy.proxy.routed.routing_table import SPLIT
from ttlproxy.proxy.routed.scan import Scan
from ttlproxy.proxy.routed.subscriptions import KINDS, Subscriptions
from ttlproxy.proxy.routed.transaction import Transactions
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.link import Link
    from ttlproxy.proxy.routed.routed_client import RoutedClient

_PING: Final[Request] = ([b"PING"], encode((b"PING",)))
# Commands of a client that has not logged in; others are refused.
_BEFORE_LOGIN: Final = frozenset({"AUTH", "HELLO", "QUIT", "RESET"})
# Commands of a client that is subscribed in RESP2, beside PING.
_SUBSCRIBED: Final = frozenset(KINDS) | {"QUIT", "RESET"}
# The subcommands that go to all masters: of all, the first error counts, or the first reply.
_EVERYWHERE: Final = {
    "SCRIPT": (b"LOAD", b"FLUSH"),
    "FUNCTION": (b"LOAD", b"DELETE", b"FLUSH", b"RESTORE"),
    "CONFIG": (b"SET", b"RESETSTAT", b"REWRITE"),
    "ACL": (b"SETUSER", b"DELUSER", b"LOAD", b"SAVE"),
    "CLIENT": (b"PAUSE", b"UNPAUSE"),
}
# The subcommands of CLUSTER about a slot, which its master knows.
_OF_A_SLOT: Final = frozenset({b"COUNTKEYSINSLOT", b"GETKEYSINSLOT", b"FLUSHSLOT"})


class SpecialRequests:
    """
    quit: the client has asked for its end; blocks: its request may wait in Redis
    relaying: everything goes to this lane, and what comes from there goes to the client, unread
    """

    def __init__(self, client: RoutedClient) -> None:
        self.quit = self.blocks = False
        self.relaying: Lane | None = None
        self._client = client
        self._transactions = Transactions(client)
        self._subscriptions = Subscriptions(client)
        self._is_off = False  # CLIENT REPLY OFF: no request has a reply
        self._skips = False  # CLIENT REPLY SKIP: the next request has no reply
        self._caching: list[bytes] | None = None  # CLIENT CACHING, for the next request
        self._scan = Scan(client)

    @property
    def wants_all(self) -> bool:
        """Whether the next request is special, whatever it is."""
        transactions, subscriptions = self._transactions, self._subscriptions
        if self._skips or transactions.is_open or subscriptions.limits or self._caching:
            return True
        return self._client.lanes.is_unauthenticated

    @property
    def listens(self) -> bool:
        return self._subscriptions.listens

    @property
    def hears_all(self) -> bool:
        """Whether Redis may tell the client of any key: then it needs each master."""
        return self._client.connection_settings.tracks_all or self._subscriptions.hears_events

    @property
    def unfinished(self) -> str:
        return "in a transaction" if self._transactions.is_open else ""

    def needs(self, lane: Lane) -> bool:
        """Whether the client cannot go on without the connection.

        With client tracking Redis remembers there which keys the client has read.
        """
        stays = self.relaying is lane or self._client.connection_settings.tracks
        return stays or self._transactions.needs(lane) or self._subscriptions.needs(lane)

    async def next(self) -> None:
        """Does the next request."""
        client, requests = self._client, self._client.next_requests()
        if self._transactions.is_open:
            await self._transactions.go_on(requests)
            return
        args, raw = requests.next()
        skips, self._skips = self._skips, False
        caching, self._caching = self._caching, None
        client.order.muted = self._is_off or skips
        if caching:
            await self._tell_caching(caching, args)
        reply = await self._reply(args, raw)
        self.blocks = False
        if reply:
            client.say(reply)
        client.order.muted = self._is_off

    async def _reply(self, args: list[bytes], raw: bytes) -> bytes:
        """The reply to a request; empty if the client has it."""
        table = self._client.routing_table
        is_unauthenticated = self._client.lanes.is_unauthenticated
        route = table.router.find(args[0])
        special = _SPECIAL.get(route.name)
        if special is None and table[args[0]] is SPLIT:
            special = SpecialRequests._split
        if is_unauthenticated and route.name not in _BEFORE_LOGIN:
            special = None
        if self._subscriptions.limits and route.name not in _SUBSCRIBED:
            special = None
        self.blocks = route.blocks
        if special is None and self._subscriptions.limits:
            return await self._subscriptions.ask(args, raw)
        if special is None:
            await self._alone(raw, args, None if is_unauthenticated else table.slot_of(args))
            return b""
        if route.fits(len(args)) or route.arity == -1:
            return await special(self, args, raw)
        return await self._at_home(args, raw)

    async def _alone(self, raw: bytes, args: list[bytes], number: int | None) -> None:
        """Sends one request; ends with its reply."""
        client, request = self._client, PendingRequest(args, raw, number)
        client.order.add([request])
        lane = client.lanes.of(number)
        if lane is None:
            client.redirects.add([request])
        else:
            lane.send([request], raw)
        await client.order.quiet()
        if request.lane is not None and request.lane.session is not None:
            request.lane.unblocked()  # its reply has come

    async def _at_home(self, args: Sequence[bytes], raw: bytes) -> bytes:
        """Asks any node."""
        return await self._client.ask(args, raw, None)

    async def _everywhere(self, raw: bytes, args: list[bytes]) -> list[bytes]:
        """The replies of all masters, or of those at the client's port."""
        client = self._client
        return [*(await replies_of(client, client.lanes.links, args, raw)).values()]

    async def end_with(self, ending: bytes) -> None:
        """The stream of requests has broken: Redis answers that, and closes."""
        client = self._client
        await client.order.quiet()
        client.say(await client.ask([b""], ending, None))
        client.end()

    async def refuse_too_large(self) -> None:
        await self._client.order.quiet()
        self._client.next_requests().skip()
        self._client.say(b"-%b\r\n" % errors.TOO_LARGE)

    # The connection.

    async def _home(self) -> Lane:
        home = self._client.lanes.home()
        if home is None:
            raise TimeoutError
        return home

    async def _log_in(self, args: list[bytes], raw: bytes) -> bytes:
        home = await self._home()
        reply = await logs_in(home, args)
        if not reply.startswith(b"-") and len(args) > 1:
            await self._keep(args, home)
        return reply

    async def _keep(self, words: list[bytes], home: Lane) -> None:
        """Gives this to each connection of the client, now and later."""
        client = self._client
        client.connection_settings.keep(words)
        for lane in client.lanes.others:
            if lane is home or lane.is_closed or lane.session is None:  # it begins with them
                continue
            if (await logs_in(lane, words)).startswith(b"-"):
                raise UpstreamError("a master refuses what another has accepted")

    async def _reset(self, args: list[bytes], raw: bytes) -> bytes:
        client, home = self._client, await self._home()
        for lane in client.lanes.others:
            client.lanes.close(lane)
        client.connection_settings.clear()
        if self._is_off:  # a RESET behind CLIENT REPLY SKIP has no reply
            self._reply_on()
        self._transactions.reset()
        self._subscriptions.reset(home)
        return await logs_in(home, args)

    async def _quit(self, args: list[bytes], raw: bytes) -> bytes:
        self.quit = True
        self._client.say(OK)
        self._client.end()
        return b""

    async def _client_command(self, args: list[bytes], raw: bytes) -> bytes:
        word = args[1].upper()
        if word == b"REPLY" and len(args) == 3 and args[2].upper() in _REPLIES:
            return _REPLIES[args[2].upper()](self)
        if word == b"TRACKING" and b"REDIRECT" in options(args[3:]):
            return b"-%b\r\n" % errors.NO_REDIRECTION
        if word in KEPT:
            home = await self._home()
            reply = await logs_in(home, args)
            if reply.startswith(b"+"):
                await self._keep(args, home)
                if self.hears_all:
                    await self._client.lanes.reach_all()
            return reply
        if word != b"CACHING":
            return await self._some_everywhere(args, raw)
        reply = await self._at_home(args, raw)
        if reply.startswith(b"+"):
            self._caching = args
        return reply

    async def _tell_caching(self, caching: list[bytes], args: list[bytes]) -> None:
        """The node of the next request must know, and the home no longer."""
        client, home = self._client, await self._home()
        lane = client.lanes.of(client.routing_table.slot_of(args))
        if lane is not None and lane is not home:
            await asked(lane, PendingRequest(caching, encode(tuple(caching)), None))
            await asked(home, PendingRequest([b"PING"], encode((b"PING",)), None))

    def _reply_on(self) -> bytes:
        self._is_off = self._client.order.muted = False
        return OK

    def _reply_off(self) -> bytes:
        self._is_off = True
        return b""

    def _reply_skip(self) -> bytes:
        self._skips = not self._is_off
        return b""

    async def _ok(self, args: list[bytes], raw: bytes) -> bytes:
        return OK

    async def _relay(self, args: list[bytes], raw: bytes) -> bytes:
        home = await self._home()
        await home.opened()
        self.relaying = home
        relay(home, raw)
        return b""

    # Several nodes.

    async def _split(self, args: list[bytes], raw: bytes) -> bytes:
        client, split = self._client, Split(args)
        parts = split.parts.items()
        replying = [client.ask(words, sent, number) for number, (words, sent) in parts]
        replies = await asyncio.gather(*replying)
        return split.gathered(dict(zip(split.parts, replies, strict=True)))

    async def _some_everywhere(self, args: list[bytes], raw: bytes) -> bytes:
        name = self._client.routing_table.router.find(args[0]).name
        word = args[1].upper() if len(args) > 1 else b""
        if word in _EVERYWHERE.get(name, ()):
            return gathering.first(await self._everywhere(raw, args))
        if word == b"KILL" and name in ("SCRIPT", "FUNCTION"):
            return gathering.any_good(await self._everywhere(raw, args))
        return await self._at_home(args, raw)

    async def _cluster(self, args: list[bytes], raw: bytes) -> bytes:
        number = None
        if args[1].upper() in _OF_A_SLOT and len(args) > 2:
            wanted = args[2]
            number = int(wanted) if wanted.isdigit() and int(wanted) < len(self._owners) else None
        return await self._client.ask(args, raw, number)

    async def _set_rule(self, args: list[bytes], raw: bytes, announces: bool = False) -> bytes:
        """A rule is in force once each slot, and each proxy, knows that there is a new one."""
        client, rules = self._client, self._client.masters.rules
        reply = await client.ask(args, raw, rules.home)
        if reply == OK:
            in_force = await rules.spread(client.hold_max_s, announces=announces)
            if not (in_force and await self._all_know_rules()):
                reply = b"-%b\r\n" % errors.NOT_IN_FORCE
        return reply

    async def _all_know_rules(self) -> bool:
        """Whether all proxies of all masters have heard of the rules in time."""
        links = await self._client.lanes.links()
        try:
            await asyncio.gather(*(link.holds.until_all_know_rules() for link in links.values()))
        except TimeoutError:
            return False
        return True

    async def _set_write_rule(self, args: list[bytes], raw: bytes) -> bytes:
        return await self._set_rule(args, raw, announces=True)

    async def _flush(self, args: list[bytes], raw: bytes) -> bytes:
        """Rules are gone, for each client of each proxy, with the reply.

        The master that has them comes first: what another one tells a proxy of its own flush then
        makes that proxy read that there are none.
        """
        client, rules = self._client, self._client.masters.rules
        had_any = bool(rules.actions.rules)  # a push may tell that they are gone before the reply
        replies = await replies_of(client, self._link_with_rules, args, raw)
        others = partial(self._links_but, frozenset(replies))
        replies |= await replies_of(client, others, args, raw)
        if had_any:
            await rules.flushed()
        return gathering.first([*replies.values()])

    async def _link_with_rules(self) -> dict[str, Link]:
        """The link of the master that has the rules, if it is at the client's port."""
        home = self._owners[self._client.masters.rules.home]
        links = await self._client.lanes.links()
        return {name: link for name, link in links.items() if link is home}

    async def _links_but(self, done: Collection[str]) -> dict[str, Link]:
        """The links of the other masters at the client's port, by their ids."""
        links = await self._client.lanes.links()
        return {name: link for name, link in links.items() if name not in done}

    @property
    def _owners(self) -> Sequence[object]:
        return self._client.masters.owners

    async def _publish_in_slot(self, args: list[bytes], raw: bytes) -> bytes:
        return await self._client.ask(args, raw, slot(args[1]))

    async def _pubsub(self, args: list[bytes], raw: bytes) -> bytes:
        gathered = gathering.PUBSUB.get(args[1].upper()) if len(args) > 1 else None
        if gathered is None:
            return await self._at_home(args, raw)
        return gathered(await self._everywhere(raw, args))

    async def _random_key(self, args: list[bytes], raw: bytes) -> bytes:
        replies = await self._everywhere(raw, args)
        shuffle(replies)
        refusal = gathering.error(replies)
        found = [reply for reply in replies if reply not in (gathering.NULL, b"_\r\n")]
        return refusal or (found or replies)[0]

    async def _subscribe(self, args: list[bytes], raw: bytes) -> bytes:
        await self._subscriptions.change(args, raw)
        return b""


Special = Callable[[SpecialRequests, list[bytes], bytes], Awaitable[bytes]]


def _waiting(gathered: Callable[[Sequence[bytes]], bytes]) -> Special:
    async def wait(self: SpecialRequests, args: list[bytes], raw: bytes) -> bytes:
        """Asks all masters, whatever their port: any may have what the client has written.

        A connection may be younger than that: the PING before makes it know how far the master has
        come (src/server.c, processCommand sets `woff`).
        """
        client = self._client
        await replies_of(client, client.lanes.links_of_all, *_PING)
        replies = await replies_of(client, client.lanes.links_of_all, args, raw)
        return gathered([*replies.values()])

    return wait


def _on_all(gathered: Callable[[Sequence[bytes]], bytes]) -> Special:
    async def ask(self: SpecialRequests, args: list[bytes], raw: bytes) -> bytes:
        return gathered(await self._everywhere(raw, args))

    return ask


_REPLIES: Final = {
    b"ON": SpecialRequests._reply_on,
    b"OFF": SpecialRequests._reply_off,
    b"SKIP": SpecialRequests._reply_skip,
}
_SPECIAL: Final[dict[str, Special]] = {
    "AUTH": SpecialRequests._log_in,
    "HELLO": SpecialRequests._log_in,
    "RESET": SpecialRequests._reset,
    "QUIT": SpecialRequests._quit,
    "CLIENT": SpecialRequests._client_command,
    "ASKING": SpecialRequests._ok,
    "READONLY": SpecialRequests._ok,
    "READWRITE": SpecialRequests._ok,
    "MULTI": lambda self, _, __: self._transactions.begin(),
    "EXEC": SpecialRequests._at_home,
    "DISCARD": SpecialRequests._at_home,
    "WATCH": lambda self, args, raw: self._transactions.watch(args, raw),
    "UNWATCH": lambda self, args, raw: self._transactions.unwatch(args, raw),
    "SUBSCRIBE": SpecialRequests._subscribe,
    "UNSUBSCRIBE": SpecialRequests._subscribe,
    "PSUBSCRIBE": SpecialRequests._subscribe,
    "PUNSUBSCRIBE": SpecialRequests._subscribe,
    "SSUBSCRIBE": SpecialRequests._subscribe,
    "SUNSUBSCRIBE": SpecialRequests._subscribe,
    "SPUBLISH": SpecialRequests._publish_in_slot,
    "MONITOR": SpecialRequests._relay,
    "SYNC": SpecialRequests._relay,
    "PSYNC": SpecialRequests._relay,
    "SCAN": lambda self, args, raw: self._scan.page(args, raw),
    "KEYS": _on_all(gathering.joined),
    "DBSIZE": _on_all(gathering.total),
    "RANDOMKEY": SpecialRequests._random_key,
    "FLUSHALL": SpecialRequests._flush,
    "FLUSHDB": SpecialRequests._flush,
    "WAIT": _waiting(gathering.least),
    "WAITAOF": _waiting(gathering.least_of_each),
    "PUBSUB": SpecialRequests._pubsub,
    "SCRIPT": SpecialRequests._some_everywhere,
    "FUNCTION": SpecialRequests._some_everywhere,
    "CONFIG": SpecialRequests._some_everywhere,
    "ACL": SpecialRequests._some_everywhere,
    "CLUSTER": SpecialRequests._cluster,
    "ONEXPIRE": SpecialRequests._set_rule,
    "ONWRITE": SpecialRequests._set_write_rule,
}
