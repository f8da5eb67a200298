"""What somebody may have meant who misspelt a flag, a subcommand or a variable.

Compares names only; no value is looked at, because it may be a password.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

PREFIX = "TTLPROXY_"
# From 0 to 1, as difflib has it. 0.75 takes `upstraem` for `upstream` and not `port` for `prefix`.
_ALIKE = 0.75
# Kubernetes gives each container variables for each Service; a Service `ttlproxy-admin` makes
# TTLPROXY_ADMIN_SERVICE_HOST and TTLPROXY_ADMIN_PORT_9380_TCP_ADDR.
_OF_KUBERNETES = re.compile(
    r"TTLPROXY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


def guess(word: str, names: Iterable[str]) -> str:
    """`; did you mean NAME?` with the most similar of the names; empty if none is similar."""
    similar = get_close_matches(word, list(names), 1, _ALIKE)
    return f"; did you mean {similar[0]}?" if similar else ""


def misspelt_variables(environment: Iterable[str], settings: Iterable[str]) -> list[str]:
    """A sentence for each variable whose name is nearly that of a setting."""
    known = {name.upper() for name in (*settings, "config")}
    sentences = []
    for name in sorted(environment):
        found, word = name.upper(), name.upper().removeprefix(PREFIX)
        if found == word or word in known or _OF_KUBERNETES.fullmatch(found):
            continue
        if meant := get_close_matches(word, known, 1, _ALIKE):
            sentences.append(f"{name} is not a setting; did you mean {PREFIX}{meant[0]}?")
    return sentences
