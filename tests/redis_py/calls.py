"""A call of each method of ttlproxy.redis with all of its options, and the words that it sends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.redis_py.elements import rows

Call = Callable[[Any], Any]

_TIME: Final = {
    "seconds": 7,
    "milliseconds": 7000,
    "unix-time-seconds": 1,
    "unix-time-milliseconds": 1000,
}


def of_elements() -> list[tuple[Call, str]]:
    """Two calls of each of the nine commands of each type: for one element, and for two."""
    found: list[tuple[Call, str]] = []
    for row, one in rows():
        unit = row.forms[0].split()[2:3]
        options: dict[str, Any] = {}
        time = condition = ""
        if unit:
            moment: Any = timedelta(seconds=7)
            if unit[0].startswith("unix"):
                moment = datetime.fromtimestamp(1, UTC)
            options = {"at" if unit[0].startswith("unix") else "ttl": moment, "condition": "NX"}
            time, condition = f" {_TIME[unit[0]]}", " NX"
        found += [
            (_calling(row.name, "a", options), f"{row.name} k a{time}{condition}"),
            (
                _calling(row.name, ["a", "b"], options),
                f"{row.name} k{time}{condition} {one.upper()}S 2 a b",
            ),
        ]
    return found


def _calling(name: str, named: str | list[str], options: dict[str, Any]) -> Call:
    return lambda r: getattr(r, name.lower())("k", named, **options)


_WRITES: Final[list[tuple[Call, str]]] = [
    (
        lambda r: r.hsetex_maxlen("k", {"f": 1}, 3, evict=True, condition="FNX", ex=7),
        "HSETEX k FNX MAXLEN 3 EVICT EX 7 FIELDS 1 f 1",
    ),
    (lambda r: r.saddex("k", ["a"], condition="NX", px=7), "SADDEX k NX PX 7 MEMBERS 1 a"),
    (
        lambda r: r.zaddex("k", {"a": 1.5}, condition="XX", only="GT", ch=True, exat=7),
        "ZADDEX k XX GT CH EXAT 7 MEMBERS 1 1.5 a",
    ),
    (
        lambda r: r.lpushex("k", ["a", "b"], maxlen=3, evict=True, pxat=7),
        "LPUSHEX k MAXLEN 3 EVICT PXAT 7 ELEMENTS 2 a b",
    ),
    (lambda r: r.rpushex("k", ["a"], keepttl=True), "RPUSHEX k KEEPTTL ELEMENTS 1 a"),
]
_OTHERS: Final[list[tuple[Call, str]]] = [
    (
        lambda r: r.onexpire("p", "RPUSH", "l", give="EVENT", most=3, otherwise="dead"),
        "ONEXPIRE p RPUSH l EVENT MAX 3 ELSE dead",
    ),
    (lambda r: r.onexpire("p", "XADD", "s", maxlen=9), "ONEXPIRE p XADD s MAXLEN ~ 9"),
    (lambda r: r.onexpire("p", "LPUSH", "l", outbox=True), "ONEXPIRE p LPUSH l OUTBOX"),
    (lambda r: r.onexpire("p", "KEEP"), "ONEXPIRE p KEEP"),
    (lambda r: r.onwrite("p", ex=7), "ONWRITE p EX 7"),
    (
        lambda r: r.onwrite("p", px=7, type="set", jitter=5, refresh=True, maxlen=3, evict=True),
        "ONWRITE p TYPE set PX 7 JITTER 5 REFRESH MAXLEN 3 EVICT",
    ),
    (lambda r: r.onwrite("p", keepttl=True), "ONWRITE p KEEPTTL"),
    (lambda r: r.onwrite_drop("p", type="set"), "ONWRITE p TYPE set DEL"),
    (lambda r: r.onwrite_rule("p"), "ONWRITE p"),
    (lambda r: r.onwrite_rules(), "ONWRITE"),
    (lambda r: r.onexpire_rule("p"), "ONEXPIRE p"),
    (lambda r: r.onexpire_rules(), "ONEXPIRE"),
    (lambda r: r.take("k", 3), "TAKE k COUNT 3"),
    (lambda r: r.due("k", 3), "DUE k COUNT 3"),
    (lambda r: r.ttlproxy_key("k", 1, 3), "TTLPROXY KEY k LIMIT 1 3"),
    (
        lambda r: r.lease("l", "s", ex=7, count=3, block=timedelta(seconds=7)),
        "LEASE l s EX 7 COUNT 3 BLOCK 7000",
    ),
    (
        lambda r: r.lease_with_token("l", "s", px=7, block=9),
        "LEASE l s PX 7 BLOCK 9 TOKEN",
    ),
    (lambda r: r.unlease("s", 5, "a", "b"), "UNLEASE s 5 a b"),
    (lambda r: r.renew("s", 5, "a", ex=7), "RENEW s 5 a EX 7"),
    (
        lambda r: r.defer("LPUSH", "l", "x", ex=7, id="i", condition="NX"),
        "DEFER EX 7 ID i NX LPUSH l x",
    ),
    (lambda r: r.undefer("l", "i", "j"), "UNDEFER l i j"),
    (lambda r: r.deferred("l", 3), "DEFERRED l COUNT 3"),
    (lambda r: r.lbadd("b", 7, "m", condition="GT"), "LBADD b GT 7 m"),
    (lambda r: r.lbincrby("b", 7, "m"), "LBINCRBY b 7 m"),
    (lambda r: r.lbtop("b", 0, -1), "LBTOP b 0 -1"),
    (lambda r: r.lbrank("b", "m"), "LBRANK b m"),
    (lambda r: r.lbaround("b", "m", 1), "LBAROUND b m 1"),
    (lambda r: r.lbrem("b", "m", "n"), "LBREM b m n"),
    (lambda r: r.cl_throttle("t", 15, 30, 60, 2), "CL.THROTTLE t 15 30 60 2"),
]
CALLS: Final = [*of_elements(), *_WRITES, *_OTHERS]
