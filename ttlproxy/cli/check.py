"""`ttlproxy --check`: the values in force, as a settings file, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ttlproxy.addresses import Listen, SecretFile, Upstream
from ttlproxy.cli.flags import groups
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.net.tls import for_clients, for_redis

_SECRET = "# {name} is set, by {place}"


def checked(settings: Settings, places: Mapping[str, str]) -> str:
    """Returns a settings file with all values, except for secrets, which it only names.

    places: where each value that is set comes from. Raises CertificateError.
    """
    for_clients(settings)
    if settings.upstream is not None:
        for_redis(settings.upstream)
    lines = ["# the settings are right; in force are:"]
    in_force = {name: getattr(settings, name) for name in SETTINGS}
    if settings.upstream is not None and (settings.upstream_user or settings.upstream_user_file):
        in_force["upstream"] = replace(settings.upstream, user=None)  # its own line has it
    for title, names in groups(SETTINGS):
        lines += ["", f"# {title}"]
        lines += [_line(name, in_force[name], places.get(name, "")) for name in names]
    return "\n".join(lines)


def _line(name: str, value: object, place: str) -> str:
    if not SETTINGS[name].declared.repr:
        return _SECRET.format(name=name, place=place) if value else f"# {name} is not set"
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, Upstream) and value.password and not value.password_file:
        place += ", without its password"
    return f"{name} = {_as_toml(value)}" + (f"  # {place}" if place else "")


def _as_toml(value: object) -> str:
    if isinstance(value, Upstream):
        value = value.shown
    elif isinstance(value, SecretFile):
        value = value.path
    return json.dumps(str(value) if isinstance(value, Listen | Path) else value)
