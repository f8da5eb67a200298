"""The settings, each declared once. Knows what a value may be; reads no flag and no environment.

Each field is a flag (`--reap-batch`), an environment variable (`TTLPROXY_REAP_BATCH`), a key of the
settings file (`reap_batch`) and a line of --help, which shows its description.
`ttlproxy.cli.main` reads those. No error of this module repeats text that may contain a password.
"""

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    InstanceOf,
    JsonValue,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from ttlproxy.addresses import Listen, SecretFile, Upstream, line_of
from ttlproxy.core.keys import state_name

# Lua's unpack fails at 8,000 values ("too many results to unpack": LUAI_MAXCSTACK in luaconf.h).
UNPACK_MAX = 7000


def _listen(value: object) -> object:
    return Listen.parse(value) if isinstance(value, str) else value


def _upstream(value: object) -> object:
    return Upstream.parse(value) if isinstance(value, str) else value


def _secret_file(value: object) -> object:
    return SecretFile(Path(value), line_of(Path(value))) if isinstance(value, str | Path) else value


def _readable(path: Path) -> Path:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    return path


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError("there is no such directory")
    return path


def _prefix(text: str) -> str:
    if not text or any(letter in "{}" or letter.isspace() for letter in text):
        raise ValueError("a prefix must not be empty or contain {, } or white space")
    if state_name(text.encode()).startswith(text.encode()):
        raise ValueError(f"a prefix must not be a beginning of {state_name(b'').decode()}PREFIX")
    return text


def _permissions(text: str) -> str:
    if not re.fullmatch("[0-7]{3,4}", text):
        raise ValueError(f"{text!r} is not three or four octal digits")
    return text


def _only(
    given: Sequence[object], what: str, names: Sequence[str]
) -> tuple[str | None, SecretFile | None]:
    """The value that is given in the URL, a setting or a file, and the file if it is from one.
    Raises ValueError if more than one is given."""
    found = [each for each in given if each]
    if len(found) > 1:
        raise ValueError(
            f"the {what} is given more than once; use one only: the URL, {', '.join(names)}"
        )
    (only,) = found or [None]
    if isinstance(only, SecretFile):
        return only.at_start, only
    return only.get_secret_value() if isinstance(only, SecretStr) else cast(
        "str | None", only
    ), None


def _login(
    parts: Mapping[str, Any],
    users: Sequence[str],
    passwords: Sequence[str],
    user: str | None,
    password: str | None,
    is_whole: bool,
) -> dict[str, Any]:
    """The fields of a login, from settings of these names or from the URL. Raises ValueError.

    is_whole: none of the settings is missing because it is wrong
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
    """The fields about TLS, from settings of these names. Raises ValueError."""
    found = {field: parts[name] for name, field in names.items() if parts[name]}
    if "tls_key" in found and "tls_cert" not in found:
        key, cert = (each for part in ("key", "cert") for each in names if each.endswith(part))
        raise ValueError(f"{key} needs {cert}")
    return found


def _installed(loop: str) -> str:
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError("uvloop is not installed: pip install uvloop")
    return loop


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _state_dir() -> Path:
    """The directory for data that survives restarts, by the XDG base directory specification."""
    states = (os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state"))
    return Path(next(filter(os.path.isabs, states), "/var/lib"), "ttlproxy")


# Setting -> the field of Upstream that it fills.
_TLS_PARTS = {
    "upstream_tls_ca": "tls_ca",
    "upstream_tls_cert": "tls_cert",
    "upstream_tls_key": "tls_key",
    "upstream_tls_server_name": "tls_server_name",
}
_USERS = ("upstream_user", "upstream_user_file")
_PASSWORDS = ("upstream_password", "upstream_password_file")
_SENTINEL_TLS_PARTS = {
    name.replace("upstream", "sentinel"): field for name, field in _TLS_PARTS.items()
}
_SENTINEL_USERS = ("sentinel_user", "sentinel_user_file")
_SENTINEL_PASSWORDS = ("sentinel_password", "sentinel_password_file")
_File = Annotated[Path, AfterValidator(_readable)]
_Secret = Annotated[InstanceOf[SecretFile], NoDecode, BeforeValidator(_secret_file)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# The setting may change while the proxy runs, because it is read at each use:
# `ttlproxy.process.reload`.
_AT_ONCE: dict[str, JsonValue] = {"reload": True}


class Settings(BaseSettings):
    """All settings. An invalid value raises pydantic's ValidationError."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="TTLPROXY_",
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    listen: Annotated[InstanceOf[Listen], NoDecode, BeforeValidator(_listen)] = Field(
        Listen("127.0.0.1", 6380),
        description="address for clients: host:port, [v6]:port or unix:///path; port 0 is any"
        " free port",
    )
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="processes that share the clients; at most one per core is useful",
    )
    admin: Annotated[InstanceOf[Listen] | None, NoDecode, BeforeValidator(_listen)] = Field(
        None,
        description="address for probes, metrics and pages over HTTP, in the form of listen; off"
        " unless set; only operators should be able to reach it",
    )
    quit_token_file: _Secret | None = Field(
        None,
        description="a file with the token for POST /quitquitquit at admin; without it, that"
        " works only over a unix socket",
    )
    inspector: Literal["loopback", "yes", "no"] = Field(
        "loopback",
        description="whether the status page shows the elements of any key to everybody who can"
        " reach it; loopback: only if nothing but this machine can reach admin",
    )
    max_clients: int = Field(
        10_000,
        ge=1,
        description="clients connected at a time; more are refused, as with Redis's maxclients",
    )
    timeout: int = Field(
        0, ge=0, description="seconds after which an idle client is closed, as in Redis; 0: never"
    )
    stall_timeout: int = Field(
        300,
        ge=0,
        description="seconds for which a client may leave replies unread before it is closed; 0:"
        " no limit",
        json_schema_extra=_AT_ONCE,
    )
    max_buffer_bytes: int = Field(
        2**30,
        ge=0,
        description="bytes that one process buffers for all its clients; beyond that the client"
        " with the most is closed; 0: no limit",
        json_schema_extra=_AT_ONCE,
    )
    tcp_keepalive: int = Field(
        300,
        ge=0,
        description="seconds without traffic before TCP keepalive probes are sent; 0: never",
    )
    proxy_protocol: Literal["no", "yes"] = Field(
        "no",
        description="whether each client's connection must begin with a PROXY header, v1 or v2",
    )
    unix_socket_perm: Annotated[str, AfterValidator(_permissions)] | None = Field(
        None, description="permissions of the unix socket for clients, in octal, such as 770"
    )
    tls_cert: _File | None = Field(
        None,
        description="a file with the certificate shown to clients; with it all clients must"
        " use TLS",
    )
    tls_key: _File | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    tls_ca: _File | None = Field(
        None,
        description="a file with the CA certificates that client certificates are checked against",
    )
    tls_auth_clients: Literal["no", "optional", "yes"] = Field(
        "no", validate_default=True, description="whether clients must show a certificate"
    )
    tls_names: Annotated[Path, AfterValidator(_folder)] | None = Field(
        None,
        description="a directory with certificates for other server names: NAME.crt and NAME.key, "
        "_.example.org.crt for all names under example.org",
    )
    # These are merged into `upstream`, so they must be declared before it.
    upstream_user: str | None = Field(None, description="the proxy's own ACL user at Redis")
    upstream_user_file: _Secret | None = Field(None, description="a file with that user's name")
    upstream_password: SecretStr | None = Field(
        None, description="that user's password; as a flag it is visible in the list of processes"
    )
    upstream_password_file: _Secret | None = Field(
        None, description="a file with that password; it is read again for each connection"
    )
    upstream_tls_ca: _File | None = Field(
        None,
        description="a file with the CA certificates that Redis's certificate is checked"
        " against, for rediss://",
    )
    upstream_tls_cert: _File | None = Field(
        None, description="a file with a certificate to show to Redis"
    )
    upstream_tls_key: _File | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    upstream_tls_server_name: str | None = Field(
        None, description="the host name in Redis's certificate, if it is not that of the URL"
    )
    sentinel_user: str | None = Field(None, description="the proxy's own user at the Sentinels")
    sentinel_user_file: _Secret | None = Field(None, description="a file with that user's name")
    sentinel_password: SecretStr | None = Field(
        None, description="its password; as a flag it shows in the list of processes"
    )
    sentinel_password_file: _Secret | None = Field(
        None, description="a file with that password, read again at each connection"
    )
    sentinel_tls: Literal["yes", "no"] | None = Field(
        None,
        description="whether the Sentinels use TLS, if it is not as the URL says: a"
        " rediss-sentinel:// URL means TLS to the Sentinels and to Redis",
    )
    sentinel_tls_ca: _File | None = Field(
        None,
        description="a file with the CA certificates that the Sentinels' certificates are checked"
        " against, if not that of upstream_tls_ca",
    )
    sentinel_tls_cert: _File | None = Field(
        None,
        description="a file with a certificate to show to the Sentinels, if not that of"
        " upstream_tls_cert",
    )
    sentinel_tls_key: _File | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    sentinel_tls_server_name: str | None = Field(
        None,
        description="the host name in the Sentinels' certificates, if it is neither that of the"
        " URL nor upstream_tls_server_name",
    )
    upstream: Annotated[InstanceOf[Upstream] | None, NoDecode, BeforeValidator(_upstream)] = Field(
        None,
        description="URL of the Redis behind the proxy: redis://, rediss:// or unix://, if needed"
        " with user:password@, or redis-sentinel://HOST,HOST#NAME; without it an embedded Redis is"
        " started",
    )
    data_dir: Annotated[Path, AfterValidator(_expanded)] = Field(
        default_factory=_state_dir, description="directory for the data of the embedded Redis"
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "__ttl:", description="how the names of the proxy's own keys in Redis begin"
    )
    signing_key_file: _Secret | None = Field(
        None,
        description="a file with the key that signs deferred commands and rules, the same for all"
        " proxies; without it the proxies store one in Redis",
    )
    show_internal_keys: Literal["no", "yes"] = Field(
        "no", description="whether clients may see and use the proxy's own keys, for debugging"
    )
    reap_batch: int = Field(
        1000, ge=1, le=UNPACK_MAX, description="elements that one reap may remove"
    )
    reap_budget_ms: int = Field(
        5,
        ge=1,
        description="milliseconds that one reap may take in Redis",
        json_schema_extra=_AT_ONCE,
    )
    lease_ms: int = Field(
        3000,
        ge=1,
        description="milliseconds that the reaper's lease lasts: after this time another proxy"
        " may take over from one that fails",
        json_schema_extra=_AT_ONCE,
    )
    hold_max: Seconds = Field(
        5.0,
        description="seconds that a request may wait for a reap before its client is closed",
        json_schema_extra=_AT_ONCE,
    )
    drain_min: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0,
        description="seconds after SIGTERM in which new clients are still served, while /readyz"
        " fails already",
        json_schema_extra=_AT_ONCE,
    )
    drain_max: Seconds = Field(
        30.0,
        description="seconds that requests in flight may take to finish at shutdown",
        json_schema_extra=_AT_ONCE,
    )
    connect_timeout: Seconds = Field(
        5.0, description="seconds that connecting to Redis may take", json_schema_extra=_AT_ONCE
    )
    max_request_bytes: int = Field(
        2**30,
        ge=1,
        description="largest request, in bytes, that the proxy reads as a whole, such as one on a"
        " key with deadlines",
        json_schema_extra=_AT_ONCE,
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the lowest level that is logged", json_schema_extra=_AT_ONCE
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="format of log lines; json: one object per line, and no greeting on"
        " standard output",
    )
    event_loop: Annotated[Literal["auto", "uvloop", "asyncio"], AfterValidator(_installed)] = Field(
        "auto", description="auto: uvloop if it is installed, else asyncio"
    )

    @field_validator("tls_auth_clients")
    @classmethod
    def _with_authorities(cls, choice: str, info: ValidationInfo) -> str:
        if (choice == "no") != (info.data.get("tls_ca") is None) and "tls_ca" in info.data:
            raise ValueError("client certificates need both: tls_ca, and optional or yes here")
        return choice

    @field_validator("tls_key", "tls_ca", "tls_names")
    @classmethod
    def _with_certificate(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("tls_cert", path) is None:
            raise ValueError("needs tls_cert too")
        return path

    @field_validator("upstream")
    @classmethod
    def _complete(cls, upstream: Upstream | None, info: ValidationInfo) -> Upstream | None:
        """The upstream, with user, password and TLS from the other settings."""
        own = (*_USERS, *_PASSWORDS, *_TLS_PARTS)
        logins = (*_SENTINEL_USERS, *_SENTINEL_PASSWORDS)
        of_sentinels = ("sentinel_tls", *_SENTINEL_TLS_PARTS, *logins)
        parts = {name: info.data.get(name) for name in (*own, *of_sentinels)}
        if upstream is None:
            if any(parts.values()):
                raise ValueError("is not set, but a user, password or certificate for it is")
            return None
        tls = _tls(parts, _TLS_PARTS)
        if tls and not upstream.tls:
            raise ValueError("upstream_tls_... settings need a rediss:// URL")
        is_whole = info.data.keys() >= parts.keys()  # else another setting is wrong already
        login = _login(parts, _USERS, _PASSWORDS, upstream.user, upstream.password, is_whole)
        sentinels = upstream.sentinels
        if sentinels is not None:
            found = _login(parts, _SENTINEL_USERS, _SENTINEL_PASSWORDS, None, None, is_whole)
            theirs = _tls(parts, _SENTINEL_TLS_PARTS)
            uses_tls = {None: upstream.tls, "yes": True, "no": False}[parts["sentinel_tls"]]
            if theirs and not uses_tls:
                raise ValueError("sentinel_tls_... settings need Sentinels that use TLS")
            sentinels = replace(sentinels, tls=uses_tls, **found, **theirs)
        elif any(parts[name] for name in of_sentinels):
            raise ValueError("sentinel_... settings need a redis-sentinel:// URL")
        return replace(upstream, sentinels=sentinels, **login, **tls)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only the arguments: `ttlproxy.cli.main` merges file, environment and flags."""
        return (init_settings,)
