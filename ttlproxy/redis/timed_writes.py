"""Commands that write elements together with their deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Literal, Unpack

from ttlproxy.redis import words
from ttlproxy.redis.replies import Int
from ttlproxy.redis.words import Capped, Sender, Timed, Value, Values


class TimedWrites(Sender, Generic[Int]):
    """One of ex, px, exat and pxat is the deadline: without any of them, and without keepttl, the
    elements lose their deadlines. With maxlen nothing is written if there would be more elements;
    with evict, those that expire first are removed.
    """

    def hsetex_maxlen(
        self,
        key: Value,
        fields: Mapping[str, Value] | Mapping[bytes, Value],
        maxlen: int,
        *,
        condition: Literal["FNX", "FXX"] | None = None,
        **timed: Unpack[Timed],
    ) -> Int:
        """HSETEX with MAXLEN, which redis-py's hsetex lacks; returns 1 written, 0 condition not
        met, -1 too many fields."""
        return self.execute_command(
            "HSETEX",
            key,
            *words.given(condition),
            *words.timed(maxlen, **timed),
            *words.counted("FIELDS", words.pairs(fields), 2),
        )

    def saddex(
        self,
        key: Value,
        members: Values,
        *,
        condition: Literal["NX", "XX"] | None = None,
        **timed: Unpack[Capped],
    ) -> Int:
        """Adds members to a set; returns how many are new, -1 if there are too many."""
        return self.execute_command(
            "SADDEX",
            key,
            *words.given(condition),
            *words.timed(**timed),
            *words.counted("MEMBERS", members),
        )

    def zaddex(
        self,
        key: Value,
        scores: Mapping[str, float] | Mapping[bytes, float],
        *,
        condition: Literal["NX", "XX"] | None = None,
        only: Literal["GT", "LT"] | None = None,
        ch: bool = False,
        **timed: Unpack[Capped],
    ) -> Int:
        """Adds members to a sorted set; returns how many are new (with ch: or changed), -1 if there
        are too many.

        scores: member -> score; only: changes scores only upwards (GT) or downwards (LT)
        """
        return self.execute_command(
            "ZADDEX",
            key,
            *words.given(condition, only),
            *words.flag("CH", ch),
            *words.timed(**timed),
            *words.counted("MEMBERS", words.scored(scores), 2),
        )

    def lpushex(self, key: Value, elements: Values, **timed: Unpack[Capped]) -> Int:
        """Prepends elements to a list; returns its length, -1 if there are too many."""
        return self._push("LPUSHEX", key, elements, timed)

    def rpushex(self, key: Value, elements: Values, **timed: Unpack[Capped]) -> Int:
        """Appends elements to a list; returns its length, -1 if there are too many."""
        return self._push("RPUSHEX", key, elements, timed)

    def _push(self, command: str, key: Value, elements: Values, timed: Capped) -> Int:
        counted = words.counted("ELEMENTS", elements)
        return self.execute_command(command, key, *words.timed(**timed), *counted)
