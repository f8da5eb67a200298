"""Answers about the proxy: TTLPROXY, INFO's section, and the topology of a Cluster.

Clients of a Cluster see the proxy as all nodes (core/cluster_view.py): a client that knew the real
nodes would go past the proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ttlproxy import errors
from ttlproxy.commands.spec import READ, Call, KeySpec, Survey, Virtual, refusal

Args = Sequence[bytes]

_HELP = (
    b"TTLPROXY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"INFO",
    b"    Return information about the proxy: the section of INFO ttlproxy.",
    b"KEY <key> [LIMIT <offset> <count>]",
    b"    Return the elements of a key that have a deadline, with the deadline in Unix time",
    b"    in milliseconds, earliest first. A negative count means all from the offset on.",
    b"HELP",
    b"    Print this help.",
)
_INFO = Call("proxy_info", (), (b"ttlproxy",))


def _plan(args: Args) -> Call:
    """Plans TTLPROXY; without a subcommand it is HELP."""
    word = args[1].upper() if len(args) > 1 else b"HELP"
    plan = _SUBCOMMANDS.get(word)
    if plan is None:
        return refusal("TTLPROXY", errors.unknown_subcommand(args[1], "TTLPROXY"))
    name = f"TTLPROXY|{word.decode()}"
    return plan(args) or refusal(name, errors.wrong_arity(name))


def _plan_help(args: Args) -> Call | None:
    return Call("proxy_help", (), _HELP) if len(args) <= 2 else None


def _plan_info(args: Args) -> Call | None:
    return _INFO if len(args) == 2 else None


def _plan_key(args: Args) -> Call | None:
    if len(args) < 3:
        return None
    if len(args) == 3:
        return Call("key_deadlines", args[2:3], (b"0", b"-1"))
    if len(args) != 6 or args[3].upper() != b"LIMIT":
        return refusal("TTLPROXY|KEY", errors.SYNTAX)
    return Call("key_deadlines", args[2:3], args[4:6])


_SUBCOMMANDS = {b"HELP": _plan_help, b"INFO": _plan_info, b"KEY": _plan_key}

VIRTUALS = (
    Virtual(
        name="TTLPROXY",
        summary="Shows information about the proxy, and the deadlines of a key.",
        group="server",
        forms=("[HELP]", "INFO", "KEY key [LIMIT offset count]"),
        hint="[HELP|INFO|KEY key [LIMIT offset count]]",
        positions=(KeySpec(READ, 1, keyword=b"KEY"),),
        reply="lines of help; a section as in `INFO`; or each element that has a deadline, with"
        " its deadline in Unix time in milliseconds, earliest first; with `LIMIT` fewer than"
        " count where elements were removed just now",
        complexity="O(log(M)+N), M elements with a deadline, N of them returned",
        since="0.1.0",
        plan=_plan,
        example=(
            ("HSET h a 1 b 2 c 3", "(integer) 3"),
            ("HEXPIREATFIELD h b 4102444800", "(integer) 1"),
            ("HEXPIREATFIELD h a 4102444801", "(integer) 1"),
            (
                "TTLPROXY KEY h",
                '1) 1) "b"\n   2) (integer) 4102444800000\n'
                '2) 1) "a"\n   2) (integer) 4102444801000',
            ),
            ("TTLPROXY KEY h LIMIT 1 10", '1) 1) "a"\n   2) (integer) 4102444801000'),
        ),
    ),
)


def _plan_section(args: Args) -> Call | None:
    """Plans INFO. It is passed on unchanged unless it asks for our section, because scripts cannot
    always run."""
    asks = {b"TTLPROXY", b"ALL", b"EVERYTHING"}.intersection(word.upper() for word in args[1:])
    return Call("proxy_info", (), args[1:]) if asks else None


SURVEYS = (Survey(name="INFO", plan=_plan_section),)


_ASKED: Final = frozenset({b"MYID", b"NODES", b"SHARDS", b"SLOTS"})


_OF_A_NODE: Final = frozenset({b"REPLICAS", b"SLAVES"})


def _plan_cluster(args: Sequence[bytes]) -> Call | None:
    word = args[1].upper() if len(args) > 1 else b""
    if len(args) == 2 and word in _ASKED:
        return Call("cluster_topology", (), (word.lower(),))
    if len(args) == 3 and word in _OF_A_NODE:
        return Call("cluster_topology", (), (b"replicas " + args[2],))
    return None


def _plan_scan(args: Sequence[bytes]) -> Call:
    return Call("cluster_scan", args[1:2], args[2:])


CLUSTER_SURVEYS = (
    Survey(name="CLUSTER", plan=_plan_cluster, of_proxy=True),
    Survey(name="CLUSTERSCAN", plan=_plan_scan, of_keys=True),
)
