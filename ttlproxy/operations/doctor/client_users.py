"""Checks of clients' ACL users: whether one may change deadlines of keys it has no right to, and
whether everybody is one."""

from __future__ import annotations

from ttlproxy.core.counted import counted
from ttlproxy.core.permissions import asks_login, reaches_narrowly
from ttlproxy.operations.doctor.finding import INFO, OK, WARNING, Finding, Severity
from ttlproxy.operations.doctor.target import Target

# A user who may write to the indexes of these two has a pattern for all indexes, or nearly all.
_KEYS = (b"\x01 a key of nobody \x7f", b"{\xfe}another of nobody")


async def users(target: Target) -> list[Finding]:
    """A finding if users can write to indexes of all keys, or to the state, but not to all keys."""
    lines = [line.split(b" ", 2) for line in await target.ask(b"ACL", b"LIST")]
    others = [(name, rules) for _, name, rules in lines if name.decode() != target.user]
    indexes = [target.keys.index(key) for key in _KEYS]
    wide = [
        name for name, rules in others if any(reaches_narrowly(rules, index) for index in indexes)
    ]
    state = target.keys.home(target.keys.state)
    trusted = (state, target.keys.outbox + b":{x1F}:1")
    knowing = [
        name for name, rules in others if any(reaches_narrowly(rules, key) for key in trusted)
    ]
    found = [
        *_found(
            wide,
            f"may write to {target.keys.prefix.decode()}* but not to all keys",
            "They can read and remove elements of keys that they may not access, and change"
            " deadlines.",
        ),
        *_found(
            knowing,
            f"may write to {state.decode()} or {target.keys.outbox.decode()}* but not to all keys",
            "They can make the proxy run commands on keys that they may not access.",
        ),
    ]
    return found or [
        Finding("users", OK, "no user can reach the deadlines of keys that it may not access")
    ]


async def protected_mode(target: Target) -> list[Finding]:
    """A finding if clients of other machines need no password, or would need one."""
    settings = target.settings
    if settings.tls_auth_clients == "yes":
        return [_protected(OK, "clients must show a certificate")]
    if not settings.is_open_to_other_machines:
        return [_protected(OK, f"only this machine can reach {settings.listen}")]
    if asks_login(await target.ask(b"ACL", b"LIST")):
        return [_protected(OK, "Redis asks clients for a password")]
    fix = "CONFIG SET requirepass, or passwords of ACL users and ACL SETUSER default off"
    if settings.protected_mode == "no":
        return [
            _protected(
                INFO,
                f"everybody who can reach {settings.listen} may use Redis",
                "Redis asks for no password, and protected_mode is no.",
                fix,
            )
        ]
    return [
        _protected(
            WARNING,
            "only clients on this machine are served: Redis asks for no password",
            "Protected mode refuses all others with DENIED.",
            f"{fix}; or --protected-mode no, if only trusted clients can reach the proxy",
        )
    ]


def _protected(severity: Severity, what: str, why: str = "", fix: str = "") -> Finding:
    return Finding("protected-mode", severity, what, why, fix)


def _found(names: list[bytes], what: str, why: str) -> list[Finding]:
    if not names:
        return []
    fix = "replace their rules by what ttlproxy rights prints for their key patterns"
    return [
        Finding("users", WARNING, f"{counted(len(names), 'user')} {what}", why, fix, tuple(names))
    ]
