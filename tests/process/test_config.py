"""The values of settings, the ways to give them, and that no password is shown."""

from pathlib import Path

import pytest

from ttlproxy.addresses import Address, Listen, Sentinels, Upstream
from ttlproxy.cli.main import load, main
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.errors import SettingsError

SECRET = "geheim"


def problems(*argv: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(argv)
    return caught.value.problems


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(f"TTLPROXY_{name.upper()}", raising=False)
    monkeypatch.delenv("TTLPROXY_CONFIG", raising=False)


@pytest.mark.parametrize("text", ["h:0", "unix:///run/proxy.sock", "h"])
def test_what_cluster_clients_are_told_must_be_an_address(text: str) -> None:
    assert "--cluster-announce" in problems("--cluster-announce", text)[0]


@pytest.mark.parametrize(
    ("flag", "words", "text"),
    [
        ("--cluster-view", "--listen 127.0.0.1:0 --cluster-view nodes", "a port other than 0"),
        ("--cluster-view", "--listen unix:///run/s --cluster-view nodes", "needs host:port"),
        ("--cluster-ports", "--cluster-ports 3", "needs cluster_view nodes"),
        ("--cluster-ports", "--cluster-view nodes --listen h:65533", "no 3 ports after 65533"),
        ("--cluster-ports", "--cluster-view nodes --cluster-ports 0", "from 1 to 1000"),
        ("--cluster-announce", "--cluster-view nodes --cluster-announce h:65535", "no 3 ports"),
        ("--admin", "--cluster-view nodes --admin 127.0.0.1:6383", "the ports 6381 to 6383"),
    ],
)
def test_the_nodes_of_a_cluster_need_ports_of_their_own(flag: str, words: str, text: str) -> None:
    [problem] = problems(*words.split())
    assert problem.startswith(f"{flag}: ")
    assert text in problem


def test_not_too_many_connections_are_shared() -> None:
    [problem] = problems("--share-upstream", "65")
    assert problem.startswith("--share-upstream: ")


def test_the_nodes_of_a_cluster_have_the_ports_after_listen() -> None:
    words = ["--listen", "[::1]:7000", "--cluster-view", "nodes", "--cluster-ports", "2"]
    assert load(words).addresses == [Listen("::1", port) for port in (7000, 7001, 7002)]
    assert load(["--admin", "h:6381"]).addresses == [Listen("127.0.0.1", 6380)]


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:6380", Listen("127.0.0.1", 6380)),
        ("localhost:0", Listen("localhost", 0)),
        ("[::1]:6380", Listen("::1", 6380)),
        ("unix:///run/ttl%20proxy.sock", Listen(path="/run/ttl proxy.sock")),
    ],
)
def test_an_address_to_listen_on_is_read_and_written_alike(text: str, listen: Listen) -> None:
    assert Listen.parse(text) == listen
    assert str(listen) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "6380",
        ":6380",
        "::1:6380",
        "[]:1",
        "h:",
        "h:-1",
        "h:65536",
        "h:x",
        "unix://",
        "unix://a",
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unix:///path"):
        Listen.parse(text)


@pytest.mark.parametrize(
    ("flag", "value", "hint"),
    [
        ("--listen", "6380", "127.0.0.1:6380"),
        ("--listen", ":6380", "0.0.0.0:6380"),
        ("--admin", "h:99999", "the highest port is 65535"),
        ("--upstream", f"redis://u:{SECRET}@h:99999", "a port above 65535"),
    ],
)
def test_a_port_alone_or_one_that_is_too_high_gets_a_hint(flag: str, value: str, hint: str) -> None:
    [problem] = problems(flag, value)
    assert hint in problem
    assert SECRET not in problem


def test_a_file_with_values_of_other_types_gets_errors_for_people(tmp_path: Path) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text(
        "listen = 6380\nadmin = true\nquit_token_file = 3\nupstream = 6379\nreap_bach = 4"
    )
    found = problems("--config", str(file))
    assert [each.partition(" in ")[0] for each in found] == [
        "reap_bach",
        "listen",
        "admin",
        "quit_token_file",
        "upstream",
    ]
    assert "did you mean reap_batch?" in found[0]
    assert "127.0.0.1:6380" in found[1]
    for each in found[2:]:
        assert each.endswith(": must be text, in quotation marks")


@pytest.mark.parametrize(
    ("line", "is_hint"),
    [("listen = 127.0.0.1:6380", True), ('listen = "127.0.0.1:6380', False), ("listen =", False)],
)
def test_a_value_without_quotation_marks_gets_a_hint(
    line: str, is_hint: bool, tmp_path: Path
) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text(f"workers = 2\n{line}\n")
    [problem] = problems("--config", str(file))
    assert problem.endswith("; text must be in quotation marks") is is_hint


_S = (Address("s", 26379),)


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("redis://h", Upstream("h")),
        ("redis://h:1/0", Upstream("h", 1)),
        ("redis://[::1]:1/", Upstream("::1", 1)),
        ("redis://:p%40w@h", Upstream("h", password="p@w")),
        ("rediss://u%3A:p@h", Upstream("h", tls=True, user="u:", password="p")),
        (
            "redis://a:1,b,[::1]",
            Upstream("a", 1, others=(Address("b", 6379), Address("::1", 6379))),
        ),
        (
            "redis-sentinel://:p@S1,[::1]:7/0#my%20master",
            Upstream(
                port=0,
                password="p",
                sentinels=Sentinels((Address("s1", 26379), Address("::1", 7)), "my master"),
            ),
        ),
        (
            "rediss-sentinel://s#m",
            Upstream(port=0, tls=True, sentinels=Sentinels(_S, "m", tls=True)),
        ),
        ("unix:///run/a%20b.sock", Upstream(path="/run/a b.sock")),
        ("unix://u:p@/run/redis.sock", Upstream(path="/run/redis.sock", user="u", password="p")),
    ],
)
def test_an_upstream_url_is_read_as_it_is_meant(url: str, upstream: Upstream) -> None:
    assert Upstream.parse(url) == upstream


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:6379",
        "http://h",
        "redis://",
        "redis://h:0",
        "redis://h:65536",
        "redis://h/1",
        "redis://h?db=1",
        "unix://run/redis.sock",
        "unix://",
        "redis://a,",
        "redis://a,:1",
        "redis://a#m",
        "redis://a,redis-sentinel://b#m",
        "redis-sentinel://a",
        "redis-sentinel://a#",
        "redis-sentinel://a/1#m",
        "redis-sentinel://#m",
        f"redis-sentinel://u:{SECRET}@a",
        f"redis://u:{SECRET}/@h",
        f"redis://u:1/{SECRET}@h",
        f"redis://u:{SECRET}#@h",
        f"redis://u:{SECRET}@[h",
        f"redis://u:{SECRET}@h/1",
        f"{SECRET}://u:p@h",
    ],
)
def test_an_upstream_url_that_is_wrong_is_refused_without_being_repeated(url: str) -> None:
    [problem] = problems("--upstream", url)
    assert problem.startswith("--upstream: ")
    assert SECRET not in problem


def test_options_of_a_url_are_flags() -> None:
    [problem] = problems("--upstream", f"rediss://h?ssl_cert_reqs=none&db=2&{SECRET}={SECRET}")
    assert "ssl_cert_reqs: certificates are always checked, see --upstream-tls-ca" in problem
    assert "db: clients choose their database with SELECT" in problem
    assert SECRET not in problem
    [problem] = problems("--upstream", "redis://h?quux=1")
    assert "options are flags here" in problem


def test_a_unix_socket_has_no_longer_path_than_the_system_allows() -> None:
    for flag in ("--upstream", "--listen"):
        [problem] = problems(flag, f"unix:///{'x' * 107}")
        assert problem == f"{flag}: the path of a unix socket has at most 107 bytes"
    assert load(["--listen", f"unix:///{'x' * 103}"]).listen.path == f"/{'x' * 103}"


def test_clients_and_pages_have_different_addresses() -> None:
    [problem] = problems("--listen", "127.0.0.1:1", "--admin", "127.0.0.1:1")
    assert problem == "--admin: listen has this address: choose another"
    assert load(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).admin


def test_the_url_of_sentinels_says_what_it_lacks() -> None:
    [problem] = problems("--upstream", "redis-sentinel://s1,s2")
    assert "name of the master" in problem
    [problem] = problems("--upstream", "redis://a,redis-sentinel://b#m")
    assert "of one kind" in problem


def test_the_sentinels_have_credentials_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    url = "redis-sentinel://app:p@s1,s2:5#my master"
    flags = ["--sentinel-user", "asker", "--sentinel-password-file", str(file)]
    upstream = load(["--upstream", url, *flags]).upstream
    assert upstream is not None
    assert upstream.shown == "redis-sentinel://app@s1:26379,s2:5/0#my%20master"
    assert upstream.at_sentinel(Address("s1", 1)).credentials() == ("asker", SECRET)
    assert upstream.at(Address("h", 2)).credentials() == ("app", "p")
    assert SECRET not in repr(upstream)


def test_the_sentinels_have_the_tls_of_the_servers_or_their_own(tmp_path: Path) -> None:
    names = ("ca", "cert", "key", "own-ca", "own-cert")
    ca, cert, key, own_ca, own_cert = files = [tmp_path / name for name in names]
    for file in files:
        file.touch()
    common = ["--upstream", "rediss-sentinel://s#m", "--upstream-tls-ca", str(ca)]
    common += ["--upstream-tls-cert", str(cert), "--upstream-tls-key", str(key)]

    def sentinel(*more: str) -> Upstream:
        upstream = load([*common, *more]).upstream
        assert upstream is not None
        redis = upstream.at(Address("h", 1))
        assert (redis.tls, redis.tls_ca, redis.tls_cert) == (True, ca, cert)
        return upstream.at_sentinel(Address("s", 1))

    same = sentinel()
    assert (same.tls, same.tls_ca, same.tls_cert, same.tls_key) == (True, ca, cert, key)
    assert same.server_name == "s"
    flags = ["--sentinel-tls-ca", str(own_ca), "--sentinel-tls-cert", str(own_cert)]
    own = sentinel(*flags, "--sentinel-tls-server-name", "n")
    assert (own.tls_ca, own.tls_cert, own.tls_key) == (own_ca, own_cert, None)
    assert own.server_name == "n"
    assert not sentinel("--sentinel-tls", "no").tls


def test_another_database_than_0_is_refused_with_the_way_to_choose_one() -> None:
    [problem] = problems("--upstream", "redis://h/5")
    assert "SELECT" in problem


def test_a_password_shows_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(["--upstream", f"redis://app:{SECRET}@h"])
    assert settings.upstream is not None
    assert settings.upstream.password == SECRET
    assert settings.upstream.shown == "redis://app@h:6379"

    monkeypatch.setenv("TTLPROXY_UPSTREAM_PASSWORD", SECRET)
    by_environment = load(["--upstream", "redis://h"])
    assert by_environment.upstream == Upstream("h", password=SECRET)
    for shown in (settings, by_environment, settings.upstream):
        assert SECRET not in f"{shown} {shown!r}"


def test_a_password_file_loses_its_trailing_newline_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f" {SECRET} \n")
    settings = load(["--upstream", "redis://app@h", "--upstream-password-file", str(file)])
    assert settings.upstream
    assert settings.upstream.credentials() == ("app", f" {SECRET} ")


def test_a_password_file_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.write_text("\n")
    binary.write_bytes(b"\xff")
    for path in (empty, binary, tmp_path / "absent", tmp_path):
        [problem] = problems("--upstream", "redis://h", "--upstream-password-file", str(path))
        assert problem.startswith("--upstream-password-file: ")


@pytest.mark.parametrize(
    "argv",
    [
        ["--upstream", "redis://u:p@h", "--upstream-user", "u"],
        ["--upstream", "redis://:p@h", "--upstream-password", "p"],
        ["--upstream", "redis://h", "--upstream-password", "p", "--upstream-password-file", "FILE"],
        ["--upstream", "redis://u@h"],
        ["--upstream", "redis://h", "--upstream-user", "u"],
        ["--upstream", "redis://h", "--upstream-tls-ca", "FILE"],
        ["--upstream", "redis-sentinel://s#m", "--sentinel-user", "u"],
        ["--upstream", "redis://h", "--sentinel-password", "p"],
        ["--upstream", "redis-sentinel://s#m", "--upstream-tls-ca", "FILE"],
        ["--upstream", "redis-sentinel://s#m", "--sentinel-tls-ca", "FILE"],
        [
            "--upstream",
            "rediss-sentinel://s#m",
            "--sentinel-tls",
            "no",
            "--sentinel-tls-ca",
            "FILE",
        ],
        ["--upstream", "rediss-sentinel://s#m", "--sentinel-tls-key", "FILE"],
        ["--upstream", "rediss://h", "--sentinel-tls", "yes"],
        ["--sentinel-password", "p"],
        ["--upstream-user", "u"],
        ["--upstream-password", "p"],
        ["--upstream-tls-ca", "FILE"],
    ],
)
def test_what_is_given_twice_or_in_vain_is_a_problem(argv: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    [problem] = problems(*(str(file) if word == "FILE" else word for word in argv))
    assert problem.startswith("--upstream: ")


def test_a_ca_goes_with_a_tls_upstream(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    settings = load(["--upstream", "rediss://h", "--upstream-tls-ca", str(ca)])
    assert settings.upstream == Upstream("h", tls=True, tls_ca=ca)


def test_flags_beat_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text("reap_batch = 1\nlease_ms = 1\nhold_max = 1.5\n")
    monkeypatch.setenv("TTLPROXY_CONFIG", str(file))
    monkeypatch.setenv("TTLPROXY_REAP_BATCH", "2")
    monkeypatch.setenv("TTLPROXY_LEASE_MS", "2")
    settings = load(["--reap-batch", "3"])
    assert (settings.reap_batch, settings.lease_ms, settings.hold_max) == (3, 2, 1.5)


def test_a_flag_names_another_file_than_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text('listen = "[::1]:1"\n')
    monkeypatch.setenv("TTLPROXY_CONFIG", str(tmp_path / "absent"))
    assert load(["--config", str(file)]).listen == Listen("::1", 1)


def test_each_problem_is_listed_and_says_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text('reap_bacth = 1\n_env_file = "x"\nprefix = "a b"\nhold_max = 0\n')
    monkeypatch.setenv("TTLPROXY_LEASE_MS", "soon")
    found = problems("--config", str(file), "--reap-batch", "7001", "--listne=x", "--log-level", "")
    assert [problem.partition(":")[0] for problem in found] == [
        "--listne",
        f"_env_file in {file}",
        f"reap_bacth in {file}",
        f"prefix in {file}",
        "--reap-batch",
        "TTLPROXY_LEASE_MS",
        f"hold_max in {file}",
        "--log-level",
    ]


@pytest.mark.parametrize("content", [b"listen = \n", b"\xff", None])
def test_a_settings_file_that_cannot_be_read_does_not_hide_other_problems(
    content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "ttlproxy.toml"
    if content is not None:
        file.write_bytes(content)
    of_file, of_flag = problems("--config", str(file), "--reap-batch", "0")
    assert of_file.startswith(f"{file}: ")
    assert of_flag.startswith("--reap-batch: ")


@pytest.mark.parametrize("words", [["redis://h"], ["--listen", "127.0.0.1:1", "redis://h"]])
def test_a_url_alone_is_the_upstream(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTLPROXY_UPSTREAM", "redis://of-the-environment")
    assert load(words).upstream == Upstream.parse("redis://h")
    assert load(words, "doctor").upstream == Upstream.parse("redis://h")


@pytest.mark.parametrize(
    "words", [["redis://h", "--upstream", "redis://i"], ["redis://h", f"redis://:{SECRET}@i"]]
)
def test_a_url_alone_beside_another_is_a_problem(words: list[str]) -> None:
    assert problems(*words) == [
        "the URL of Redis is given twice: give it once, as a word or with --upstream"
    ]


def test_what_is_in_force_is_a_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, file = tmp_path / "secret", tmp_path / "t.toml"
    secret.write_text(SECRET)
    file.write_text("workers = 3\n")
    monkeypatch.setenv("TTLPROXY_DRAIN_MAX", "7.5")
    words = ["--config", str(file), "--upstream-user", "u", "--upstream-password-file", str(secret)]
    words += ["redis://h", "--admin", "127.0.0.1:1"]
    assert main(["--check", *words]) == 0
    said = capsys.readouterr().out
    assert f"workers = 3  # workers in {file}\n" in said
    assert "drain_max = 7.5  # TTLPROXY_DRAIN_MAX\n" in said
    assert 'admin = "127.0.0.1:1"  # --admin\n' in said
    assert SECRET not in said
    again = tmp_path / "again.toml"
    again.write_text(said)
    monkeypatch.delenv("TTLPROXY_DRAIN_MAX")
    read, meant = load(["--config", str(again)]), load([*words, "--drain-max", "7.5"])
    assert [getattr(read, name) for name in SETTINGS] == [getattr(meant, name) for name in SETTINGS]


def test_a_check_names_secrets_and_refuses_what_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", f"redis://:{SECRET}@h", "--sentinel-password", SECRET]) == 2
    assert main(["--check", "redis://h", "--upstream-password", SECRET]) == 0
    said = capsys.readouterr()
    assert "# upstream_password is set, by --upstream-password" in said.out
    assert SECRET not in said.out + said.err
    text = tmp_path / "text"
    text.touch()
    assert main(["--check", "--tls-cert", str(text)]) == 2
    assert "it contains no certificate" in capsys.readouterr().err


def test_words_beside_a_misspelt_flag_are_not_repeated() -> None:
    [problem] = problems("--upstream-pasword", SECRET)
    assert problem == "--upstream-pasword: unknown flag; did you mean --upstream-password?"
    [problem] = problems(SECRET)
    assert SECRET not in problem


def test_variables_that_kubernetes_injects_are_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTLPROXY_PORT", "tcp://10.0.0.1:6380")
    monkeypatch.setenv("TTLPROXY_SERVICE_HOST", "10.0.0.1")
    assert load([]).listen == Listen("127.0.0.1", 6380)


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTLPROXY_UPSTREAM", "")
    assert load([]).upstream is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--workers x", "must be a whole number from 1 to 256"),
        ("--workers 257", "must be a whole number from 1 to 256"),
        ("--workers 1.0", "must be a whole number from 1 to 256"),
        ("--lease-ms 0", "must be a whole number of 1 or more"),
        ("--max-buffer-bytes 9999999999999999999999", "must be a whole number of 0 or more"),
        ("--hold-max soon", "must be a number of seconds above 0"),
        ("--drain-min -1", "must be a number of seconds, 0 or above 0"),
        ("--cluster-split maybe", "must be yes or no"),
        ("--event-loop trio", "must be auto or uvloop or asyncio"),
        ("--unix-socket-perm 9", "'9' is not three or four octal digits"),
        ("--tls-names /nowhere", "there is no such directory"),
    ],
)
def test_a_problem_says_what_the_value_may_be(words: str, problem: str) -> None:
    flag, value = words.split()
    assert problems(f"{flag}={value}") == [f"{flag}: {problem}"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("workers = true", "must be a whole number from 1 to 256"),
        ("workers = 2.5", "must be a whole number from 1 to 256"),
        ("hold_max = true", "must be a number of seconds above 0"),
        ("hold_max = [1]", "must be a number of seconds above 0"),
        ("log_format = 1", "must be text or json"),
        ("prefix = 1", "must be text, in quotation marks"),
        ("data_dir = 1", "must be text, in quotation marks"),
    ],
)
def test_so_does_one_in_the_settings_file(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text(line)
    name = line.split()[0]
    assert problems("--config", str(file)) == [f"{name} in {file}: {problem}"]


def test_values_in_a_settings_file_have_their_types(tmp_path: Path) -> None:
    file = tmp_path / "ttlproxy.toml"
    file.write_text('workers = 2\nhold_max = 3\ndrain_min = 0\nunix_socket_perm = "770"')
    settings = load(["--config", str(file)])
    found = (settings.workers, settings.hold_max, settings.drain_min, settings.unix_socket_perm)
    assert found == (2, 3.0, 0.0, "770")
    assert settings.given == {"workers", "hold_max", "drain_min", "unix_socket_perm"}


def test_a_variable_may_be_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ttlproxy_workers", "2")
    assert load([]).workers == 2


def test_settings_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="reap_bach"):
        Settings.read({"reap_bach": 1})


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "a\n", "}"])
def test_a_prefix_that_would_move_keys_to_another_slot_is_refused(prefix: str) -> None:
    [problem] = problems("--prefix", prefix)
    assert problem.startswith("--prefix: ")


@pytest.mark.parametrize("limit", ["0", "-1", "inf", "nan"])
def test_a_limit_in_seconds_that_is_none_is_refused(limit: str) -> None:
    [problem] = problems(f"--drain-max={limit}")
    assert problem.startswith("--drain-max: ")


def test_the_data_directory_follows_the_xdg_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert load([]).data_dir == tmp_path / "state" / "ttlproxy"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert load([]).data_dir == tmp_path / ".local" / "state" / "ttlproxy"
    assert load(["--data-dir", "~/data"]).data_dir == tmp_path / "data"
