"""Makes docs/status-page.png: a proxy that is well, with clients whose carts expire.

`python -m tests.docs.status_picture` takes two minutes, for the curves. Needs a Redis and Chromium.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import redis

from tests.support.admin_pages import FLAGS, pages
from tests.support.browser import launched, visit
from tests.support.processes import free_port
from tests.support.servers import ROOT, Proxy, Server, find_binaries

PICTURE: Final = ROOT / "docs" / "status-page.png"
_SIZE: Final = (1080, 975)
_SECONDS: Final = 110
_CLIENTS: Final = 8


def _shop(clients: list[redis.Redis], chance: random.Random) -> None:
    """One client puts an article into a cart, for up to a minute, and another one looks at it and
    is online."""
    cart = f"cart:{chance.randrange(40)}"
    article, ttl_ms = f"article:{chance.randrange(50)}", chance.randrange(5_000, 60_000)
    one, other = chance.sample(clients, 2)
    one.execute_command("HSETEX", cart, "PX", ttl_ms, "FIELDS", 1, article, 1)
    other.hgetall(cart)
    other.execute_command("SADDEX", "online", 60, f"user:{chance.randrange(300)}")


def main(picture: Path = PICTURE) -> None:
    binary = list(find_binaries().values())[-1]
    with ExitStack() as owned:
        server = Server(binary, "--appendonly", "yes")
        owned.callback(server.remove)
        proxy = Proxy(server.start().url, *FLAGS, "--listen", f"127.0.0.1:{free_port()}")
        owned.callback(proxy.remove)
        proxy.start()
        clients = [redis.Redis(port=proxy.port) for _ in range(_CLIENTS)]
        chance, end = random.Random(1), time.monotonic() + _SECONDS
        browser = owned.enter_context(launched())
        url = f"http://127.0.0.1:{pages(proxy).where}/#key=online"
        seen = owned.enter_context(visit(browser, url, _SIZE))
        while time.monotonic() < end:
            _shop(clients, chance)
            time.sleep(0.02)
        seen.page.screenshot(path=picture)


if __name__ == "__main__":
    main()
