"""Which users may run scripts and ACL CAT, according to ACL LIST."""

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.operations.client_rights import rules as client_rules


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ("on nopass ~* &* +@all", True),
        ("on #af ~* &* -@all +@scripting", True),
        ("on #af ~* &* -@all +eval +evalsha +get", True),
        ("on #af ~* &* -@all +eval", False),
        ("on #af ~* &* -@all +@read +@write", False),
        ("on #af ~* &* +@all -@scripting", False),
        ("on #af ~* &* +@all -@slow", False),
        ("on #af ~* &* +@all -evalsha", False),
        ("on #af ~* &* +@all -eval_ro", True),
        ("on #af ~* resetchannels -@all +get (~x -@all +eval +evalsha)", True),
        ("on #af ~* resetchannels -@all +get (~x -@all +eval) (~y -@all +set)", False),
        ("off ~* &* -@all", False),
    ],
)
def test_a_user_may_run_scripts_where_its_rules_allow_both_calls(rules: str, may: bool) -> None:
    rights = Rights()
    rights.set_users([b"user default on nopass ~* &* +@all", f"user app {rules}".encode()])
    assert rights.may_script([b"default", b"app"]) is may
    assert rights.may_script([b"default", b"nobody"])


OF_ACL_CAT = frozenset({b"acl", b"acl|cat", b"@all", b"@slow"})


@pytest.mark.parametrize(
    ("rules", "calls", "may"),
    [
        ("on #af ~* &* +@all -@dangerous", OF_ACL_CAT, True),
        ("on #af ~* &* +@all -@dangerous", OF_ACL_CAT | {b"@dangerous"}, False),
        ("on #af ~* &* +@all -acl +acl|cat", OF_ACL_CAT, True),
        ("on #af ~* &* +@all -acl|cat", OF_ACL_CAT, False),
        ("on #af ~* &* +@all -acl|whoami", OF_ACL_CAT, True),
        ("on #af resetchannels -@all +eval (~x -@all +acl)", OF_ACL_CAT, True),
        ("on #af ~* &* +@all", frozenset(), False),
    ],
)
def test_a_user_may_ask_acl_cat_where_its_rules_allow_that(
    rules: str, calls: frozenset[bytes], may: bool
) -> None:
    rights = Rights()
    rights.suit(calls)
    rights.set_users([b"user default on nopass ~* &* +@all", f"user app {rules}".encode()])
    assert rights.may_ask_acl([b"default", b"app"]) is may


def test_who_has_not_logged_in_is_told_so_by_redis() -> None:
    rights = Rights()
    rights.set_users([b"user default off ~* &* -@all", b"user app on #af ~* &* +@all"])
    assert rights.may_script([b"default", b"app"])


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ("on nopass ~* &* +@all", True),
        ("on #af ~__ttl:* ~app:* &* +@all", True),
        ("on #af %R~__ttl:* %RW~app:* &* +@all", True),
        ("on #af resetchannels -@all (~__ttl:* +watch)", True),
        ("on #af ~app:* %W~* &* +@all", False),
        ("on #af resetchannels -@all", False),
    ],
)
def test_a_user_may_watch_internal_keys_where_a_pattern_allows_it(rules: str, may: bool) -> None:
    rights = Rights()
    rights.set_users([b"user default on nopass ~* &* +@all", f"user app {rules}".encode()])
    assert rights.may_watch([b"default", b"app"]) is may


def test_a_proxy_that_may_not_see_the_users_asks_once(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Each refusal is an entry of ACL LOG."""
    server = start_server()
    direct = Client(server.port)
    direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-acl")
    proxy = start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}")
    beats = calls(server.port, "time") + 3
    wait_until(lambda: calls(server.port, "time") >= beats, "three more heartbeats")
    (entry,) = direct.ask("ACL", "LOG")
    assert dict(zip(entry[::2], entry[1::2], strict=True))[b"count"] == 1
    app = Client(proxy.port)
    app.ask("SADDEX", "s", 100, "a")
    assert app.ask("DBSIZE") == 1
    app.close()
    direct.close()


WRITTEN = (frozenset({b"zadd", b"@all", b"@write"}), frozenset({b"hdel", b"@all", b"@write"}))
NARROW = " ".join(rule.decode() for rule in client_rules(Keys(), [b"alice:*"]))


@pytest.mark.parametrize(
    ("rules", "have"),
    [
        ("on nopass ~* &* +@all", True),
        ("on #af ~* &* +@all -@admin -@dangerous", True),
        ("on #af ~app:* ~__ttl:* &* -@all +@write +eval +evalsha", True),
        ("on #af ~app:* ~__ttl:* &* -@all +@write", False),
        (f"on #af {NARROW}", True),
        ("on #af ~* &* +@all -hdel", False),
        ("on #af ~* &* +@all -@write +zadd", False),
        ("on #af ~app:* &* +@all", False),
        (f"on #af ~bob:* {NARROW}", False),
        ("on #af %RW~* &* +@all", True),
        ("on #af %RW~app:* &* +@all", False),
        ("on #af ~* &* +@all (~x -@all +get)", False),
    ],
)
def test_scripts_need_no_dry_run_for_a_user_who_has_all_rights(rules: str, have: bool) -> None:
    rights = Rights(internal=Keys().beside)
    rights.suit(frozenset(), (), WRITTEN)
    rights.set_users([b"user default on nopass ~* &* +@all", f"user app {rules}".encode()])
    assert rights.have_all([b"default", b"app"]) is have
    assert rights.all_have_all is have
    assert rights.have_all([b"default"])
    assert not rights.have_all([b"default", b"perhaps"])
    rights.learn_refused(hidden=True)
    assert not rights.have_all([b"default"])
