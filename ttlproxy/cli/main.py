"""The command line: flags, environment and file become Settings, errors become an exit code.

This module names no setting: flags, variables and keys are derived from what config declares.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttlproxy import __version__
from ttlproxy.cli import flags
from ttlproxy.cli.flags import PREFIX, guess, misspelt_variables
from ttlproxy.cli.output import greeting, note, say
from ttlproxy.cli.subcommand import SUMMARIES, find_subcommand
from ttlproxy.config import SETTINGS, InvalidSettingsError, Settings
from ttlproxy.errors import INTERRUPTED, CertificateError, SettingsError

if TYPE_CHECKING:
    from ttlproxy.process.app import Serves

log = logging.getLogger(__name__)

DESCRIPTION: Final = """\
A proxy in front of Redis that gives hash fields, set members and other elements a
time to live. URL is that of your Redis, as with --upstream; without it, one is
started."""
PLACES: Final = """\
Every setting is a flag (--reap-batch), an environment variable (TTLPROXY_REAP_BATCH) and a key of
the TOML file (reap_batch). Flags override the environment, the environment overrides the file."""
EXIT_CODES: Final = {
    0: "stopped by SIGTERM",
    1: "it failed",
    2: "the settings are wrong",
    INTERRUPTED: "stopped by Ctrl-C",
}
EPILOG: Final = f"""\
{PLACES}

Exit codes: {", ".join(f"{code} {what}" for code, what in EXIT_CODES.items())}.

These subcommands do not run a proxy. They take the same settings; see --help of each:
""" + "\n".join(f"  ttlproxy {name:<12} {summary}" for name, summary in SUMMARIES.items())


_FLAGS: Final = frozenset(map(flags.flag, ("config", "help", "version", *SETTINGS)))
_TWO_URLS = "the URL of Redis is given twice: give it once, as a word or with --upstream"
_LINE = re.compile(r"at line (\d+)")
# A value whose beginning is that of no string, array or table.
_UNQUOTED = re.compile(r"\s*[\w-]+\s*=\s*[^\s\"'\[{#]")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ttlproxy until it is told to stop, or a subcommand; returns the exit code (`errors`)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        settings, coroutine = _chosen(words)
    except (SettingsError, CertificateError) as error:
        print(f"ttlproxy: {error}", file=sys.stderr)
        return error.exit_code
    if coroutine is None:
        return 0
    from ttlproxy.process.runner import run  # --version and --help do not need it

    return run(settings, _warned(coroutine))


def _chosen(words: Sequence[str]) -> tuple[Settings, Coroutine[None, None, int] | None]:
    """Returns the settings, and what to run with them; None for --check, which is done here. Ends
    the process for --help and --version. Imports only what these words need."""
    if words and words[0] in SUMMARIES:
        subcommand = find_subcommand(words[0])
        own, rest = subcommand.flagged(words)
        settings = load(rest, words[0])
        coroutine = subcommand.run(settings, own)
        if subcommand.blocks:
            return settings, coroutine
        from ttlproxy.process.runner import until_interrupted

        return settings, until_interrupted(coroutine)
    settings, places = loaded(words)
    if "--check" in words:
        from ttlproxy.cli.check import checked

        say(checked(settings, places))
        return settings, None
    from ttlproxy.process import app

    def greet(serves: Serves) -> None:
        say(greeting(serves, tls=settings.tls_cert is not None))

    tell = greet if settings.log_format == "text" else note
    return settings, app.serve(settings, tell, partial(load, words))


async def _warned(main: Coroutine[None, None, int]) -> int:
    """Runs `main`, after a warning for each variable whose name is misspelt."""
    for sentence in misspelt_variables(os.environ, SETTINGS):
        log.warning("%s", sentence)
    return await main


def load(argv: Sequence[str], subcommand: str = "") -> Settings:
    """Returns the settings from flags, environment and file. Raises SettingsError with all
    problems.

    argv: without the subcommand, its words and its own flags
    """
    return loaded(argv, subcommand)[0]


def loaded(argv: Sequence[str], subcommand: str = "") -> tuple[Settings, dict[str, str]]:
    """Returns the settings, as `load` does, and where each that is set comes from."""
    given, problems = _flags(argv, subcommand)
    given.pop("check", None)
    config = given.pop("config", None) or os.environ.get("TTLPROXY_CONFIG") or ""
    file = _file(config, problems) if config else {}
    variables = {name.upper(): value for name, value in os.environ.items()}
    environment = {  # an empty variable counts as not set
        name: value for name in SETTINGS if (value := variables.get(f"{PREFIX}{name.upper()}"))
    }
    places = {name: f"{name} in {config}" for name in file}
    places |= {name: f"{PREFIX}{name.upper()}" for name in environment}
    places |= {name: flags.flag(name) for name in given}
    try:
        settings = Settings.read({**file, **environment, **given})
    except InvalidSettingsError as invalid:
        problems += [
            f"{places.get(name, flags.flag(name))}: {problem}" for name, problem in invalid.problems
        ]
    if problems:
        raise SettingsError(problems)
    return settings, places


def _flags(argv: Sequence[str], subcommand: str) -> tuple[dict[str, str], list[str]]:
    """Returns the given flags, by field, and the problems. Ends the process for --help and
    --version."""
    try:
        given, rest = _parser().parse_known_args(argv)
    except argparse.ArgumentError as error:
        return {}, [f"{error.argument_name}: {error.message}"]
    if not subcommand and (problem := _misspelt_subcommand(argv)):
        return vars(given), [problem]
    values = vars(given)
    if not subcommand or "upstream" in find_subcommand(subcommand).settings:
        urls = [word for word in rest if flags.URL.match(word)]
        rest = [word for word in rest if word not in urls]
        if len(urls) > 1 or (urls and "upstream" in values):
            return values, [_TWO_URLS]
        if urls:
            values["upstream"] = urls[0]
    # Only names are repeated: the word after a misspelt flag may be a password.
    unknown = [word.partition("=")[0] for word in rest if word.startswith("-")]
    known = [*_FLAGS, *(find_subcommand(subcommand).flags if subcommand else ())]
    problems = [f"{word}: unknown flag{guess(word, known)}" for word in unknown]
    if rest and not unknown:
        problems.append(_unexpected(rest, subcommand))
    return values, problems


def _parser() -> argparse.ArgumentParser:
    parser = flags.Parser(
        "ttlproxy",
        usage=f"ttlproxy [URL] [flags]\n       ttlproxy {'|'.join(SUMMARIES)} [flags]",
        description=DESCRIPTION,
        epilog=EPILOG,
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    usual = parser.add_argument_group("the usual flags")
    usual.add_argument("-h", "--help", action="help", help="show this message and exit")
    usual.add_argument("--version", action="version", version=f"ttlproxy {__version__}")
    usual.add_argument(
        "--check", action="store_true", help="only check the settings, print what is in force"
    )
    flags.add_config(usual)
    flags.add(usual, flags.USUAL)
    others = [name for name in SETTINGS if name not in flags.USUAL]
    for title, names in flags.groups(others):
        flags.add(parser.add_argument_group(title), names)
    return parser


def _misspelt_subcommand(argv: Sequence[str]) -> str:
    """Returns the problem with a first word that is nearly a subcommand; empty if it is not."""
    first = argv[0] if argv else ""
    if not first or flags.URL.match(first) or first.partition("=")[0] in _FLAGS:
        return ""
    meant = "; did you mean --help?" if first == "help" else guess(first, SUMMARIES)
    return f"{first}: unknown subcommand{meant}" if meant else ""


def _unexpected(rest: Sequence[str], subcommand: str) -> str:
    """Returns the problem with words that belong to no flag. Only names of subcommands are
    repeated."""
    if subcommand:
        takes = find_subcommand(subcommand).takes
        rule = f"{takes} must come before the flags" if takes else "takes flags only"
        return f"{subcommand}: {rule}"
    for word in rest:
        if word in SUMMARIES:
            return f"{word}: a subcommand must be the first word: ttlproxy {word} [flags]"
    return (
        "unexpected arguments, which belong to no flag; a Redis is named by its URL,"
        f" redis://HOST:PORT; subcommands are {', '.join(SUMMARIES)}"
    )


def _file(path: str, problems: list[str]) -> dict[str, Any]:
    """Returns the settings in the file; names that are no settings become problems."""
    import tomllib  # few proxies have a file

    text = ""
    try:
        text = Path(path).read_text("utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        problems.append(f"{path}: cannot read the file: {error.strerror}")
        return {}
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: {error}{_hint(text, str(error))}")
        return {}
    except ValueError as error:  # not UTF-8
        problems.append(f"{path}: {error}")
        return {}
    unknown = content.keys() - SETTINGS.keys()
    problems += [
        f"{name} in {path}: unknown setting{guess(name, SETTINGS)}" for name in sorted(unknown)
    ]
    return {name: value for name, value in content.items() if name not in unknown}


def _hint(text: str, problem: str) -> str:
    """Returns a hint at what may be wrong in the line of this TOML that the problem names."""
    place = _LINE.search(problem)
    line = text.splitlines()[int(place[1]) - 1] if place else ""
    return "; text must be in quotation marks" if _UNQUOTED.match(line) else ""
