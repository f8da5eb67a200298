"""Reads the settings again while the proxy runs: some change at once, others need a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from ttlproxy.addresses import SecretFile, Sentinels, Upstream
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.errors import SettingsError
from ttlproxy.telemetry import logs

log = logging.getLogger(__name__)

Values = dict[str, Any]
Read = Callable[[], Settings]
_WithLogin = TypeVar("_WithLogin", Upstream, Sentinels)

AT_ONCE: Final = tuple(name for name, setting in SETTINGS.items() if setting.at_once)


def adopt(settings: Settings, values: Values) -> None:
    """Puts values into the settings object, for everyone who holds it, and sets the log level."""
    settings.__dict__.update(values)  # they are frozen for everybody else
    logs.set_level(settings.log_level)


class Reload:
    """Reads the settings again on request."""

    def __init__(self, settings: Settings, read: Read) -> None:
        """`settings`: as they were read at the start; `read` may raise SettingsError."""
        self._settings = settings
        self._read = read

    async def run(self, asked: asyncio.Event, take: Callable[[Values], Awaitable[None]]) -> None:
        """Reads the settings each time `asked` is set; passes to `take` what changes at once."""
        while True:
            await asked.wait()
            asked.clear()
            await take(self._again())

    def _again(self) -> Values:
        """Returns the values that have changed and take effect; logs the names of all that have
        changed."""
        try:
            read = self._read()
        except SettingsError as error:
            log.error("nothing changed, because %s", error)
            return {}
        changed = [
            name
            for name in SETTINGS
            if _lasting(getattr(self._settings, name)) != _lasting(getattr(read, name))
        ]
        values: Values = {name: getattr(read, name) for name in AT_ONCE if name in changed}
        self._settings = replace(self._settings, **values)
        shown = ", ".join(f"{name} is {value}" for name, value in values.items())
        log.info("the settings have been reloaded: %s", shown or "no changes applied")
        if rest := [name for name in changed if name not in values]:
            log.warning("these settings changed, and need a restart: %s", ", ".join(rest))
        return values


def _lasting(value: object) -> object:
    """Returns a setting without the content of its files, which is read again at each
    connection."""
    if isinstance(value, SecretFile):
        return value.path
    if not isinstance(value, Upstream):
        return value
    sentinels = value.sentinels and _without_files(value.sentinels)
    return replace(_without_files(value), sentinels=sentinels)


def _without_files(at: _WithLogin) -> _WithLogin:
    return replace(
        at,
        user=None if at.user_file else at.user,
        password=None if at.password_file else at.password,
        user_file=None,
        password_file=None,
    )
