"""The status page in a browser: it updates, it says what is wrong, and it is accessible."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, pages
from tests.support.browser import DESK, PHONE, Visit, launched, visit
from tests.support.containers import AnyServer
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy, Server

pytestmark = [pytest.mark.any_server, pytest.mark.long]

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)>"
# (foreground, background). WCAG 2.2 requires a contrast of 4.5 for text, 3 for controls and lines.
TEXTS = [
    (text, ground)
    for text in ("--text", "--quiet", "--first", "--good", "--warn", "--bad")
    for ground in ("--ground", "--card")
] + [("--on-first", "--first"), ("--text", "--bad-ground"), ("--text", "--field")]
LINES = [("--control", "--card"), ("--first", "--card"), ("--second", "--card")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def seen(browser: Browser, watched: Proxy) -> Iterator[Visit]:
    """The page; the browser must report no error."""
    with visit(browser, url(watched)) as seen:
        yield seen
    assert seen.wrongs == []


def url(proxy: Proxy) -> str:
    return f"http://127.0.0.1:{pages(proxy).where}/"


@contextmanager
def load(proxy: Proxy) -> Iterator[None]:
    """A client that sends requests without end."""
    stop = threading.Event()

    def run() -> None:
        with closing(Client(proxy.port)) as client:
            number = 0
            while not stop.is_set():
                number += 1
                client.ask("HSETEX", f"h{number % 9}", "PX", 50, "FIELDS", 1, str(number), "v" * 99)
                client.ask("SADDEX", "online", 100, str(number % 50))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_the_figures_move_under_load(seen: Visit, watched: Proxy) -> None:
    seen.until("document.querySelector('#state-text').textContent === 'serving'")
    with load(watched):
        for name in ("clients", "managed_keys", "reaped", "round_trip_ms"):
            figure = f"parseFloat(document.querySelector('#tile-{name} .value').textContent)"
            seen.until(f"{figure} > 0")
        seen.until("samples.lag_p50_ms.some((value) => value !== null)")
        seen.until("document.querySelectorAll('#lag .line')[0].getAttribute('d').length > 0")
        seen.until("document.querySelector('#types').textContent.includes('set')")
        seen.until("document.querySelectorAll('#deadlines .column').length === 20")
        number = seen.page.evaluate("number")
        seen.until(f"number > {number}")
    seen.until("parseFloat(document.querySelector('#tile-clients .value').textContent) === 0")


def test_a_key_is_found_among_those_due_next_and_paged(seen: Visit, watched: Proxy) -> None:
    with Connection(watched.port) as client:
        for number in range(60):
            client.ask("SADDEX", "many", 1000 + number, f"m{number:02}")
    page = seen.page
    page.get_by_role("link", name="many").click()
    rows = page.locator("#inspected tbody tr td:first-child")
    page.get_by_text("1 to 50 of 60").wait_for()
    assert rows.first.inner_text() == "m00"
    page.get_by_role("button", name="Later").click()
    page.get_by_text("51 to 60 of 60").wait_for()
    assert rows.all_inner_texts() == [f"m{number}" for number in range(50, 60)]


def _with_a_key(start_server: StartServer, start_proxy: StartProxy) -> tuple[Server, Proxy]:
    """A server of a test's own with one managed key, and a proxy with pages in front of it."""
    server = start_server()
    proxy = start_proxy(server.url, *FLAGS)
    with Connection(proxy.port) as client:
        client.ask("SADDEX", "s", 1000, "m")
    return server, proxy


def test_the_inspector_asks_again_until_redis_answers(
    browser: Browser, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, proxy = _with_a_key(start_server, start_proxy)
    with visit(browser, url(proxy)) as seen:
        server.child.send_signal(signal.SIGSTOP)
        try:
            seen.page.locator("#keys-said", has_text="Not known now").wait_for()
        finally:
            server.child.send_signal(signal.SIGCONT)
        seen.page.get_by_role("link", name="s", exact=True).wait_for()
        assert seen.wrongs == []


def test_the_address_leads_to_a_key_among_those_that_match(
    browser: Browser, watched: Proxy
) -> None:
    with Connection(watched.port) as client:
        for name in ("cart:1", "cart:2", "other"):
            client.ask("SADDEX", name, 1000, "m")
    with visit(browser, url(watched)) as seen:
        page = seen.page
        page.get_by_label("Key", exact=True).fill("cart:*")
        page.keyboard.press("Enter")
        page.get_by_text("Keys that match cart:*").wait_for()
        page.get_by_role("link", name="cart:2").click()
        page.get_by_text("A set: 1 of 1 member").wait_for()
        address = page.url
    with visit(browser, address) as seen:
        seen.page.get_by_text("A set: 1 of 1 member").wait_for()
        seen.page.get_by_text("Keys that match cart:*").wait_for()
        assert seen.text("#picked-key") == "cart:2"
        assert seen.page.locator("#keys a").all_inner_texts() == ["cart:1", "cart:2"]
        assert seen.wrongs == []


def test_where_no_key_has_deadlines_it_says_what_to_type(
    browser: Browser, server: AnyServer, start_proxy: StartProxy
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    proxy = start_proxy(server.url, *FLAGS, "--listen", listen)
    with visit(browser, url(proxy)) as seen:
        page = seen.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        words = f"redis-cli -h 127.0.0.1 -p {proxy.port} HEXPIREFIELD cart:1 apple 60"
        page.get_by_role("button", name=f"Copy {words}").click()
        page.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == words
        assert listen in seen.text("#facts")
        assert seen.wrongs == []


def test_one_cause_is_told_once_and_what_is_unknown_is_no_number(
    browser: Browser, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, proxy = _with_a_key(start_server, start_proxy)
    with visit(browser, url(proxy)) as seen:
        figure = "document.querySelector('#tile-managed_keys .value').textContent"
        seen.until(f"{figure} === '1'")
        seen.until("document.querySelector('#state.good')")
        server.kill()
        seen.until("document.querySelector('#state.bad')")
        assert "Redis" in seen.text("#state-text")
        for name in ("keys-said", "types-note", "deferred-note", "slow-note", "programs-note"):
            seen.until(f"document.querySelector('#{name}').textContent.includes('see above')")
        seen.until(f"{figure} === '\\u2013'")
        said = seen.page.evaluate("document.body.textContent.match(/nothing listens/g).length")
        # The text of the script is in the body as well, but does not have these words.
        assert said == 1
        assert " ago, at " in seen.text("#cause")
        server.restart()
        seen.until("document.querySelector('#state.good')")
        assert seen.wrongs == []


def test_what_redis_refuses_to_tell_is_not_shown_as_nothing(
    browser: Browser, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all", "-slowlog")
    proxy = start_proxy(f"redis://blind:pw@127.0.0.1:{server.port}", *FLAGS)
    with visit(browser, url(proxy)) as seen:
        seen.until("document.querySelector('#slow-sum').textContent === 'not known now'")
        seen.page.locator("#slow-card summary").click()
        assert "Redis refuses" in seen.text("#slow-note")
        assert "no script call was slow" not in seen.text("#none")
        assert seen.page.locator("#cause").is_hidden()
        assert seen.wrongs == []


@pytest.mark.slow
def test_a_proxy_that_has_gone_is_said_and_comes_back(
    browser: Browser, server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url, "--admin", f"127.0.0.1:{free_port()}")
    with visit(browser, url(proxy)) as seen:
        seen.until("document.querySelector('#state.good')")
        life = seen.page.evaluate("life")
        proxy.kill()
        seen.until("!document.querySelector('#gone').hidden")
        assert "has not answered since" in seen.text("#gone")
        proxy.start()
        seen.until("document.querySelector('#gone').hidden")
        seen.until(f"life !== '{life}'")


def test_nothing_is_asked_while_nobody_looks(seen: Visit) -> None:
    seen.until("number > 0")
    asked: list[str] = []
    page = seen.page
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    seen.until("!isAsking")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1500)  # longer than the interval between two updates
    assert asked == []
    page.evaluate("Object.defineProperty(document, 'hidden', { value: false })")
    with page.expect_request("**/status.json*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


in_two_looks = pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESK, "light")], ids=["phone, dark", "desk, light"]
)


@in_two_looks
def test_it_fits_and_can_be_read(
    browser: Browser, watched: Proxy, size: tuple[int, int], scheme: str
) -> None:
    with visit(browser, url(watched), size, scheme) as seen:
        seen.until("number > 0")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        for pairs, least in ((TEXTS, 4.5), (LINES, 3)):
            for colour, ground in pairs:
                assert seen.contrast(colour, ground) >= least, f"{colour} on {ground}"
        assert seen.unnamed() == []
        assert seen.wrongs == []


@in_two_looks
def test_axe_finds_no_violation(
    browser: Browser, watched: Proxy, ioredis: Path, size: tuple[int, int], scheme: str
) -> None:
    axe = (ioredis / "node_modules" / "axe-core" / "axe.min.js").read_text()
    with visit(browser, url(watched), size, scheme) as seen:
        seen.until("number > 0")
        seen.page.evaluate(axe)
        found = seen.page.evaluate("axe.run()")
    assert [rule["id"] for rule in found["passes"]], "it has looked"
    wrong = {rule["id"]: rule["nodes"][0]["html"] for rule in found["violations"]}
    assert wrong == {}


def test_the_keyboard_reaches_all_there_is(seen: Visit) -> None:
    seen.until("number > 0")
    page = seen.page
    met = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        met.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        focused = "getComputedStyle(document.activeElement).outlineStyle"
        if page.evaluate("document.activeElement.type !== 'radio' && document.activeElement.id"):
            assert page.evaluate(focused) != "none"
    assert {"key", "db", "Show", "As a table", "/metrics"} <= met
    page.locator("#latency summary").click()
    page.locator("#latency table tbody tr").first.wait_for()


def test_warnings_of_the_doctor_are_shown_with_what_fixes_them(
    browser: Browser, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with visit(browser, url(start_proxy(server.url, *FLAGS))) as seen:
        seen.page.get_by_text("CONFIG SET maxmemory-policy noeviction").wait_for()
        assert "maxmemory-policy is allkeys-lru" in seen.text("#findings")
        assert seen.wrongs == []


def test_an_idle_page_is_short(
    browser: Browser, start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *FLAGS)
    with Connection(proxy.port) as client:
        for number in range(20):
            client.ask("SADDEX", f"s{number}", 1000, "m")
    for size, screens in ((PHONE, 3), (DESK, 2)):
        with visit(browser, url(proxy), size) as seen:
            for name in ("keys", "types", "scripts"):
                seen.until(f"document.querySelector('#{name} tbody')")
            seen.until("document.querySelector('#looked').textContent.includes('ago')")
            height = seen.page.evaluate("document.documentElement.scrollHeight")
        assert height <= screens * size[1]


def test_of_many_rows_five_are_shown_and_the_rest_folded(seen: Visit, watched: Proxy) -> None:
    with Connection(watched.port) as client:
        for number in range(8):
            client.ask("ONEXPIRE", f"{number}*", "KEEP")
    page = seen.page
    page.locator("#rules-card summary").first.click()
    page.get_by_text("3 more rules", exact=True).wait_for()
    rows = page.locator("#rules tbody tr")
    assert [row.is_visible() for row in rows.all()] == [True] * 5 + [False] * 3
    page.get_by_text("3 more rules", exact=True).click()
    rows.last.wait_for()


def test_programs_and_other_proxies_are_named(
    seen: Visit, watched: Proxy, server: AnyServer, start_proxy: StartProxy
) -> None:
    start_proxy(server.url)
    with Connection(watched.port) as client:
        client.ask("CLIENT", "SETNAME", "shop")
        seen.until("document.querySelector('#programs').textContent.includes('shop')")
        seen.page.locator("#programs-card summary").click()
        assert "default" in seen.text("#programs")
    # Or three, where an earlier test has had its proxy in front of this Redis.
    seen.until("/[23] proxies/.test(document.querySelector('#proxies').textContent)")


def test_rules_are_shown_in_the_order_in_which_they_count(seen: Visit, watched: Proxy) -> None:
    with Connection(watched.port) as client:
        client.ask("ONEXPIRE", "a*", "XADD", "gone")
        client.ask("ONEXPIRE", "abc*", "RPUSH", "list:%1", "EVENT")
    page = seen.page
    page.locator("#rules-card summary").first.click()  # more rules of an earlier test may be folded
    patterns = page.locator("#rules td:nth-child(2)")
    # The page reads them every five seconds, and may still show those of an earlier test.
    wait_until(lambda: patterns.all_inner_texts() == ["abc*", "a*"], "both, and in this order")
    assert "RPUSH list:%1 EVENT" in seen.text("#rules")


@pytest.mark.slow
def test_an_inspector_that_is_switched_off_is_not_shown(
    browser: Browser, server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url, *FLAGS, "--inspector", "no")
    with visit(browser, url(proxy)) as seen:
        seen.until("number > 0")
        assert seen.page.locator("#inspector").is_hidden()


@pytest.mark.slow
def test_workers_are_summed_and_listed(
    browser: Browser, server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url, *FLAGS, "--workers", "2")
    with visit(browser, url(proxy)) as seen, Connection(proxy.port), Connection(proxy.port):
        seen.until("document.querySelector('#tile-clients .value').textContent.startsWith('2')")
        seen.until("document.querySelectorAll('#workers tbody tr').length === 2")
        assert seen.wrongs == []


def test_what_an_operator_on_call_needs_is_on_the_page(seen: Visit, watched: Proxy) -> None:
    with Connection(watched.port) as client:
        client.ask("SET", "taken", "a string")
        client.ask("ONEXPIRE", NASTY, "RPUSH", "taken")
        client.ask("SADDEX", NASTY, "PX", 1, "MEMBERS", 1, "m")
        client.ask("DEFER", "EX", 1000, "ID", "soon", "PUBLISH", "news", "hello")
        page, dialogs = seen.page, list[str]()
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.locator("#parked code", has_text="RENAMENX taken taken:aside").wait_for()
        assert "WRONGTYPE the destination of a rule is a string" in seen.text("#parked")
        page.locator(
            "#clients td", has_text="{}:{}".format(*client.socket.getsockname())
        ).wait_for()
        page.locator("#deferred-card summary").click()
        page.locator("#deferred td", has_text="PUBLISH news").wait_for()
        page.locator("#scripts td", has_text="set_addex").wait_for(state="attached")
        assert page.locator("#parked-card button:not(.copy), #parked-card input").count() == 0
        page.locator("#parked").get_by_role("link", name=NASTY).click()
        page.get_by_text("A set: 1 of 1 member").wait_for()
        assert page.locator("main script, main img").count() == 0
        assert dialogs == []
        assert seen.unnamed() == []
        client.ask("DEL", "taken")
    seen.until("document.querySelector('#parked-card').hidden")
    seen.until("document.querySelector('#ended').textContent.includes('closed by the client')")


def test_the_charts_show_five_minutes_or_an_hour(seen: Visit) -> None:
    seen.until("number > 0")
    seen.page.get_by_label("hour").first.check()
    assert "ten seconds" in seen.text("#span-note")
    assert seen.page.evaluate("charts.lag.step") == 10
    seen.until("document.querySelector('#latency .axis:last-of-type').textContent.includes('min')")
    seen.page.get_by_label("5 minutes").check()
    assert seen.page.evaluate("charts.lag.step") == 1
