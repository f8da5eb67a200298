"""Builds the status page as one document, with the headers that protect it.

The page may run its own script, use its own style and ask this server, and nothing else. A name
shown on it cannot become markup, because no script may write markup (Trusted Types).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_PARTS: Final = {
    "style": ("style.css",),
    "script": ("elements.js", "charts.js", "inspector.js", "troubles.js", "status.js"),
}
# In every answer: no other site may frame it or read it, and no browser may guess its type.
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Document(NamedTuple):
    text: str
    policy: str


@cache
def document() -> Document:
    """Returns the page, and the Content-Security-Policy that fits it."""
    text, sources = _read("page.html"), []
    for tag, names in _PARTS.items():
        content = "".join(map(_read, names))
        text = text.replace(f"<{tag}></{tag}>", f"<{tag}>{content}</{tag}>")
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources.append(f"{tag}-src 'sha256-{digest}'")
    rest = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Document(text, f"{'; '.join(sources)}; {rest}")


def _read(name: str) -> str:
    return files(__name__.rpartition(".")[0]).joinpath("page", name).read_text("utf-8")
