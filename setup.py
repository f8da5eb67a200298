"""What pyproject.toml cannot say: the addresses, and the README for a package index.

An index resolves no relative link, and draws no diagram.
"""

from __future__ import annotations

import re
from pathlib import Path

# Where the repository is in public: a placeholder, and nowhere else. CONTRIBUTING.md says when to
# change it.
ADDRESS = "https://git.example.com/ttlproxy"

ROOT = Path(__file__).parent
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?!#|\w+:)([^)\s]+)\)")
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n\n?", re.MULTILINE | re.DOTALL)


def version() -> str:
    text = (ROOT / "ttlproxy" / "__init__.py").read_text("utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def addresses() -> dict[str, str]:
    """By the names that an index knows."""
    return {
        "Source": ADDRESS,
        "Documentation": _address_of("docs", "blob"),
        "Changelog": _address_of("CHANGELOG.md", "blob"),
        "Issues": f"{ADDRESS}/issues",
        "Security": f"{ADDRESS}/security/policy",
    }


def readme(text: str) -> str:
    """With addresses of this version's files, and without diagrams."""
    return _linked(_DIAGRAM.sub("", text))


def _linked(text: str) -> str:
    def absolute(found: re.Match[str]) -> str:
        mark, shown, path = found.groups()
        return f"{mark}[{_linked(shown)}]({_address_of(path, 'raw' if mark else 'blob')})"

    return _LINK.sub(absolute, text)


def _address_of(path: str, shown_as: str) -> str:
    return f"{ADDRESS}/{shown_as}/v{version()}/{path}"


if __name__ == "__main__":
    from setuptools import setup

    setup(
        long_description=readme((ROOT / "README.md").read_text("utf-8")),
        long_description_content_type="text/markdown",
        project_urls=addresses(),
    )
