"""A headless Chromium for the status page: finds it, and sees what the page does wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.require import absent

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PHONE = (360, 740)
DESK = (1280, 900)


@contextmanager
def launched() -> Iterator[Browser]:
    """Debian's own: Playwright's would have to be fetched."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        absent("chromium", f"none of {', '.join(_NAMES)} is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that somebody looks at. wrongs: what a browser's console would show in red, and
    requests that go elsewhere than to the page's own server."""

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
        """Until the JavaScript expression is true."""
        self.page.wait_for_function(expression, timeout=20_000)

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
    """Somebody opens the page, in light or dark."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        yield Visit(context.new_page(), url)
    finally:
        context.close()
