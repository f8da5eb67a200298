"""Checks of a setting against those that are declared before it.

The upstream becomes one value: its URL, with logins and TLS from other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ttlproxy.addresses import Listen, SecretFile, Upstream

# Setting -> the field of Upstream that it fills.
_TLS_PARTS: Final = {
    "upstream_tls_ca": "tls_ca",
    "upstream_tls_cert": "tls_cert",
    "upstream_tls_key": "tls_key",
    "upstream_tls_server_name": "tls_server_name",
}
_USERS: Final = ("upstream_user", "upstream_user_file")
_PASSWORDS: Final = ("upstream_password", "upstream_password_file")
_SENTINEL_TLS_PARTS: Final = {
    name.replace("upstream", "sentinel"): field for name, field in _TLS_PARTS.items()
}
_SENTINEL_USERS: Final = ("sentinel_user", "sentinel_user_file")
_SENTINEL_PASSWORDS: Final = ("sentinel_password", "sentinel_password_file")
_OWN: Final = (*_USERS, *_PASSWORDS, *_TLS_PARTS)
_OF_SENTINELS: Final = (
    "sentinel_tls",
    *_SENTINEL_TLS_PARTS,
    *_SENTINEL_USERS,
    *_SENTINEL_PASSWORDS,
)


def completed(upstream: Upstream | None, settings: Mapping[str, Any]) -> Upstream | None:
    """Returns the upstream, with user, password and TLS from the settings that are valid so far."""
    parts = {name: settings.get(name) for name in (*_OWN, *_OF_SENTINELS)}
    if upstream is None:
        if any(parts.values()):
            raise ValueError("is not set, but a user, password or certificate for it is")
        return None
    tls = _tls(parts, _TLS_PARTS)
    if tls and not upstream.tls:
        raise ValueError("upstream_tls_... settings need a rediss:// URL")
    is_whole = settings.keys() >= parts.keys()  # else another setting is wrong already
    login = _login(parts, _USERS, _PASSWORDS, upstream.user, upstream.password, is_whole)
    sentinels = upstream.sentinels
    if sentinels is not None:
        found = _login(parts, _SENTINEL_USERS, _SENTINEL_PASSWORDS, None, None, is_whole)
        theirs = _tls(parts, _SENTINEL_TLS_PARTS)
        uses_tls = {None: upstream.tls, "yes": True, "no": False}[parts["sentinel_tls"]]
        if theirs and not uses_tls:
            raise ValueError("sentinel_tls_... settings need Sentinels that use TLS")
        sentinels = replace(sentinels, tls=uses_tls, **found, **theirs)
    elif any(parts[name] for name in _OF_SENTINELS):
        raise ValueError("sentinel_... settings need a redis-sentinel:// URL")
    return replace(upstream, sentinels=sentinels, **login, **tls)


def _only(
    given: Sequence[object], what: str, names: Sequence[str]
) -> tuple[str | None, SecretFile | None]:
    """Returns the value that is given in the URL, a setting or a file, and the file if it is from
    one. Raises ValueError if more than one is given."""
    found = [each for each in given if each]
    if len(found) > 1:
        raise ValueError(
            f"the {what} is given more than once; use one only: the URL, {', '.join(names)}"
        )
    (only,) = found or [None]
    if isinstance(only, SecretFile):
        return only.at_start, only
    return cast("str | None", only), None


def _login(
    parts: Mapping[str, Any],
    users: Sequence[str],
    passwords: Sequence[str],
    user: str | None,
    password: str | None,
    is_whole: bool,
) -> dict[str, Any]:
    """Returns the fields of a login, from settings of these names or from the URL. Raises
    ValueError.

    is_whole: whether none of the settings is missing because it is wrong
    """
    user, user_file = _only([user, *(parts[name] for name in users)], "user", users)
    word, word_file = _only([password, *(parts[name] for name in passwords)], "password", passwords)
    if user and not word and is_whole:
        raise ValueError(
            "the user has no password (a URL with a password alone is redis://:password@host)"
        )
    return {
        "user": user,
        "user_file": user_file,
        "password": word,
        "password_file": word_file,
    }


def _tls(parts: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields about TLS, from settings of these names. Raises ValueError."""
    found = {field: parts[name] for name, field in names.items() if parts[name]}
    if "tls_key" in found and "tls_cert" not in found:
        key, cert = (each for part in ("key", "cert") for each in names if each.endswith(part))
        raise ValueError(f"{key} needs {cert}")
    return found


# The smallest Cluster that can elect a master.
_NODES = 3
_HIGHEST_PORT = 65535


def ports_after(address: Listen, count: int | None) -> range:
    """Returns the ports after an address; `count`: how many, if that is set. Raises ValueError if
    there are not as many."""
    ports = range(address.port + 1, address.port + 1 + (count or _NODES))
    if ports[-1] > _HIGHEST_PORT:
        raise ValueError(f"there are no {len(ports)} ports after {address.port}")
    return ports


Valid = Mapping[str, Any]
"""The settings that were valid so far, by name: those that are declared before one."""


def _with_authorities(choice: str, valid: Valid) -> str:
    if "tls_ca" in valid and (choice == "no") != (valid["tls_ca"] is None):
        raise ValueError("client certificates need both: tls_ca, and optional or yes here")
    return choice


def _with_certificate(path: Path | None, valid: Valid) -> Path | None:
    if path is not None and valid.get("tls_cert", path) is None:
        raise ValueError("needs tls_cert too")
    return path


def _with_port(view: str, valid: Valid) -> str:
    listen = valid.get("listen")
    if view == "nodes" and listen is not None and not listen.port:
        raise ValueError("nodes needs host:port in listen, with a port other than 0")
    return view


def _after_listen(count: int | None, valid: Valid) -> int | None:
    view, listen = valid.get("cluster_view"), valid.get("listen")
    if view == "one" and count is not None:
        raise ValueError("needs cluster_view nodes")
    if view == "nodes" and listen is not None:
        ports_after(listen, count)
    return count


def _reachable(announced: Listen | None, valid: Valid) -> Listen | None:
    if announced is not None and not announced.port:
        raise ValueError("must be host:port, with a port that clients can reach")
    if announced is not None and valid.get("cluster_view") == "nodes":
        ports_after(announced, valid.get("cluster_ports"))
    return announced


def _elsewhere(admin: Listen | None, valid: Valid) -> Listen | None:
    listen = valid.get("listen")
    if admin is not None and listen is not None and valid.get("cluster_view") == "nodes":
        nodes = ports_after(listen, valid.get("cluster_ports"))
        if admin.port in nodes:
            raise ValueError(f"cluster_view nodes takes the ports {nodes[0]} to {nodes[-1]}")
    if admin is not None and admin == listen and (admin.port or admin.path):
        raise ValueError("listen has this address: choose another")
    return admin


CHECKS: Final[Mapping[str, Callable[[Any, Valid], object]]] = {
    "tls_auth_clients": _with_authorities,
    "tls_key": _with_certificate,
    "tls_ca": _with_certificate,
    "tls_names": _with_certificate,
    "cluster_view": _with_port,
    "cluster_ports": _after_listen,
    "cluster_announce": _reachable,
    "admin": _elsewhere,
    "upstream": completed,
}
