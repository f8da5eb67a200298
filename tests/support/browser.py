"""A headless Chromium for the status page: finds it, and reports what the page does wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.support.processes import wait_until
from tests.support.requirements import PROGRAMS, absent, find_program

PHONE = (360, 740)
DESK = (1280, 900)

_UNNAMED = """() => {
  const wrong = [];
  const named = (e) => e.getAttribute('aria-label') || e.innerText?.trim() || e.labels?.length
    || document.getElementById(e.getAttribute('aria-labelledby'))?.innerText.trim();
  const visible = (e) => e.checkVisibility();
  for (const e of document.querySelectorAll(
    'a, button, input, summary, section, [role=img], [role=region], fieldset')) {
    const name = e.tagName === 'FIELDSET' ? e.querySelector('legend') : named(e);
    if (visible(e) && !name) wrong.push(e.outerHTML.slice(0, 80));
  }
  for (const e of document.querySelectorAll('table')) if (!e.caption) wrong.push('a table');
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  wrong.push(...ids.filter((id, at) => ids.indexOf(id) !== at));
  for (const tag of ['main', 'header', 'footer', 'h1']) {
    if (document.querySelectorAll(tag).length !== 1) wrong.push(tag);
  }
  if (!document.documentElement.lang) wrong.push('lang');
  return wrong;
}"""


@contextmanager
def launched() -> Iterator[Browser]:
    """Debian's Chromium: Playwright's would have to be downloaded."""
    path = find_program("chromium")
    if path is None:
        absent("chromium", f"none of {', '.join(PROGRAMS['chromium'])} is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """An open page. wrongs: errors and warnings of the browser's console, and requests to servers
    other than the page's own."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.wrongs: list[str] = []
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        page.on("request", self._asked)
        page.goto(url)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def until(self, expression: str) -> None:
        """Waits until the JavaScript expression is true."""
        # Playwright's own wait needs eval, which the page's content security policy forbids.
        wait_until(lambda: bool(self.page.evaluate(expression)), expression)

    def contrast(self, colour: str, ground: str) -> float:
        """The contrast of two colours of the style sheet, as WCAG 2 defines it."""
        one, other = sorted((self._luminance(colour), self._luminance(ground)), reverse=True)
        return (one + 0.05) / (other + 0.05)

    def _luminance(self, name: str) -> float:
        text = self.page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('{name}')"
        )
        parts = [int(text.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def unnamed(self) -> list[str]:
        """Elements without a name for screen readers, and wrong headings and ids."""
        found: list[str] = self.page.evaluate(_UNNAMED)
        return found

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.wrongs.append(text)

    def _asked(self, request: Request) -> None:
        if request.url.startswith("data:"):
            return
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.wrongs.append(f"asks {request.url}")


@contextmanager
def visit(
    browser: Browser,
    url: str,
    size: tuple[int, int] = DESK,
    scheme: str = "light",
) -> Iterator[Visit]:
    """Opens the page in light or dark mode."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        yield Visit(context.new_page(), url)
    finally:
        context.close()
