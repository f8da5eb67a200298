"""Reads Redis's ACL: what users may do, and which commands a category has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from ttlproxy.core.permissions import Rights
from ttlproxy.link.connecting.pipeline import Words, error, run, valid


class Acl:
    """Asks Redis, until it has refused once: Redis logs each refusal for a missing right.

    categories: the commands of each category, as ACL CAT lists them, which scripts may not call
    knows_users: whether the last question about users was answered, or may not be asked
    """

    USERS: Final = (b"ACL", b"LIST")
    COMMANDS: Final = (b"COMMAND", b"COUNT")

    def __init__(self, rights: Rights, on_users: Callable[[], None] = lambda: None) -> None:
        """`on_users` is called after the users were read."""
        self._on_users = on_users
        self.categories: dict[bytes, list[bytes]] = {}
        self._rights = rights
        self.knows_users = False
        self._shows_users = True
        self._shows_categories = True
        self._commands: object = None  # how many the server had when its categories were read

    def begin_life(self) -> None:
        """Begins a life of the link: the proxy's own user may have got rights since the last
        one."""
        self._shows_users = True

    def start_anew(self, shows_commands: bool) -> None:
        """Begins with a new server; `shows_commands`: whether it has answered COMMAND."""
        self._commands = None
        self._shows_categories = shows_commands

    def take_categories(self, count: int, heard: Mapping[bytes, list[bytes]]) -> None:
        """Takes what another proxy has read while the server had `count` commands."""
        if heard:
            self.categories.update(heard)
            self._commands = count

    async def learn_users(self, redis: Redis) -> bool:
        """Reads what users may do; returns whether that has changed."""
        if not self._shows_users:
            return False
        (users,) = await run(redis, [(0, self.USERS)])
        return self.take_users(users)

    def take_users(self, users: object) -> bool:
        """Takes the reply to USERS; returns whether what users may do has changed."""
        self._shows_users = not isinstance(users, NoPermissionError)
        self.knows_users = not (error(users) and self._shows_users)
        if error(users):
            self._rights.learn_refused(hidden=not self._shows_users)
            has_changed = False
        else:
            has_changed = self._rights.set_users(valid(users))
        self._on_users()
        return has_changed

    def questions(self) -> list[Words]:
        """Returns USERS and COMMANDS, unless Redis has refused to tell."""
        asked: list[Words] = [self.USERS, self.COMMANDS]
        return asked[: self._shows_users + (self._shows_users and self._shows_categories)]

    async def update(self, redis: Redis, replies: Sequence[object], names: list[bytes]) -> None:
        """Takes the replies to `questions`; reads these categories, again whenever modules add or
        remove commands.

        Drops them if Redis does not show the users' rights: then no client may be shown them.
        """
        if replies:
            self.take_users(replies[0])
        if not (self._shows_users and self._shows_categories and len(replies) > 1):
            self.categories.clear()
            return
        count = replies[1]
        if count == self._commands:
            return
        replies = [count, *await run(redis, [(0, (b"ACL", b"CAT", name)) for name in names])]
        self._shows_categories = not any(isinstance(each, NoPermissionError) for each in replies)
        if not any(map(error, replies)):
            self.categories.update(zip(names, map(valid, replies[1:]), strict=True))
            self._commands = count
