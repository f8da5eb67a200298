"""Decides what happens to each element of a page. A pure decision: knows no connection and no
clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ttlproxy.operations.migration.elements import Element, Found, Outcome, Page, TargetState


class How(NamedTuple):
    """copies: whether what is not at the target is added; deletes: whether what has expired is
    deleted there"""

    copies: bool = False
    deletes: bool = False


class Plan(NamedTuple):
    """The elements that get a deadline, those that are added, and what becomes of all."""

    to_expire: Sequence[Element]
    to_add: Sequence[Element]
    outcomes: Counter[Outcome]


class Rules(NamedTuple):
    """The rules of the decision; compares, slack_ms: see Source."""

    how: How
    compares: bool
    slack_ms: int

    def plan(self, page: Page, state: TargetState) -> Plan:
        to_expire, to_add, outcomes = list[Element](), list[Element](), Counter[Outcome]()
        for element, found in zip(page.elements, state.found, strict=True):
            outcome = self._outcome(page.kind, element, found, state.now_ms)
            outcomes[outcome] += 1
            if outcome is Outcome.ADDED:
                to_add.append(element)
            elif outcome in (Outcome.DATED, Outcome.DELETED):
                to_expire.append(element)
        return Plan(to_expire, to_add, outcomes)

    def _outcome(self, kind: bytes, element: Element, found: Found, now_ms: int) -> Outcome:
        at = element.deadline_ms
        has_passed = at is not None and at <= now_ms
        if not found.is_there:
            if not self.how.copies:
                return Outcome.GONE
            return Outcome.PASSED if has_passed else Outcome.ADDED
        if at is None:
            return Outcome.THERE
        if found.deadline_ms is not None:
            is_same = abs(found.deadline_ms - at) <= self.slack_ms
            return Outcome.SAME if is_same else Outcome.OTHER
        if self.compares and not _is_same_value(kind, element.value, found.value):
            return Outcome.CHANGED
        if not has_passed:
            return Outcome.DATED
        return Outcome.DELETED if self.how.deletes else Outcome.PASSED


def _is_same_value(kind: bytes, one: bytes | None, other: bytes | None) -> bool:
    """Compares values; servers print the same score with more or fewer digits."""
    if kind == b"zset" and one is not None and other is not None:
        return float(one) == float(other)
    return one == other
