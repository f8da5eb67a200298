"""`ttlproxy adopt` on the command line: its flags and their meaning."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ttlproxy.addresses import Listen, Upstream, line_of
from ttlproxy.cli.flags import DATABASE, positive, switch, value
from ttlproxy.cli.output import ADD_APPLY, say
from ttlproxy.cli.subcommand import OF_LOG, Subcommand
from ttlproxy.config import Settings
from ttlproxy.core.element_types import TYPES
from ttlproxy.errors import SettingsError
from ttlproxy.net.progress import Progress
from ttlproxy.operations.adopt import AdoptOptions, Wanted, adopted
from ttlproxy.operations.key_walk import ResumeFile

_DESCRIPTION: Final = """\
Gives a deadline to the elements of all keys that match the pattern, where they have none, through a
running proxy: the one at --listen, or at --proxy. Without --apply it only looks. Clients may go on
writing. Rules of ONWRITE are for what is written; this is for what is there already. If it is
interrupted, start it again: elements that have a deadline keep it, and with --state it goes on
where it was."""
_MOST_JITTER: Final = 100
_SAME: Final = ("ex", "px", "jitter", "type", "db", "apply")


def _percent(text: str) -> int:
    number = positive(text)
    if number > _MOST_JITTER:
        raise argparse.ArgumentTypeError(f"must be {_MOST_JITTER} at most")
    return number


_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--match": value("PATTERN", "the keys, as a pattern of KEYS, in quotes", required=True),
    "--ex": value("SECONDS", "the time to live of each element, from now on", positive),
    "--px": value("MS", "the same in milliseconds", positive),
    "--jitter": {
        **value("PERCENT", "makes each time longer by a random part of up to so many percent"),
        "type": _percent,
        "default": 0,
    },
    "--type": {"choices": [kind.decode() for kind in TYPES], "help": "only keys of this type"},
    "--db": DATABASE,
    "--rate": value(
        "N", "keys and elements to look at per second, at most", positive, default=10_000
    ),
    "--state": value(
        "FILE", "keeps how far it is, until it is over; the next run goes on there", Path
    ),
    "--apply": switch("give the deadlines; otherwise it only says how many elements would get one"),
    "--proxy": value(
        "URL", "the proxy: redis://[user:password@]host:port, rediss:// with TLS, or unix://"
    ),
    "--proxy-password-file": value("FILE", "a file with the password there", Path),
    "--proxy-tls-ca": value(
        "FILE",
        "a file with the CA certificates that the proxy's certificate is checked against",
        Path,
    ),
}


async def _adopt(settings: Settings, own: argparse.Namespace) -> int:
    """Runs it; returns the exit code. Raises TtlproxyError."""
    if (own.ex is None) == (own.px is None):
        raise SettingsError(["adopt: give a time, with --ex or --px"])
    wanted = Wanted(
        os.fsencode(own.match),
        own.px or own.ex * 1000,
        own.jitter,
        (own.type or "").encode(),
        own.db,
    )
    proxy = _proxy(settings.listen, own)
    # These words make it the same run.
    same = {each: str(getattr(own, each)) for each in _SAME}
    job = {"proxy": proxy.shown, "pattern": own.match, **same}
    state = ResumeFile(own.state, job)
    how = AdoptOptions(own.rate, not own.apply, state)
    await adopted(proxy, settings.connect_timeout, wanted, how, Progress(say))
    if how.is_dry:
        say(ADD_APPLY)
    return 0


def _proxy(listen: Listen, own: argparse.Namespace) -> Upstream:
    """Returns the address of the proxy, with the login there. Raises SettingsError."""
    try:
        here = Upstream(host=listen.local.host, port=listen.port, path=listen.path)
        proxy = Upstream.parse(own.proxy) if own.proxy else here
        file = own.proxy_password_file
        password = line_of(file) if file else proxy.password
    except ValueError as problem:
        raise SettingsError([f"adopt: {problem}"]) from None
    if proxy.wants_master:
        raise SettingsError(["adopt: --proxy must name one proxy"])
    return replace(proxy, password=password, tls_ca=own.proxy_tls_ca)


SUBCOMMANDS: Final = {
    "adopt": Subcommand(_DESCRIPTION, _FLAGS, _adopt, ("listen", "connect_timeout", *OF_LOG))
}
