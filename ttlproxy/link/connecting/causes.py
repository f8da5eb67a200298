"""Why a server cannot be used, and what to do: from errors of redis-py, Python and Redis, in words
for the operator. No text of this module contains a secret."""

from __future__ import annotations

import errno
import re
from typing import Final, NamedTuple

from redis.exceptions import NoPermissionError


class Asked(NamedTuple):
    """The server that was asked.

    name: for people; settings: what the names of the settings about it begin with; user: the
    proxy's own there, for an ACL SETUSER; rights: where all rights are that it needs
    """

    name: str = "Redis"
    settings: str = "upstream"
    user: str = "default"
    rights: str = "ttlproxy doctor prints all rights that are missing"


class Cause(NamedTuple):
    """what: why it cannot be used; cure: what to do; empty where nothing is known."""

    what: str
    cure: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.cure}" if self.cure else self.what


REDIS: Final = Asked()
_OF_USER: Final = "refuses requests of the proxy's own user"
_NO_RIGHT: Final = f"{{asked.name}} {_OF_USER} ({{asked.settings}}_user): {{all}}"
_GRANT: Final = "in redis-cli: ACL SETUSER {{asked.user}} {right}; {{asked.rights}}"


def _dial(number: int) -> str:
    """Matches errors of redis-py and of Python with this number of the system."""
    return rf"Error {number} connecting to (?P<where>\S+?)\. |\[Errno {number}\]"


# Words in errors of redis-py and Redis; what they mean, and what to do. The first that fits counts.
_CAUSES: Final = tuple(
    (re.compile(pattern), what, cure)
    for pattern, what, cure in (
        (
            "NOAUTH|Authentication required",
            "{asked.name} requires a password",
            "set {asked.settings}_password_file or {asked.settings}_password",
        ),
        (
            "DENIED|in protected mode",
            "{asked.name} is in protected mode: it has no password, and so serves only clients on"
            " its own machine",
            "give it a password with CONFIG SET requirepass, and set it here with"
            " {asked.settings}_password_file",
        ),
        (
            "without any password|no password is set",
            "{asked.name} has no password for this user",
            "take the password away here, or see {asked.settings}_user",
        ),
        (
            "WRONGPASS|invalid username-password|invalid password",
            "{asked.name} refuses the user or the password",
            "see {asked.settings}_user, {asked.settings}_password and their files",
        ),
        (
            "permissions? to run the '(?P<command>[^']+)' command",
            _NO_RIGHT,
            _GRANT.format(right="+{command}"),
        ),
        (
            "permissions? to access (?:one of the|a|the '.*') key",
            _NO_RIGHT,
            _GRANT.format(right="~*"),
        ),
        (
            "permissions? to access (?:one of the|a|the '.*') channel",
            _NO_RIGHT,
            _GRANT.format(right="&*"),
        ),
        ("NOPERM", _NO_RIGHT, "{asked.rights}"),
        (
            "LOADING|loading the dataset",
            "{asked.name} is loading its data",
            "wait until that is done",
        ),
        (
            "max number of clients",
            "{asked.name} has as many clients as its maxclients allows",
            "raise that with CONFIG SET maxclients, or close clients",
        ),
        (
            "Protocol error, got|Protocol Error",
            "the server answers, but it is no Redis",
            "check host and port",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*(self.signed|unable to get (local )?issuer)",
            "the server's certificate is from an authority that is not trusted here",
            "set {asked.settings}_tls_ca to the file with the CA's certificate",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*(?P<name>certificate is not valid for '[^']*')",
            "the server's {name}",
            "name the server in the URL as its certificate does, or set"
            " {asked.settings}_tls_server_name",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED.*: (?P<why>[^:]*?)\\.? \\(_ssl",
            "the server's certificate is refused: {why}",
            "see the server's certificate, and the clock of this machine",
        ),
        (
            "CERTIFICATE_REQUIRED|certificate required",
            "the server wants a certificate of the proxy's",
            "set {asked.settings}_tls_cert and {asked.settings}_tls_key",
        ),
        (
            "UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_EXPIRED|CERTIFICATE_UNKNOWN|unknown ca",
            "the server refuses the proxy's certificate",
            "see {asked.settings}_tls_cert",
        ),
        (
            "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|PACKET_LENGTH_TOO_LONG",
            "the server does not speak TLS",
            "check host and port, and whether it should",
        ),
        (
            "(UNSUPPORTED_PROTOCOL|NO_SHARED_CIPHER|PROTOCOL_VERSION|HANDSHAKE_FAILURE)",
            "the server and the proxy have no version of TLS or cipher in common",
            "see tls-protocols and tls-ciphers of the server",
        ),
        (
            _dial(errno.ECONNREFUSED),
            "nothing listens at {where}",
            "check whether the server runs, and that its address is right",
        ),
        (
            _dial(errno.ENOENT),
            "there is no socket at {where}",
            "check whether the server runs, and its setting unixsocket",
        ),
        (
            _dial(errno.EACCES),
            "this process may not use the socket {where}",
            "see unixsocketperm of the server",
        ),
        (
            "^the name .* is not found",
            "{all}",
            "check the host in the URL, and the DNS of this machine",
        ),
        (
            "Timeout connecting",
            "the server does not accept the connection in time",
            "check host and port, firewalls, and whether the server hangs",
        ),
        (
            r"Error -?\d+ connecting to (?P<where>\S+?)\. (?P<why>.*?)\.?$",
            "{where} cannot be reached: {why}",
            "check the host, and the network of this machine",
        ),
        (
            r"Error while reading from|Connection closed by server|Connection lost",
            "the server has closed the connection",
            "",
        ),
    )
)
# Where one side waits for the other, or closes: the settings of TLS may be wrong.
_MAY_BE_TLS: Final = re.compile(
    "Timeout|while reading|closed|lost|reset|SSL|Protocol|does not answer", re.IGNORECASE
)


def cause(trouble: Exception, asked: Asked = REDIS) -> Cause:
    """Why the server cannot be used."""
    text = f"NOPERM {trouble}" if isinstance(trouble, NoPermissionError) else str(trouble)
    if _OF_USER in text:  # it is explained already
        return Cause(text)
    for words, what, cure in _CAUSES:
        if found := words.search(text):
            named = {name: part for name, part in found.groupdict().items() if part}
            parts = {"all": text, "where": "its address", **named}
            return Cause(what.format(asked=asked, **parts), cure.format(asked=asked, **parts))
    return Cause(text or type(trouble).__name__)


def may_be_tls(trouble: Exception) -> bool:
    """Whether the cause may be that one side uses TLS, and the other does not."""
    return bool(_MAY_BE_TLS.search(str(trouble)))
