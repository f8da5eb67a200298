"""The settings, each declared once. Knows what a value may be; reads no flag and no environment.

A field here is a flag (`--reap-batch`), an environment variable (`TTLPROXY_REAP_BATCH`), a key of
the settings file (`reap_batch`) and a line of --help, which shows its description. `ttlproxy.cli`
reads those. No message of this module repeats what may hold a password.
"""

import importlib.util
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote, unquote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    InstanceOf,
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

REDIS_PORT = 6379
# Lua's unpack fails at 8,000 values ("too many results to unpack": LUAI_MAXCSTACK in luaconf.h).
UNPACK_MAX = 7000


@dataclass(frozen=True, slots=True)
class Listen:
    """Where clients connect: a host and a port (0: any free one), or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`host:port`, `[v6]:port` or `unix:///path`; a ValueError says what is wrong."""
        if text.startswith("unix://"):
            return cls(path=_absolute(unquote(text.removeprefix("unix://"))))
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not host or not _is_port(port):
            raise ValueError(f"{text!r} is not host:port, [v6]:port or unix:///path")
        return cls(host=host, port=int(port))

    def __str__(self) -> str:
        return f"unix://{quote(self.path)}" if self.path else _host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Redis behind the proxy: `host` and `port`, or `path`; and what it takes to be let in."""

    host: str = ""
    port: int = REDIS_PORT
    path: str = ""
    tls: bool = False
    tls_ca: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """`redis://`, `rediss://` or `unix://`, as redis-cli's -u; a ValueError says what is wrong.

        The messages quote nothing of the URL: a password that is not percent-encoded can end up
        in any part of it.
        """
        try:
            parts = urlsplit(url)
            port = REDIS_PORT if parts.port is None else parts.port
        except ValueError:
            raise ValueError(
                "the host or the port of the URL cannot be read"
                " (are special characters of the password percent-encoded?)"
            ) from None
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise ValueError("the URL starts with none of redis://, rediss://, unix://")
        if parts.query or parts.fragment:
            raise ValueError("the URL has a ? or #: percent-encode it where it is meant literally")
        user = unquote(parts.username or "") or None
        password = unquote(parts.password or "") or None
        if parts.scheme == "unix":
            if parts.hostname:
                raise ValueError("the URL of a unix socket has three slashes: unix:///path")
            return cls(path=_absolute(unquote(parts.path)), user=user, password=password)
        if not parts.hostname or port == 0:
            raise ValueError("the URL names no host, or port 0")
        if parts.path not in ("", "/", "/0"):
            raise ValueError(
                "the URL names a database other than 0: clients choose their database with SELECT"
            )
        tls = parts.scheme == "rediss"
        return cls(host=parts.hostname, port=port, tls=tls, user=user, password=password)

    @property
    def shown(self) -> str:
        """The URL for people and logs, without the password."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        if self.path:
            return f"unix://{user}{quote(self.path)}"
        return f"redis{'s' * self.tls}://{user}{_host_port(self.host, self.port)}"


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def _absolute(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError("a unix socket is given with its absolute path: unix:///path")
    return path


def _listen(value: object) -> object:
    return Listen.parse(value) if isinstance(value, str) else value


def _upstream(value: object) -> object:
    return Upstream.parse(value) if isinstance(value, str) else value


def _secret_of(value: object) -> object:
    """The content of a file, read once (it may be a pipe), without its trailing newline."""
    if not isinstance(value, str | Path):
        return value
    try:
        secret = Path(value).read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8") from None
    if not secret:
        raise ValueError("the file is empty")
    return secret


def _readable(path: Path) -> Path:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror}") from None
    return path


def _prefix(text: str) -> str:
    if not text or any(letter in "{}" or letter.isspace() for letter in text):
        raise ValueError("a prefix is not empty and has no {, } or white space")
    return text


def _installed(loop: str) -> str:
    if loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError("uvloop is not installed: pip install 'ttlproxy[uvloop]'")
    return loop


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _state_dir() -> Path:
    """Where the XDG base directory specification puts what is to outlive a restart."""
    states = (os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state"))
    return Path(next(filter(os.path.isabs, states), "/var/lib"), "ttlproxy")


_PARTS = ("upstream_user", "upstream_password", "upstream_password_file", "upstream_tls_ca")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Everything one can choose. A value that is not valid raises pydantic's ValidationError."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="TTLPROXY_",
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    listen: Annotated[InstanceOf[Listen], NoDecode, BeforeValidator(_listen)] = Field(
        Listen("127.0.0.1", 6380),
        description="where clients connect: host:port, [v6]:port or unix:///path; port 0 is any",
    )
    workers: int = Field(
        1, ge=1, le=256, description="processes that share the clients; more than cores is no use"
    )
    admin: Annotated[InstanceOf[Listen] | None, NoDecode, BeforeValidator(_listen)] = Field(
        None,
        description="where probes, metrics and pages are served over HTTP, as for listen; "
        "nowhere unless set, and best where only those who operate the proxy can reach it",
    )
    # `upstream` is completed from these four, so they stand before it.
    upstream_user: str | None = Field(None, description="the proxy's own ACL user at Redis")
    upstream_password: SecretStr | None = Field(
        None, description="its password; as a flag it shows in the list of processes"
    )
    upstream_password_file: Annotated[SecretStr, BeforeValidator(_secret_of)] | None = Field(
        None, description="a file with that password"
    )
    upstream_tls_ca: Annotated[Path, AfterValidator(_readable)] | None = Field(
        None, description="a file with the certificates to trust, for rediss://"
    )
    upstream: Annotated[InstanceOf[Upstream] | None, NoDecode, BeforeValidator(_upstream)] = Field(
        None,
        description="the Redis to stand before: redis://, rediss:// or unix:// with, if need be, "
        "user:password@; without it an embedded Redis is run",
    )
    data_dir: Annotated[Path, AfterValidator(_expanded)] = Field(
        default_factory=_state_dir, description="where the embedded Redis keeps its data"
    )
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "__ttl:", description="what the names of the proxy's own keys in Redis start with"
    )
    show_internal_keys: Literal["no", "yes"] = Field(
        "no", description="whether clients may see and name the proxy's own keys, for debugging"
    )
    reap_batch: int = Field(
        1000, ge=1, le=UNPACK_MAX, description="elements that one reap removes at most"
    )
    reap_budget_ms: int = Field(
        5, ge=1, description="milliseconds of Redis's time that one reap may take"
    )
    lease_ms: int = Field(
        3000, ge=1, description="milliseconds for which one proxy of several does the reaping"
    )
    hold_max: Seconds = Field(
        5.0, description="seconds a request waits for a reap before its client is closed"
    )
    drain_min: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="seconds that new clients are served after SIGTERM, no longer being ready"
    )
    drain_max: Seconds = Field(
        30.0, description="seconds that what is in flight may take to finish at shutdown"
    )
    connect_timeout: Seconds = Field(5.0, description="seconds that connecting to Redis may take")
    max_request_bytes: int = Field(
        2**30,
        ge=1,
        description="bytes of a request that has to be read whole, as one on a key with deadlines",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least that is logged"
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="how log lines look; json: an object a line, nothing on standard output"
    )
    event_loop: Annotated[Literal["auto", "uvloop", "asyncio"], AfterValidator(_installed)] = Field(
        "auto", description="auto is uvloop where it is installed"
    )

    @field_validator("upstream")
    @classmethod
    def _complete(cls, upstream: Upstream | None, info: ValidationInfo) -> Upstream | None:
        """The upstream with its user, password and CA, wherever they were given."""
        user, password, from_file, ca = (info.data.get(name) for name in _PARTS)
        if upstream is None:
            if user or password or from_file or ca:
                raise ValueError("is not set, though a user, password or CA for it is")
            return None
        users = [name for name in (upstream.user, user) if name]
        passwords = [word.get_secret_value() for word in (password, from_file) if word]
        if upstream.password:
            passwords.append(upstream.password)
        if len(users) > 1:
            raise ValueError("its user is given in the URL and by upstream_user: once is enough")
        if len(passwords) > 1:
            raise ValueError(
                "its password is given more than once, of: the URL, upstream_password,"
                " upstream_password_file"
            )
        if users and not passwords and info.data.keys() >= {*_PARTS}:
            raise ValueError(
                "its user has no password (a URL with a password alone is redis://:password@host)"
            )
        if ca and not upstream.tls:
            raise ValueError("upstream_tls_ca is for a rediss:// URL only")
        return replace(
            upstream,
            user=next(iter(users), None),
            password=next(iter(passwords), None),
            tls_ca=ca or upstream.tls_ca,
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The arguments alone: `ttlproxy.cli` puts file, environment and flags in their order."""
        return (init_settings,)
