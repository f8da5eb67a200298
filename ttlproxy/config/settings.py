"""The settings, each declared once. Reads no flag and no environment.

Each field is a flag (`--reap-batch`), an environment variable (`TTLPROXY_REAP_BATCH`), a key of the
settings file (`reap_batch`) and a line of --help, which shows its description.
`ttlproxy.cli.main` reads those. No error of this module repeats text that may contain a password.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from ttlproxy.addresses import Listen, SecretFile, Upstream
from ttlproxy.config.checks import CHECKS, ports_after
from ttlproxy.config.setting import (
    EVENT_LOOP,
    FOLDER,
    PATH,
    PERMISSIONS,
    PREFIX,
    SECONDS_OR_NONE,
    Setting,
    setting,
    settings_of,
    state_dir,
    whole,
)
from ttlproxy.core.limits import REAP_BATCH_MAX


class InvalidSettingsError(ValueError):
    """problems: the names of settings, each with its problem"""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in problems))
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings. `read` makes them from text, and checks them.

    given: the names of those that were set
    """

    given: frozenset[str] = frozenset()

    listen: Listen = setting(
        Listen("127.0.0.1", 6380),
        "address for clients: host:port, [v6]:port or unix:///path; port 0 is any free port",
    )
    cluster_view: Literal["one", "nodes"] = setting(
        "one",
        "what clients of a Cluster find: one node, the proxy; or nodes, each master at"
        " a port of its own, from the one after that of listen on",
    )
    cluster_ports: int | None = setting(
        None,
        "how many ports the nodes have, 3 unless set; more masters than ports share them",
        kind=whole(1, 1000),
    )
    cluster_announce: Listen | None = setting(
        None,
        "host:port that clients of a Cluster reach listen at, where they cannot use the"
        " address that they have connected to; further nodes have the ports after it",
    )
    cluster_split: Literal["yes", "no"] = setting(
        "yes",
        "whether MGET, MSET, DEL, UNLINK, EXISTS and TOUCH may name keys of several"
        " slots of a Cluster: a request for each slot, not atomic; no: CROSSSLOT, as from Redis",
    )
    workers: int = setting(
        1, "processes that share the clients; at most one per core is useful", kind=whole(1, 256)
    )
    admin: Listen | None = setting(
        None,
        "address for probes, metrics and pages over HTTP, in the form of listen; off"
        " unless set; only operators should be able to reach it",
    )
    quit_token_file: SecretFile | None = setting(
        None,
        "a file with the token for POST /quitquitquit at admin; without it, that"
        " works only over a unix socket",
    )
    inspector: Literal["loopback", "yes", "no"] = setting(
        "loopback",
        "whether the status page shows the elements of any key, names of keys and"
        " clients' addresses to everybody who can reach it; loopback: only if nothing but this"
        " machine can reach admin",
    )
    inspector_values: Literal["no", "yes"] = setting(
        "no",
        "whether the status page also shows, where it shows elements, the first 256 bytes of"
        " the values of hash fields, and scores",
    )
    max_clients: int = setting(
        10_000,
        "clients connected at a time; more are refused, as with Redis's maxclients",
        kind=whole(1),
    )
    max_redis_connections: int = setting(
        0,
        "connections of clients to each master of a Cluster, over all workers; a client"
        " that needs one more gets that of another who does not use it now, or waits; 0: one for"
        " each client",
        kind=whole(0),
        at_once=True,
    )
    share_upstream: int = setting(
        0,
        "connections to Redis, or to each master, of each process, that clients share"
        " until they need one of their own; 0: each client has its own",
        kind=whole(0, 64),
    )
    timeout: int = setting(
        0, "seconds after which an idle client is closed, as in Redis; 0: never", kind=whole(0)
    )
    stall_timeout: int = setting(
        300,
        "seconds for which a client may leave replies unread before it is closed; 0: no limit",
        kind=whole(0),
        at_once=True,
    )
    max_buffer_bytes: int = setting(
        2**30,
        "bytes that one process buffers for all its clients; beyond that the client"
        " with the most is closed; 0: no limit",
        kind=whole(0),
        at_once=True,
    )
    tcp_keepalive: int = setting(
        300, "seconds without traffic before TCP keepalive probes are sent; 0: never", kind=whole(0)
    )
    protected_mode: Literal["yes", "no"] = setting(
        "yes",
        "yes: while Redis asks for no password, only clients on this machine are"
        " served, unless tls_auth_clients is yes; no: all clients that can reach listen",
        at_once=True,
    )
    proxy_protocol: Literal["no", "yes"] = setting(
        "no", "whether each client's connection must begin with a PROXY header, v1 or v2"
    )
    unix_socket_perm: str | None = setting(
        None, "permissions of the unix socket for clients, in octal, such as 770", kind=PERMISSIONS
    )
    tls_cert: Path | None = setting(
        None, "a file with the certificate shown to clients; with it all clients must use TLS"
    )
    tls_key: Path | None = setting(
        None, "a file with its private key, if the certificate's file does not contain it"
    )
    tls_ca: Path | None = setting(
        None, "a file with the CA certificates that client certificates are checked against"
    )
    tls_auth_clients: Literal["no", "optional", "yes"] = setting(
        "no", "whether clients must show a certificate"
    )
    tls_names: Path | None = setting(
        None,
        "a directory with certificates for other server names: NAME.crt and NAME.key, "
        "_.example.org.crt for all names under example.org",
        kind=FOLDER,
    )
    # These are merged into `upstream`, so they must be declared before it.
    upstream_user: str | None = setting(None, "the proxy's own ACL user at Redis")
    upstream_user_file: SecretFile | None = setting(None, "a file with that user's name")
    upstream_password: str | None = setting(
        None,
        "that user's password; as a flag it is visible in the list of processes",
        is_secret=True,
    )
    upstream_password_file: SecretFile | None = setting(
        None, "a file with that password; it is read again for each connection"
    )
    upstream_tls_ca: Path | None = setting(
        None,
        "a file with the CA certificates that Redis's certificate is checked"
        " against, for rediss://",
    )
    upstream_tls_cert: Path | None = setting(None, "a file with a certificate to show to Redis")
    upstream_tls_key: Path | None = setting(
        None, "a file with its private key, if the certificate's file does not contain it"
    )
    upstream_tls_server_name: str | None = setting(
        None, "the host name in Redis's certificate, if it is not that of the URL"
    )
    sentinel_user: str | None = setting(None, "the proxy's own user at the Sentinels")
    sentinel_user_file: SecretFile | None = setting(None, "a file with that user's name")
    sentinel_password: str | None = setting(
        None, "its password; as a flag it shows in the list of processes", is_secret=True
    )
    sentinel_password_file: SecretFile | None = setting(
        None, "a file with that password, read again at each connection"
    )
    sentinel_tls: Literal["yes", "no"] | None = setting(
        None,
        "whether the Sentinels use TLS, if it is not as the URL says: a"
        " rediss-sentinel:// URL means TLS to the Sentinels and to Redis",
    )
    sentinel_tls_ca: Path | None = setting(
        None,
        "a file with the CA certificates that the Sentinels' certificates are checked"
        " against, if not that of upstream_tls_ca",
    )
    sentinel_tls_cert: Path | None = setting(
        None, "a file with a certificate to show to the Sentinels, if not that of upstream_tls_cert"
    )
    sentinel_tls_key: Path | None = setting(
        None, "a file with its private key, if the certificate's file does not contain it"
    )
    sentinel_tls_server_name: str | None = setting(
        None,
        "the host name in the Sentinels' certificates, if it is neither that of the"
        " URL nor upstream_tls_server_name",
    )
    upstream: Upstream | None = setting(
        None,
        "URL of the Redis behind the proxy: redis://, rediss:// or unix://, if needed"
        " with user:password@, or redis-sentinel://HOST,HOST#NAME; without it an embedded Redis is"
        " started",
    )
    embedded: Literal["one", "cluster"] = setting(
        "one",
        "the embedded Redis: one server, or a Cluster of three masters and three"
        " replicas to try out, on free ports of 127.0.0.1",
    )
    data_dir: Path = setting(state_dir, "directory for the data of the embedded Redis", kind=PATH)
    prefix: str = setting(
        "__ttl:", "how the names of the proxy's own keys in Redis begin", kind=PREFIX
    )
    signing_key_file: SecretFile | None = setting(
        None,
        "a file with the key that signs deferred commands and rules, the same for all"
        " proxies; without it the proxies store one in Redis",
    )
    show_internal_keys: Literal["no", "yes"] = setting(
        "no", "whether clients may see and use the proxy's own keys, for debugging"
    )
    reap_batch: int = setting(
        1000, "elements that one reap may remove", kind=whole(1, REAP_BATCH_MAX)
    )
    reap_budget_ms: int = setting(
        5, "milliseconds that one reap may take in Redis", kind=whole(1), at_once=True
    )
    lease_ms: int = setting(
        1500,
        "milliseconds that the reaper's lease lasts: after this time another proxy"
        " may take over from one that fails",
        kind=whole(1),
        at_once=True,
    )
    hold_max: float = setting(
        5.0, "seconds that a request may wait for a reap before its client is closed", at_once=True
    )
    drain_min: float = setting(
        0.0,
        "seconds after SIGTERM in which new clients are still served, while /readyz fails already",
        kind=SECONDS_OR_NONE,
        at_once=True,
    )
    drain_max: float = setting(
        30.0, "seconds that requests in flight may take to finish at shutdown", at_once=True
    )
    connect_timeout: float = setting(5.0, "seconds that connecting to Redis may take", at_once=True)
    max_request_bytes: int = setting(
        2**30,
        "largest request, in bytes, that the proxy reads as a whole, such as one on a"
        " key with deadlines",
        kind=whole(1),
        at_once=True,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "the lowest level that is logged", at_once=True
    )
    log_format: Literal["text", "json"] = setting(
        "text", "format of log lines; json: one object per line, and no greeting on standard output"
    )
    event_loop: str = setting(
        "auto", "auto: uvloop if it is installed, else asyncio", kind=EVENT_LOOP
    )

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Self:
        """Returns the settings from values by name, mostly text. Raises InvalidSettingsError with
        all problems; TypeError for a name that is no setting."""
        if unknown := given.keys() - SETTINGS.keys():
            raise TypeError(f"no settings: {', '.join(sorted(unknown))}")
        valid: dict[str, Any] = {}
        problems: list[tuple[str, str]] = []
        for name, each in SETTINGS.items():
            try:
                value = each.value(given)
                valid[name] = CHECKS[name](value, valid) if name in CHECKS else value
            except ValueError as error:
                problems.append((name, str(error)))
        if problems:
            raise InvalidSettingsError(problems)
        return cls(**valid, given=frozenset(given))

    @property
    def node_ports(self) -> int:
        """The number of ports of the nodes that clients of a Cluster find; 0 if it is one node."""
        return len(self.addresses) - 1

    @property
    def is_open_to_other_machines(self) -> bool:
        """Whether a client of another machine can connect without a certificate."""
        is_open = not all(address.is_loopback for address in self.addresses)
        is_open = is_open or self.proxy_protocol == "yes"
        return is_open and self.tls_auth_clients != "yes"

    @property
    def may_replace_lines(self) -> bool:
        """Whether a line on a terminal may be replaced by the next one: only one process writes
        there, for people."""
        return self.log_format == "text" and self.workers == 1

    @property
    def addresses(self) -> list[Listen]:
        """The addresses where clients connect: `listen`, and those of the nodes."""
        if self.cluster_view == "one":
            return [self.listen]
        nodes = ports_after(self.listen, self.cluster_ports)
        return [self.listen, *(Listen(self.listen.host, port) for port in nodes)]


SETTINGS: Final[Mapping[str, Setting]] = settings_of(Settings)
