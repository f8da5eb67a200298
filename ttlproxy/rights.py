"""What clients may do: which ACL users may run scripts, and whether internal keys are for clients.

Read from ACL LIST, the one answer that Redis 6.2 has, too. Knows no connection: the link brings the
lines, once a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# How a rule may call EVAL and EVALSHA: by their categories too.
_SCRIPTING = frozenset({b"@all", b"@scripting", b"@slow"})
_CALLS = (b"eval", b"evalsha")
_SELECTOR = re.compile(rb"\(([^)]*)\)")
_DEFAULT = b"default"


class Rights:
    """What a session asks before it sends a script that its client has not asked for.

    running: whether Redis runs scripts now, which it does not while it loads its data
    shows_internal: whether clients may name and see internal keys
    """

    __slots__ = ("_barred", "running", "shows_internal")

    def __init__(self, shows_internal: bool = False) -> None:
        self.shows_internal = shows_internal
        self.running = True
        self._barred: frozenset[bytes] = frozenset()

    def learn(self, lines: Iterable[bytes]) -> None:
        """The lines of ACL LIST.

        Where Redis does not show them to us, every user is taken to have the rights that the README
        asks for.
        """
        users = [line.split(b" ", 2) for line in lines]
        self._barred = frozenset(name for _, name, rules in users if not _runs(name, rules))

    def may_script(self, users: Iterable[bytes]) -> bool:
        """Whether scripts run now, and none of these, who need not exist, is barred from them."""
        return self.running and self._barred.isdisjoint(users)


def _runs(name: bytes, rules: bytes) -> bool:
    """Whether the rules of a user allow scripts, those of its selectors included."""
    own = _SELECTOR.sub(b"", rules)
    if name == _DEFAULT and b"off" in own.split():
        return True  # nobody is logged in as that, and who is not logged in is told so
    sets = [own, *_SELECTOR.findall(rules)]
    return all(any(_allows(each.split(), call) for each in sets) for call in _CALLS)


def _allows(rules: Iterable[bytes], call: bytes) -> bool:
    """Whether the rules, of which a later one overrides an earlier one, allow a command."""
    allowed = False
    for rule in rules:
        if rule[1:] == call or rule[1:] in _SCRIPTING:
            allowed = rule[:1] == b"+"
    return allowed
