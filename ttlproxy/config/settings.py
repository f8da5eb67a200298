"""The settings, each declared once. Reads no flag and no environment.

Each field is a flag (`--reap-batch`), an environment variable (`TTLPROXY_REAP_BATCH`), a key of the
settings file (`reap_batch`) and a line of --help, which shows its description.
`ttlproxy.cli.main` reads those. No error of this module repeats text that may contain a password.
"""

from pathlib import Path
from typing import Literal

from pydantic import (
    Field,
    JsonValue,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from ttlproxy.addresses import Listen, Upstream
from ttlproxy.config.cluster_ports import ports_after
from ttlproxy.config.upstream_parts import completed
from ttlproxy.config.values import (
    DataDir,
    EventLoop,
    Folder,
    ListenAddress,
    OptionalListen,
    OptionalUpstream,
    Permissions,
    Prefix,
    ReadableFile,
    Seconds,
    SecondsOrZero,
    Secret,
    state_dir,
)

# Lua's unpack fails at 8,000 values ("too many results to unpack": LUAI_MAXCSTACK in luaconf.h).
UNPACK_MAX = 7000


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

    listen: ListenAddress = Field(
        Listen("127.0.0.1", 6380),
        description="address for clients: host:port, [v6]:port or unix:///path; port 0 is any"
        " free port",
    )
    cluster_view: Literal["one", "nodes"] = Field(
        "one",
        description="what clients of a Cluster find: one node, the proxy; or nodes, each master at"
        " a port of its own, from the one after that of listen on",
    )
    cluster_ports: int | None = Field(
        None,
        ge=1,
        le=1000,
        validate_default=True,
        description="how many ports the nodes have, 3 unless set; more masters than ports share"
        " them",
    )
    cluster_announce: OptionalListen = Field(
        None,
        description="host:port that clients of a Cluster reach listen at, where they cannot use the"
        " address that they have connected to; further nodes have the ports after it",
    )
    cluster_split: Literal["yes", "no"] = Field(
        "yes",
        description="whether MGET, MSET, DEL, UNLINK, EXISTS and TOUCH may name keys of several"
        " slots of a Cluster: a request for each slot, not atomic; no: CROSSSLOT, as from Redis",
    )
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="processes that share the clients; at most one per core is useful",
    )
    admin: OptionalListen = Field(
        None,
        description="address for probes, metrics and pages over HTTP, in the form of listen; off"
        " unless set; only operators should be able to reach it",
    )
    quit_token_file: Secret | None = Field(
        None,
        description="a file with the token for POST /quitquitquit at admin; without it, that"
        " works only over a unix socket",
    )
    inspector: Literal["loopback", "yes", "no"] = Field(
        "loopback",
        description="whether the status page shows the elements of any key, names of keys and"
        " clients' addresses to everybody who can reach it; loopback: only if nothing but this"
        " machine can reach admin",
    )
    max_clients: int = Field(
        10_000,
        ge=1,
        description="clients connected at a time; more are refused, as with Redis's maxclients",
    )
    max_redis_connections: int = Field(
        0,
        ge=0,
        description="connections of clients to each master of a Cluster, over all workers; a client"
        " that needs one more gets that of another who does not use it now, or waits; 0: one for"
        " each client",
        json_schema_extra=_AT_ONCE,
    )
    share_upstream: int = Field(
        0,
        ge=0,
        le=64,
        description="connections to Redis, or to each master, of each process, that clients share"
        " until they need one of their own; 0: each client has its own",
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
    protected_mode: Literal["yes", "no"] = Field(
        "yes",
        description="yes: while Redis asks for no password, only clients on this machine are"
        " served, unless tls_auth_clients is yes; no: all clients that can reach listen",
        json_schema_extra=_AT_ONCE,
    )
    proxy_protocol: Literal["no", "yes"] = Field(
        "no",
        description="whether each client's connection must begin with a PROXY header, v1 or v2",
    )
    unix_socket_perm: Permissions | None = Field(
        None, description="permissions of the unix socket for clients, in octal, such as 770"
    )
    tls_cert: ReadableFile | None = Field(
        None,
        description="a file with the certificate shown to clients; with it all clients must"
        " use TLS",
    )
    tls_key: ReadableFile | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    tls_ca: ReadableFile | None = Field(
        None,
        description="a file with the CA certificates that client certificates are checked against",
    )
    tls_auth_clients: Literal["no", "optional", "yes"] = Field(
        "no", validate_default=True, description="whether clients must show a certificate"
    )
    tls_names: Folder | None = Field(
        None,
        description="a directory with certificates for other server names: NAME.crt and NAME.key, "
        "_.example.org.crt for all names under example.org",
    )
    # These are merged into `upstream`, so they must be declared before it.
    upstream_user: str | None = Field(None, description="the proxy's own ACL user at Redis")
    upstream_user_file: Secret | None = Field(None, description="a file with that user's name")
    upstream_password: SecretStr | None = Field(
        None, description="that user's password; as a flag it is visible in the list of processes"
    )
    upstream_password_file: Secret | None = Field(
        None, description="a file with that password; it is read again for each connection"
    )
    upstream_tls_ca: ReadableFile | None = Field(
        None,
        description="a file with the CA certificates that Redis's certificate is checked"
        " against, for rediss://",
    )
    upstream_tls_cert: ReadableFile | None = Field(
        None, description="a file with a certificate to show to Redis"
    )
    upstream_tls_key: ReadableFile | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    upstream_tls_server_name: str | None = Field(
        None, description="the host name in Redis's certificate, if it is not that of the URL"
    )
    sentinel_user: str | None = Field(None, description="the proxy's own user at the Sentinels")
    sentinel_user_file: Secret | None = Field(None, description="a file with that user's name")
    sentinel_password: SecretStr | None = Field(
        None, description="its password; as a flag it shows in the list of processes"
    )
    sentinel_password_file: Secret | None = Field(
        None, description="a file with that password, read again at each connection"
    )
    sentinel_tls: Literal["yes", "no"] | None = Field(
        None,
        description="whether the Sentinels use TLS, if it is not as the URL says: a"
        " rediss-sentinel:// URL means TLS to the Sentinels and to Redis",
    )
    sentinel_tls_ca: ReadableFile | None = Field(
        None,
        description="a file with the CA certificates that the Sentinels' certificates are checked"
        " against, if not that of upstream_tls_ca",
    )
    sentinel_tls_cert: ReadableFile | None = Field(
        None,
        description="a file with a certificate to show to the Sentinels, if not that of"
        " upstream_tls_cert",
    )
    sentinel_tls_key: ReadableFile | None = Field(
        None,
        description="a file with its private key, if the certificate's file does not contain it",
    )
    sentinel_tls_server_name: str | None = Field(
        None,
        description="the host name in the Sentinels' certificates, if it is neither that of the"
        " URL nor upstream_tls_server_name",
    )
    upstream: OptionalUpstream = Field(
        None,
        description="URL of the Redis behind the proxy: redis://, rediss:// or unix://, if needed"
        " with user:password@, or redis-sentinel://HOST,HOST#NAME; without it an embedded Redis is"
        " started",
    )
    embedded: Literal["one", "cluster"] = Field(
        "one",
        description="the embedded Redis: one server, or a Cluster of three masters and three"
        " replicas to try out, on free ports of 127.0.0.1",
    )
    data_dir: DataDir = Field(
        default_factory=state_dir, description="directory for the data of the embedded Redis"
    )
    prefix: Prefix = Field(
        "__ttl:", description="how the names of the proxy's own keys in Redis begin"
    )
    signing_key_file: Secret | None = Field(
        None,
        description="a file with the key that signs deferred commands and rules, the same for all"
        " proxies; without it the proxies store one in Redis",
    )
    knowledge: Literal["auto", "broadcast", "on-demand"] = Field(
        "auto",
        description="whether the proxy hears of each managed key (broadcast), or looks up the keys"
        " that its own clients name (on-demand); with auto the first few proxies of a Redis hear of"
        " all, and further ones look up, or all of several if Redis has io-threads; in front of a"
        " Cluster all hear of all",
    )
    knowledge_bytes: int = Field(
        64 * 2**20,
        ge=2**16,
        description="about how many bytes the keys that were looked up may take",
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
        1500,
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
    drain_min: SecondsOrZero = Field(
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
    event_loop: EventLoop = Field(
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

    @field_validator("cluster_view")
    @classmethod
    def _with_port(cls, view: str, info: ValidationInfo) -> str:
        listen = info.data.get("listen")
        if view == "nodes" and listen is not None and not listen.port:
            raise ValueError("nodes needs host:port in listen, with a port other than 0")
        return view

    @field_validator("cluster_ports")
    @classmethod
    def _after_listen(cls, count: int | None, info: ValidationInfo) -> int | None:
        view, listen = info.data.get("cluster_view"), info.data.get("listen")
        if view == "one" and count is not None:
            raise ValueError("needs cluster_view nodes")
        if view == "nodes" and listen is not None:
            ports_after(listen, count)
        return count

    @field_validator("cluster_announce")
    @classmethod
    def _reachable(cls, announced: Listen | None, info: ValidationInfo) -> Listen | None:
        if announced is not None and not announced.port:
            raise ValueError("must be host:port, with a port that clients can reach")
        if announced is not None and info.data.get("cluster_view") == "nodes":
            ports_after(announced, info.data.get("cluster_ports"))
        return announced

    @field_validator("admin")
    @classmethod
    def _elsewhere(cls, admin: Listen | None, info: ValidationInfo) -> Listen | None:
        listen = info.data.get("listen")
        if admin is not None and listen is not None and info.data.get("cluster_view") == "nodes":
            nodes = ports_after(listen, info.data.get("cluster_ports"))
            if admin.port in nodes:
                raise ValueError(f"cluster_view nodes takes the ports {nodes[0]} to {nodes[-1]}")
        return admin

    @field_validator("upstream")
    @classmethod
    def _complete(cls, upstream: Upstream | None, info: ValidationInfo) -> Upstream | None:
        """The upstream, with user, password and TLS from the other settings."""
        return completed(upstream, info.data)

    @property
    def node_ports(self) -> int:
        """How many ports the nodes have that clients of a Cluster find; 0 if it is one node."""
        return len(self.addresses) - 1

    @property
    def is_open_to_other_machines(self) -> bool:
        """Whether a client of another machine can get here without a certificate."""
        is_open = not all(address.is_loopback for address in self.addresses)
        is_open = is_open or self.proxy_protocol == "yes"
        return is_open and self.tls_auth_clients != "yes"

    @property
    def may_replace_lines(self) -> bool:
        """Whether a terminal may have a line that the next one replaces: only one process writes
        there, and for people."""
        return self.log_format == "text" and self.workers == 1

    @property
    def addresses(self) -> list[Listen]:
        """Where clients connect: `listen`, and where the nodes are."""
        if self.cluster_view == "one":
            return [self.listen]
        nodes = ports_after(self.listen, self.cluster_ports)
        return [self.listen, *(Listen(self.listen.host, port) for port in nodes)]

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
