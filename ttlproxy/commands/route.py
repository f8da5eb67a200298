"""The proxy's knowledge of one command, looked up for each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ttlproxy.commands.shareable import SHAREABLE
from ttlproxy.commands.spec import (
    CHANGED,
    FILLED,
    FIRST,
    READ,
    WRITTEN,
    Override,
    Positions,
    Survey,
    Virtual,
)

# The positions of a command's keys. Sessions compare these numbers: kinds that a rule of ONWRITE
# may concern come before READ_KEY.
NO_KEY: Final = 0
ANY_KEY: Final = 1  # anywhere: any argument may be a key; or in another database, too
ONE_KEY: Final = 2  # its first argument
# Its first argument, whose deadlines it keeps: the same as ONE_KEY if no rule of ONWRITE may give
# it a deadline.
KEPT_KEY: Final = 3
READ_KEY: Final = 4  # its first argument, only read: enough that nothing is due there
# Its first argument, if keys are looked up: it must be known that nothing is due. In tables only.
KNOWN_KEY: Final = 5
# Commands that put elements into keys and cannot become scripts -> the access to these keys.
_PUTTING: Final = {
    **dict.fromkeys(("BLMOVE", "BRPOPLPUSH"), FILLED),
    **dict.fromkeys(("EVAL", "EVALSHA", "FCALL"), CHANGED),
}
# Commands that are no reads, but whose keys Redis tracks for a client if their scripts read.
_SCRIPTS: Final = frozenset({"EVAL", "EVALSHA", "FCALL"})
FIRST_ALONE: Final = (ONE_KEY, READ_KEY, KEPT_KEY)


class Stateful(NamedTuple):
    """A command that changes what later ones mean: see session/connection_commands.py.

    arity: as Redis counts it, for servers that do not tell it
    before_login: whether Redis executes it for a client that has not authenticated
    logs_in: whether it may log a client in
    always_ends_transaction: whether it also does so if Redis refuses it for its number of words
    """

    arity: int
    before_login: bool = False
    logs_in: bool = False
    always_ends_transaction: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The facts about a command.

    positions: those of its keys; subcommands: those of each subcommand
    sweeps: whether it may leave stale index entries if it is passed on unchanged
    stateful: set if it changes what later commands mean
    override: also of a virtual command if the server has a command of that name
    survey: only of the server's own commands
    longer: the virtual command that it is if it has more words than the server takes
    denies_oom: whether Redis refuses it when its memory is full; only of the server's own commands
    key_kind: where its keys are, one of the first five kinds above
    """

    name: str
    positions: Positions = None
    subcommands: Mapping[bytes, Positions] = field(default_factory=dict)
    arity: int = -1
    sweeps: bool = True
    blocks: bool = False
    stateful: Stateful | None = None
    virtual: Virtual | None = None
    override: Override | None = None
    survey: Survey | None = None
    longer: Virtual | None = None
    denies_oom: bool = False
    key_kind: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_kind", self._key_kind())

    def fits(self, words: int) -> bool:
        """Whether Redis takes this number of words, including the name (arity)."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity

    @property
    def is_indifferent(self) -> bool:
        """Whether a request has nothing to do with keys and does not change what later ones
        mean."""
        looks = self.survey is not None and (self.survey.of_keys or self.survey.of_proxy)
        acts = self.virtual or self.override or self.longer or self.stateful or self.blocks
        return self.key_kind == NO_KEY and not (looks or acts)

    @property
    def is_shareable(self) -> bool:
        """Whether a request may go over a connection to Redis that clients share."""
        ours = self.virtual is not None and not self.virtual.may_wait
        return (ours or self.name in SHAREABLE) and not (self.stateful or self.blocks)

    def _key_kind(self) -> int:
        positions = self.positions
        if positions is None or any(each != () for each in self.subcommands.values()):
            return ANY_KEY
        if not positions:
            return NO_KEY
        is_first = len(positions) == 1 and replace(positions[0], access=FIRST.access) == FIRST
        if not is_first or (self.override and self.override.target_db):
            return ANY_KEY
        if self.override is None:
            return READ_KEY if positions[0].access == READ else ONE_KEY
        return KEPT_KEY if self.override.only_ruled and not self.sweeps else ONE_KEY

    def keys(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the words of a request that are keys; if that is not known, all that may be."""
        return args[1:] if self._positions(args) is None else self.certain_keys(args)

    def certain_keys(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the words of a request that are keys; none if that is not known."""
        if self.key_kind in FIRST_ALONE:
            return args[1:2]
        return [key for spec in self._positions(args) or () for key in spec.words(args)]

    def written(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the keys that the request, passed on unchanged, may change without their
        index."""
        positions = self._positions(args) if self.sweeps else ()
        if positions is None:
            return args[1:]
        return [key for spec in positions if spec.access in WRITTEN for key in spec.words(args)]

    def filled(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the keys that the request may put elements into."""
        positions = self._positions(args) or ()
        return [key for spec in positions if spec.access == FILLED for key in spec.words(args)]

    def read(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the keys that Redis tracks for a client that caches what this request reads."""
        if self.sweeps and self.name not in _SCRIPTS:
            return ()
        access = CHANGED if self.sweeps else READ
        positions = self._positions(args) or ()
        return [key for spec in positions if spec.access == access for key in spec.words(args)]

    def put_into(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """Returns the keys that the request, which becomes no script, may put elements into."""
        access = _PUTTING.get(self.name)
        positions = (self._positions(args) or ()) if access else ()
        return [key for spec in positions if spec.access == access for key in spec.words(args)]

    def _positions(self, args: Sequence[bytes]) -> Positions:
        if self.subcommands and len(args) > 1:
            return self.subcommands.get(args[1].upper(), self.positions)
        return self.positions


# The route of a command that is neither in the tables nor known to the server.
UNKNOWN: Final = Route(name="")
