"""A breadth-first explorer of all states of a model, with the shortest way to each fault.

The source of the method: explicit-state model checking, as in Lamport's TLC. Standard library only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)


class Explored(NamedTuple):
    """states: how many there are; faults: each with the steps that lead to it first; stuck: the
    steps to the first state from which nothing leads to an end, None if there is no such state"""

    states: int
    faults: dict[str, list[str]]
    stuck: list[str] | None


class Explorer(Generic[State]):
    """steps: what may happen in a state, in words, and the state after it; faults: those of a
    state, which is not looked beyond; has_ended: whether all that was asked for is done"""

    def __init__(
        self,
        steps: Callable[[State], Iterable[tuple[str, State]]],
        faults: Callable[[State], Iterable[str]],
        has_ended: Callable[[State], bool],
    ) -> None:
        self._steps, self._faults, self._has_ended = steps, faults, has_ended

    def explore(self, first: State, most: int) -> Explored:
        """All states from `first` on. Raises RuntimeError if there are more than `most`."""
        origin: dict[State, tuple[str, State] | None] = {first: None}
        before: dict[State, list[State]] = {}
        todo, ends, found = deque([first]), [], dict[str, list[str]]()
        while todo:
            state = todo.popleft()
            if faults := [*self._faults(state)]:
                for fault in faults:
                    found.setdefault(fault, self._way(origin, state))
                continue
            if self._has_ended(state):
                ends.append(state)
            for label, after in self._steps(state):
                before.setdefault(after, []).append(state)
                if after not in origin:
                    origin[after] = label, state
                    todo.append(after)
            if len(origin) > most:
                raise RuntimeError(f"more than {most} states")
        return Explored(len(origin), found, None if found else self._stuck(origin, before, ends))

    def _stuck(
        self,
        origin: dict[State, tuple[str, State] | None],
        before: dict[State, list[State]],
        ends: list[State],
    ) -> list[str] | None:
        can_end, todo = set(ends), list(ends)
        while todo:
            for state in before.get(todo.pop(), ()):
                if state not in can_end:
                    can_end.add(state)
                    todo.append(state)
        for state in origin:
            if state not in can_end:
                return self._way(origin, state)
        return None

    @staticmethod
    def _way(origin: dict[State, tuple[str, State] | None], state: State) -> list[str]:
        way: list[str] = []
        while (step := origin[state]) is not None:
            way.append(step[0])
            state = step[1]
        return way[::-1]
