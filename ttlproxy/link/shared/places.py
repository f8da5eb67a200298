"""Places by database, as requests of the link need them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter

from ttlproxy.core.registry import Place


def by_database(places: Iterable[Place], together: int) -> Iterator[tuple[int, list[bytes]]]:
    """(database, keys), at most so many keys together."""
    for db, of_db in groupby(sorted(places), itemgetter(0)):
        keys = (key for _, key in of_db)
        while some := list(islice(keys, together)):
            yield db, some
