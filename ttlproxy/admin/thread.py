"""Starts and ends the thread that serves the pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ttlproxy.addresses import Listen, Upstream
from ttlproxy.admin.routes import End, application
from ttlproxy.admin.status import Watch
from ttlproxy.config import Settings
from ttlproxy.net.listener import Listeners
from ttlproxy.telemetry.worker_totals import Subject

_KEEPALIVE_S: Final = 15.0
# All answers are quick: a browser that has not taken its answer by then has stopped reading.
_SHUTDOWN_S: Final = 1.0


def _is_ours(record: logging.LogRecord) -> bool:
    """Leaves out errors in requests: otherwise anyone who finds the port could flood the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


log = logging.getLogger(__name__)
log.addFilter(_is_ours)


class Admin:
    """Serves the pages about a subject at an address."""

    def __init__(
        self,
        listen: Listen,
        settings: Settings,
        upstream: Upstream,
        subject: Subject,
        stop: Callable[[], None],
    ) -> None:
        """`upstream`: the Redis behind the subject; `stop`: see End."""
        self._listen = listen
        end = End(stop, settings.quit_token_file, by_socket=bool(listen.path))
        self._app = application(listen, subject, end, Watch(settings, upstream, subject))
        self._address: Future[Listen] = Future()
        self._thread = Thread(target=self._run, name="admin", daemon=True)

    async def start(self) -> Listen:
        """Starts to serve; returns the address, with the real port if that was 0. Raises
        ListenError."""
        self._thread.start()
        return await asyncio.wrap_future(self._address)

    async def close(self) -> None:
        """Stops serving, and waits for the thread to end."""
        self._loop.call_soon_threadsafe(self._end.set)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as trouble:  # whatever it is, `start` must not wait for ever
            if self._address.done():
                raise
            self._address.set_exception(trouble)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=log,
            keepalive_timeout=_KEEPALIVE_S,
            shutdown_timeout=_SHUTDOWN_S,
        )
        await runner.setup()
        assert runner.server is not None
        listener = Listeners([self._listen], flag="--admin")
        try:
            self._address.set_result(await listener.start(runner.server))
            await self._end.wait()
        finally:
            listener.stop()
            await runner.cleanup()
