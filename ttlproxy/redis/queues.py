"""Rules for deadlines, leases, deferred commands, leaderboards and the limiter."""

from __future__ import annotations

from typing import Any, Generic, Literal, Unpack, overload

from ttlproxy.redis import words
from ttlproxy.redis.replies import (
    AllDeferred,
    AllLeft,
    AllTaken,
    Deadlines,
    Flag,
    Int,
    MaybeInt,
    MaybeLease,
    MaybeWord,
    MaybeWords,
    Rows,
    Rules,
    Throttle,
)
from ttlproxy.redis.words import Condition, Expires, ExpiresIn, Sender, Ttl, Value


class Expired(Sender, Generic[Flag, MaybeWords, Rules, AllTaken, AllLeft, Deadlines]):
    """Rules about deadlines of elements, expired elements, and those that are due next."""

    def onexpire(
        self,
        pattern: Value,
        action: Literal["LPUSH", "RPUSH", "XADD", "PUBLISH", "SPUBLISH", "KEEP", "DEL"],
        target: Value | None = None,
        *,
        give: Literal["ELEMENT", "VALUE", "EVENT"] | None = None,
        maxlen: int | None = None,
        approximate: bool = True,
        most: int | None = None,
        otherwise: Value | None = None,
        outbox: bool = False,
    ) -> Flag:
        """Sets what happens to expired elements of keys that match the pattern.

        target: the list, stream or channel; maxlen, approximate: of a stream
        most, otherwise: an element that was delivered `most` times goes to `otherwise` instead (MAX
        ... ELSE)
        outbox: whether the destinations may be in other slots of a Cluster
        """
        trim = () if maxlen is None else ("MAXLEN", "~" if approximate else "=", maxlen)
        letters = () if most is None else ("MAX", most, *words.option("ELSE", otherwise))
        outboxes = ("OUTBOX",) if outbox else ()
        return self.execute_command(
            "ONEXPIRE", pattern, action, *words.given(target, give), *trim, *letters, *outboxes
        )

    def onexpire_rule(self, pattern: Value) -> MaybeWords:
        """Returns the words of the pattern's rule, the pattern first, or None."""
        return self.execute_command("ONEXPIRE", pattern)

    def onexpire_rules(self) -> Rules:
        """Returns all rules, the longest pattern first."""
        return self.execute_command("ONEXPIRE")

    def onwrite(
        self,
        pattern: Value,
        *,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        type: Literal["hash", "set", "zset", "list"] | None = None,
        jitter: int | None = None,
        refresh: bool = False,
        keepttl: bool = False,
        maxlen: int | None = None,
        evict: bool = False,
    ) -> Flag:
        """Sets the deadline of elements that native commands write in keys that match the pattern.

        jitter: up to this many percent more
        refresh: existing elements get it anew, too; keepttl: they keep the one that they have
        maxlen: how many elements a key may have; evict: whether others make room
        """
        return self.execute_command(
            "ONWRITE",
            pattern,
            *words.option("TYPE", type),
            *words.expiry(ex, px),
            *words.option("JITTER", jitter),
            *words.flag("REFRESH", refresh),
            *words.flag("KEEPTTL", keepttl),
            *words.capped(maxlen, evict),
        )

    def onwrite_drop(
        self,
        pattern: Value,
        type: Literal["hash", "set", "zset", "list"] | None = None,
    ) -> Flag:
        """Removes the rule of the pattern, for this type or for all."""
        return self.execute_command("ONWRITE", pattern, *words.option("TYPE", type), "DEL")

    def onwrite_rule(
        self,
        pattern: Value,
        type: Literal["hash", "set", "zset", "list"] | None = None,
    ) -> MaybeWords:
        """Returns the words of the pattern's rule, the pattern first, or None."""
        return self.execute_command("ONWRITE", pattern, *words.option("TYPE", type))

    def onwrite_rules(self) -> Rules:
        """Returns all rules, the longest pattern first."""
        return self.execute_command("ONWRITE")

    def take(self, key: Value, count: int | None = None) -> AllTaken:
        """Removes and returns expired elements that KEEP has kept, earliest first."""
        return self.execute_command("TAKE", key, *words.option("COUNT", count))

    def due(self, key: Value, count: int | None = None) -> AllLeft:
        """Returns the elements that have a deadline, earliest first, with their time left."""
        return self.execute_command("DUE", key, *words.option("COUNT", count))

    def ttlproxy_key(self, key: Value, offset: int = 0, count: int = -1) -> Deadlines:
        """Returns the elements that have a deadline, earliest first, with it; count: -1 for all."""
        return self.execute_command("TTLPROXY", "KEY", key, "LIMIT", offset, count)


class Queues(Sender, Generic[Int, MaybeInt, MaybeWord, MaybeWords, MaybeLease, AllDeferred]):
    """Leases and deferred commands."""

    @overload
    def lease(
        self,
        source: Value,
        destination: Value,
        *,
        count: None = None,
        block: Ttl | None = None,
        **time: Unpack[ExpiresIn],
    ) -> MaybeWord: ...

    @overload
    def lease(
        self,
        source: Value,
        destination: Value,
        *,
        count: int,
        block: Ttl | None = None,
        **time: Unpack[ExpiresIn],
    ) -> MaybeWords: ...

    def lease(
        self,
        source: Value,
        destination: Value,
        *,
        count: int | None = None,
        block: Ttl | None = None,
        **time: Unpack[ExpiresIn],
    ) -> Any:
        """Moves the last item of a list into a set with a deadline, and returns it, or None.

        count: at most this many items, as a list; block: waits this long for an item, in ms (0: no
        limit)
        """
        return self.execute_command(*_leasing(source, destination, time, count, block))

    def lease_with_token(
        self,
        source: Value,
        destination: Value,
        *,
        block: Ttl | None = None,
        **time: Unpack[ExpiresIn],
    ) -> MaybeLease:
        """Leases one item; returns the item and its token, for `unlease` and `renew`, or None."""
        asked = _leasing(source, destination, time, None, block)
        return self.execute_command(*asked, "TOKEN")

    def unlease(self, destination: Value, token: int, *items: Value) -> Int:
        """Removes leased items; returns how many of these leases were not over."""
        return self.execute_command("UNLEASE", destination, token, *items)

    def renew(
        self, destination: Value, token: int, item: Value, **time: Unpack[ExpiresIn]
    ) -> MaybeInt:
        """Gives a leased item more time; returns the new token, or None if that lease is over."""
        return self.execute_command("RENEW", destination, token, item, *words.expiry(**time))

    def defer(
        self,
        command: str,
        key: Value,
        *arguments: Value,
        id: Value | None = None,
        condition: Condition | None = None,
        **expires: Unpack[Expires],
    ) -> MaybeWord:
        """Defers a command, and returns its id; None if the condition is not met."""
        return self.execute_command(
            "DEFER",
            *words.expiry(**expires),
            *words.option("ID", id),
            *words.given(condition),
            command,
            key,
            *arguments,
        )

    def undefer(self, key: Value, *ids: Value) -> Int:
        """Cancels deferred commands; returns how many there were."""
        return self.execute_command("UNDEFER", key, *ids)

    def deferred(self, key: Value, count: int | None = None) -> AllDeferred:
        """Returns the commands that are deferred for a key, earliest first."""
        return self.execute_command("DEFERRED", key, *words.option("COUNT", count))


def _leasing(
    source: Value, destination: Value, time: ExpiresIn, count: int | None, block: Ttl | None
) -> tuple[Value, ...]:
    """Returns the words of LEASE."""
    return (
        "LEASE",
        source,
        destination,
        *words.expiry(**time),
        *words.option("COUNT", count),
        *words.option("BLOCK", None if block is None else words.milliseconds(block)),
    )


class Leaderboards(Sender, Generic[Int, MaybeInt, Rows]):
    """Members sorted by a 64-bit score, the highest first; the earlier of two equal ones comes
    first."""

    def lbadd(
        self, key: Value, score: int, member: Value, *, condition: Condition | None = None
    ) -> Int:
        """Sets a member's score; returns 1 if the member is new, 0 if not, or if the condition is
        not met."""
        return self.execute_command("LBADD", key, *words.given(condition), score, member)

    def lbincrby(self, key: Value, delta: int, member: Value) -> Int:
        """Adds to a member's score, and returns it."""
        return self.execute_command("LBINCRBY", key, delta, member)

    def lbtop(self, key: Value, start: int, stop: int) -> Rows:
        """Returns the rows between two ranks; the first rank is 0, the last one -1."""
        return self.execute_command("LBTOP", key, start, stop)

    def lbrank(self, key: Value, member: Value) -> MaybeInt:
        """Returns a member's rank, or None."""
        return self.execute_command("LBRANK", key, member)

    def lbaround(self, key: Value, member: Value, n: int) -> Rows:
        """Returns a member's row, with n rows above and n below."""
        return self.execute_command("LBAROUND", key, member, n)

    def lbrem(self, key: Value, *members: Value) -> Int:
        """Removes members; returns how many there were."""
        return self.execute_command("LBREM", key, *members)


class Limiters(Sender, Generic[Throttle]):
    """The limiter that redis-py lacks; it has INCREX itself."""

    def cl_throttle(
        self, key: Value, max_burst: int, count: int, period: int, quantity: int | None = None
    ) -> Throttle:
        """Takes tokens (1) from a bucket that gets `count` in `period` seconds (CL.THROTTLE)."""
        return self.execute_command(
            "CL.THROTTLE", key, max_burst, count, period, *words.given(quantity)
        )
