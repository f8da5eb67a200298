"""The man pages in man/, made from the tables of --help: one of ttlproxy, and one of each
subcommand. `python -m tests.docs.generated` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ttlproxy import __version__
from ttlproxy.cli.flags import USUAL, flag, groups, metavar
from ttlproxy.cli.main import DESCRIPTION, EXIT_CODES, PLACES
from ttlproxy.cli.subcommand import CODES, SUMMARIES, find_subcommand
from ttlproxy.config import SETTINGS

# A flag with the word for its value, and what it does.
Flag = tuple[str, str]
_CONFIG: Final = ("--config FILE", "a TOML file with settings")
_OF_PROXY: Final = (
    ("--help", "show all flags, and exit"),
    ("--version", "show the version, and exit"),
    ("--check", "only check the settings, print what is in force"),
)
_FILES: Final = ("$TTLPROXY_CONFIG", "a TOML file with settings, if --config names none")


def man_pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    pages = {f"ttlproxy-{name}.1": _of_subcommand(name) for name in SUMMARIES}
    return {"ttlproxy.1": _of_proxy(), **pages}


def _of_proxy() -> str:
    names = [f"ttlproxy-{name}" for name in SUMMARIES]
    lines = [
        *_head("ttlproxy", "a proxy that gives elements of Redis keys a time to live"),
        *_synopsis("ttlproxy", "[URL] [flags]"),
        *_synopsis("ttlproxy", "SUBCOMMAND [flags]"),
        *(".SH DESCRIPTION", *_prose(DESCRIPTION), *_prose(PLACES)),
        ".SH OPTIONS",
        *_tagged([*_OF_PROXY, _CONFIG, *_of_settings(USUAL)]),
    ]
    for title, settings in groups(name for name in SETTINGS if name not in USUAL):
        lines += [f".SS {_typed(title)}", *_tagged(_of_settings(settings))]
    lines += [
        ".SH SUBCOMMANDS",
        *_tagged((f"ttlproxy {name}", SUMMARIES[name]) for name in SUMMARIES),
    ]
    lines += [".SH ENVIRONMENT", *_tagged([_FILES]), ".SH EXIT STATUS"]
    lines += _tagged((str(code), what) for code, what in EXIT_CODES.items())
    return "\n".join([*lines, *_see_also(names)])


def _of_subcommand(name: str) -> str:
    subcommand = find_subcommand(name)
    own = [
        (
            f"{word} {'|'.join(how.get('choices', ())) or how.get('metavar', '')}".strip(),
            how["help"],
        )
        for word, how in subcommand.flags.items()
    ]
    lines = [
        *_head(f"ttlproxy-{name}", SUMMARIES[name]),
        *_synopsis(f"ttlproxy {name}", f"{subcommand.takes} [flags]".strip()),
        *(".SH DESCRIPTION", *_prose(subcommand.description)),
        *(".SH OPTIONS", *_tagged((word, tells.replace("%%", "%")) for word, tells in own)),
        *(".SS settings, as of ttlproxy itself", *_tagged(_of_settings(subcommand.settings))),
        *_tagged([_CONFIG]),
        *(".SH EXIT STATUS", *_tagged((str(code), what) for code, what in CODES.items())),
        *_see_also(["ttlproxy"]),
    ]
    return "\n".join(lines)


def _of_settings(names: Iterable[str]) -> Iterator[Flag]:
    for name in names:
        setting = SETTINGS[name]
        default = f" (default: {setting.default})" if setting.has_fixed_default else ""
        yield f"{flag(name)} {metavar(name, setting)}", setting.description + default


def _head(name: str, summary: str) -> list[str]:
    """No word is broken, so that what is copied is what was printed."""
    title = f'.TH {name.upper()} 1 "" "ttlproxy {__version__}" "ttlproxy"'
    about = f"{_typed(name)} \\- {_typed(summary)}"
    return [title, ".nh", ".ad l", ".SH NAME", about, ".SH SYNOPSIS"]


def _synopsis(command: str, rest: str) -> list[str]:
    return [f".B {_typed(command)}", _typed(rest), ".br"]


def _see_also(names: Iterable[str]) -> list[str]:
    return [".SH SEE ALSO", ", ".join(f"\\fB{_typed(name)}\\fR(1)" for name in names), ""]


def _tagged(flags: Iterable[Flag]) -> list[str]:
    lines = []
    for words, tells in flags:
        first, _, value = words.partition(" ")
        value = f" \\fI{_typed(value)}\\fR" if value else ""
        lines += [".TP", f"\\fB{_typed(first)}\\fR{value}", _typed(tells)]
    return lines


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; those that are indented stay as they are."""
    for paragraph in re.split(r"\n\n+", text):
        is_table = paragraph.startswith("  ")
        yield ".PP"
        yield from (".nf",) if is_table else ()
        yield from map(_typed, paragraph.splitlines())
        yield from (".fi",) if is_table else ()


def _typed(text: str) -> str:
    """Text as roff takes it: a hyphen is a minus, so that flags can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
