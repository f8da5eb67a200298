"""Commands that write elements together with their deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Literal, TypeVar

from ttlproxy.redis import words
from ttlproxy.redis.words import Sender, Ttl, UnixTime, Value, Values

Int = TypeVar("Int")


class TimedWrites(Sender, Generic[Int]):
    """One of ex, px, exat and pxat is the deadline: without any of them, and without keepttl, the
    elements lose their deadlines.

    ex, px: seconds and milliseconds, or a timedelta; exat, pxat: Unix time, or a datetime
    keepttl: elements keep the deadline that they have
    maxlen: nothing is written if there would be more elements; with evict, those that expire first
    are removed
    """

    def hsetex_maxlen(
        self,
        key: Value,
        fields: Mapping[str, Value] | Mapping[bytes, Value],
        maxlen: int,
        *,
        evict: bool = False,
        condition: Literal["FNX", "FXX"] | None = None,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        exat: UnixTime | None = None,
        pxat: UnixTime | None = None,
        keepttl: bool = False,
    ) -> Int:
        """HSETEX with MAXLEN, which redis-py's hsetex lacks; returns 1 written, 0 condition not
        met, -1 too many fields."""
        reply: Int = self.execute_command(
            "HSETEX",
            key,
            *words.given(condition),
            *words.capped(maxlen, evict),
            *words.expiry(ex, px, exat, pxat),
            *words.flag("KEEPTTL", keepttl),
            *words.counted("FIELDS", words.pairs(fields), 2),
        )
        return reply

    def saddex(
        self,
        key: Value,
        members: Values,
        *,
        condition: Literal["NX", "XX"] | None = None,
        maxlen: int | None = None,
        evict: bool = False,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        exat: UnixTime | None = None,
        pxat: UnixTime | None = None,
        keepttl: bool = False,
    ) -> Int:
        """Adds members to a set; returns how many are new, -1 if there are too many."""
        reply: Int = self.execute_command(
            "SADDEX",
            key,
            *words.given(condition),
            *words.capped(maxlen, evict),
            *words.expiry(ex, px, exat, pxat),
            *words.flag("KEEPTTL", keepttl),
            *words.counted("MEMBERS", members),
        )
        return reply

    def zaddex(
        self,
        key: Value,
        scores: Mapping[str, float] | Mapping[bytes, float],
        *,
        condition: Literal["NX", "XX"] | None = None,
        only: Literal["GT", "LT"] | None = None,
        ch: bool = False,
        maxlen: int | None = None,
        evict: bool = False,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        exat: UnixTime | None = None,
        pxat: UnixTime | None = None,
        keepttl: bool = False,
    ) -> Int:
        """Adds members to a sorted set; returns how many are new (with ch: or changed), -1 if there
        are too many.

        scores: member -> score; only: changes scores only upwards (GT) or downwards (LT)
        """
        reply: Int = self.execute_command(
            "ZADDEX",
            key,
            *words.given(condition, only),
            *words.flag("CH", ch),
            *words.capped(maxlen, evict),
            *words.expiry(ex, px, exat, pxat),
            *words.flag("KEEPTTL", keepttl),
            *words.counted("MEMBERS", words.scored(scores), 2),
        )
        return reply

    def lpushex(
        self,
        key: Value,
        elements: Values,
        *,
        maxlen: int | None = None,
        evict: bool = False,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        exat: UnixTime | None = None,
        pxat: UnixTime | None = None,
        keepttl: bool = False,
    ) -> Int:
        """Prepends elements to a list; returns its length, -1 if there are too many."""
        reply: Int = self.execute_command(
            "LPUSHEX",
            key,
            *words.capped(maxlen, evict),
            *words.expiry(ex, px, exat, pxat),
            *words.flag("KEEPTTL", keepttl),
            *words.counted("ELEMENTS", elements),
        )
        return reply

    def rpushex(
        self,
        key: Value,
        elements: Values,
        *,
        maxlen: int | None = None,
        evict: bool = False,
        ex: Ttl | None = None,
        px: Ttl | None = None,
        exat: UnixTime | None = None,
        pxat: UnixTime | None = None,
        keepttl: bool = False,
    ) -> Int:
        """Appends elements to a list; returns its length, -1 if there are too many."""
        reply: Int = self.execute_command(
            "RPUSHEX",
            key,
            *words.capped(maxlen, evict),
            *words.expiry(ex, px, exat, pxat),
            *words.flag("KEEPTTL", keepttl),
            *words.counted("ELEMENTS", elements),
        )
        return reply
