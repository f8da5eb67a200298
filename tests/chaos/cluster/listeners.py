"""Clients that subscribe, and find out whether they still hear what is published."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from tests.chaos.cluster.clients import InSlots
from tests.chaos.system import machine_ms
from tests.chaos.writers import InDoubtError, Round
from tests.support.raw_client import Connection

# A message comes within this time, or the client is told that none will.
_PATIENCE_S = 20.0


class Listener(InSlots):
    """Subscribes to a channel, publishes there by another connection, and waits for the message.

    A channel of all masters is heard for as long as none of them fails. Who hears one of a slot is
    told when the slot moves: by Redis's own message, or by the end of the connection.
    """

    is_sharded = False
    is_resp3 = False

    def __init__(self, round_: Round, chance: Random, number: int) -> None:
        super().__init__(round_, chance, number)
        self._connection: Connection | None = None
        self._channel = ""
        self._good_ms = machine_ms()

    def step(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._subscribed()
            if self._connection is not None:
                self._hear(self._connection)
        except TimeoutError:
            self._over("nothing is heard")
        except (EOFError, OSError) as lost:
            self._over("" if self.is_sharded else f"the connection is lost: {lost}")

    def _subscribed(self) -> Connection | None:
        proxy = self._chance.choice(self._round.system.proxies)
        self._good_ms = machine_ms()
        self._channel = f"news:{self._slot().tag}"
        connection = Connection(proxy.port, _PATIENCE_S)
        try:
            if self.is_resp3:
                connection.ask("HELLO", 3)
            reply = connection.ask("SSUBSCRIBE" if self.is_sharded else "SUBSCRIBE", self._channel)
        except BaseException:
            connection.close()
            raise
        if reply.startswith(b"-"):
            self._over(f"it is refused: {reply.decode()}")
            connection.close()
            return None
        return connection

    def _hear(self, connection: Connection) -> None:
        name, word = self._name(), "SPUBLISH" if self.is_sharded else "PUBLISH"
        with suppress(InDoubtError):
            self._ask([(word, self._channel, name)])
            heard = b""
            while name.encode() not in heard:
                heard = connection.read()
                if b"sunsubscribe" in heard:
                    self._over("")
                    return
            self._good_ms = machine_ms()

    def _over(self, why: str) -> None:
        """It must subscribe again; with a reason, that was not to happen."""
        if why:
            kind = f"{'S' * self.is_sharded}SUBSCRIBE{' in RESP3' * self.is_resp3}"
            self._round.failed([(kind, self._channel)], why, self._good_ms)
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ShardListener(Listener):
    """The same for a channel of a slot."""

    is_sharded = True


class ShardListener3(ShardListener):
    """The same in RESP3."""

    is_resp3 = True
