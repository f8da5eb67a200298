"""Runs an import or export from start to end: what would be written, the writing, the check."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from time import monotonic
from typing import Final

from ttlproxy.core.text import counted
from ttlproxy.errors import OperationError, SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.key_walk import Pace, ResumeFile
from ttlproxy.operations.migration.connection import Server
from ttlproxy.operations.migration.elements import Outcome, Rules
from ttlproxy.operations.migration.jobs import Ends, Job, Moved, Options, check_proxy
from ttlproxy.operations.migration.mover import KEYS, MOVING, UNFIT, Mover, State, elements
from ttlproxy.operations.migration.report import has_faults, lines, so_far

# The exit code if the check at the end finds elements that are not as they should be.
DIFFERS: Final = 3
_SAVE_EVERY_S: Final = 1.0


class Migration:
    """`identity`: the words of the command line that must be the same for a run that goes on."""

    def __init__(
        self, job: Job, options: Options, identity: Mapping[str, str], timeout_s: float
    ) -> None:
        self._job = job
        self._options = options
        self._timeout_s = timeout_s
        self._file = ResumeFile(options.state, identity)

    async def run(self, progress: Progress) -> int:
        """Runs it; returns the exit code. Raises TtlproxyError."""
        options = self._options
        state = self._file.load(State.of) if options.is_applied else None
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(
                Server(options.proxy, options.db, self._timeout_s)
            )
            other = proxy
            if options.other is not None:
                other = await stack.enter_async_context(
                    Server(options.other, options.db, self._timeout_s)
                )
            stack.callback(progress.clear)
            await check_proxy(proxy)
            try:
                moved = await self._job.prepare(options, Ends(proxy, other))
            except ValueError as wrong:
                raise SettingsError([str(wrong)]) from None
            if not options.is_applied:
                return await self._dry_run(moved, progress)
            if state is not None:
                doing = "written" if state.phase == MOVING else "checked"
                progress.say(f"going on after {so_far(state.counts)} that were {doing} before")
            return await self._apply(moved, state or State(), progress)

    async def _dry_run(self, moved: Moved, progress: Progress) -> int:
        state = State()
        mover = await self._pass(moved, state, progress, is_dry=True)
        for line in [so_far(state.counts), *lines(state.counts, "dry")]:
            progress.say(line)
        if mover.examples:
            progress.say(f"for example {', '.join(mover.examples)}")
        progress.say("nothing was written: add --apply to write it")
        _check_that_all_fit(mover)
        return 0

    async def _apply(self, moved: Moved, state: State, progress: Progress) -> int:
        if state.phase == MOVING:
            await self._pass(moved, state, progress, is_dry=False)
            state.check()
            self._file.keep(state.kept())
        for line in [so_far(state.moved), *lines(state.moved, "moved")]:
            progress.say(line)
        mover = await self._pass(moved, state, progress, is_dry=True)
        self._file.remove()
        for line in ["checked:", *lines(state.counts, "checked")]:
            progress.say(line)
        differs = has_faults(state.counts)
        if differs and mover.examples:
            progress.say(f"not as they should be, for example: {', '.join(mover.examples)}")
        _check_that_all_fit(mover)
        return DIFFERS if differs else 0

    async def _pass(self, moved: Moved, state: State, progress: Progress, *, is_dry: bool) -> Mover:
        """Goes through all keys; returns the mover, which has examples.

        The state is saved now and then, and at the end, unless it is a dry run. Raises
        OperationError, also if there was nothing to do, because then the options are wrong.
        """
        options = self._options
        rules = Rules(
            moved.how, moved.source.compares, max(moved.source.slack_ms, moved.target.slack_ms)
        )
        mover = Mover(moved.source, moved.target, rules, state, Pace(options.rate), is_dry)
        saves_s = monotonic()
        verb = "looking" if not options.is_applied else "writing" if not is_dry else "checking"

        def tell() -> None:
            nonlocal saves_s
            progress.at(lambda: f"{verb}: {so_far(state.counts)} so far")
            if options.is_applied and state.counts and monotonic() >= saves_s:
                self._file.keep(state.kept())
                saves_s = monotonic() + _SAVE_EVERY_S

        try:
            await mover.run(tell)
        except (asyncio.CancelledError, OperationError):
            if options.is_applied and state.counts:
                self._file.keep(state.kept())
            raise
        if state.phase == MOVING:
            self._check_that_some(moved, state)
        return mover

    def _check_that_some(self, moved: Moved, state: State) -> None:
        counts, server = state.counts, moved.source.server
        if not counts[KEYS]:
            sought = " or ".join(
                f"{part.kind.decode()} {part.match.decode(errors='backslashreplace')!r}"
                for part in moved.source.parts
            )
            raise OperationError(
                f"database {server.db} of {server.shown} has no key for the pattern: {sought}"
            )
        found = elements(counts)
        if found and counts[Outcome.GONE] == found and moved.hint:
            raise OperationError(
                f"none of the {found} elements with deadlines is at {moved.target.server.shown}:"
                f" {moved.hint}"
            )


def _check_that_all_fit(mover: Mover) -> None:
    """Raises OperationError if there were keys that do not fit; called when the others are done."""
    if count := mover.state.counts[UNFIT]:
        said = "\n  ".join([f"{counted(count, 'key was', 'keys were')} left alone:", *mover.unfit])
        raise OperationError(said)
