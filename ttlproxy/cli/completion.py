"""`ttlproxy completion`: what shells complete, made from the tables of subcommands and settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ttlproxy.cli.flags import flag
from ttlproxy.cli.output import say
from ttlproxy.cli.subcommand import SUMMARIES, Subcommand, find_subcommand
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.errors import SettingsError

_DESCRIPTION: Final = """\
Prints the completion of subcommands, flags and their values for a shell. To have it in new shells:

  ttlproxy completion bash > ~/.local/share/bash-completion/completions/ttlproxy
  ttlproxy completion zsh > DIR/_ttlproxy      with a DIR of your $fpath
  ttlproxy completion fish > ~/.config/fish/completions/ttlproxy.fish"""


class Word(NamedTuple):
    """A flag. tells: its description; takes: whether it needs a value; choices: all values, if few
    words"""

    flag: str
    tells: str
    takes: bool = True
    choices: tuple[str, ...] = ()


Words = Mapping[str, Sequence[Word]]
"""The flags of each subcommand; those of ttlproxy itself under an empty name."""
_HELP: Final = Word("--help", "show all flags, and exit", takes=False)
_CONFIG: Final = Word("--config", "a TOML file with settings")
_OF_PROXY: Final = (
    Word("--version", "show the version, and exit", takes=False),
    Word("--check", "only check the settings, print what is in force", takes=False),
)


def _of_settings(names: Iterable[str]) -> Iterator[Word]:
    """Yields the flags of settings."""
    for name in names:
        kind, tells, *_ = SETTINGS[name]
        yield Word(flag(name), tells, choices=tuple(kind.choices))


def _words() -> Words:
    found = {"": [*_of_settings(SETTINGS), _CONFIG, *_OF_PROXY, _HELP]}
    for name in SUMMARIES:
        each, own = find_subcommand(name), []
        for long, how in each.flags.items():
            takes, choices = how.get("action") != "store_true", tuple(how.get("choices", ()))
            own.append(Word(long, how["help"].replace("%%", "%"), takes, choices))
        found[name] = [*own, *_of_settings(each.settings), _CONFIG, _HELP]
    return found


def _bash(words: Words) -> Iterator[str]:
    names = "|".join(SUMMARIES)
    yield "_ttlproxy() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub= words="
    yield "  if [ $COMP_CWORD -gt 1 ]; then"
    yield f"    case ${{COMP_WORDS[1]}} in {names}) sub=${{COMP_WORDS[1]}};; esac"
    yield "  fi"
    yield "  case $prev in"
    everything = {word.flag: word for each in words.values() for word in each}
    for word in everything.values():
        if word.choices:
            values = " ".join(word.choices)
            yield f'    {word.flag}) COMPREPLY=($(compgen -W "{values}" -- "$cur")); return;;'
    values = "|".join(word.flag for word in everything.values() if word.takes and not word.choices)
    yield f"    {values}) return;;"
    yield "  esac"
    yield "  case $sub in"
    for name, each in words.items():
        first = "" if name else " ".join(SUMMARIES) + " "
        yield f'    "{name}") words="{first}{" ".join(word.flag for word in each)}";;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o default -F _ttlproxy ttlproxy"


def _zsh(words: Words) -> Iterator[str]:
    yield "#compdef ttlproxy"
    yield "_ttlproxy() {"
    yield "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then"
    yield "    local -a subcommands=("
    for name, tells in SUMMARIES.items():
        yield f"      {_quoted(f'{name}:{tells}')}"
    yield "    )"
    yield "    _describe subcommand subcommands"
    yield "    return"
    yield "  fi"
    yield "  case $words[2] in"
    for name, each in sorted(words.items(), reverse=True):
        yield f"    {name or '*'})"
        yield "      _arguments \\"
        for word in each:
            tells = word.tells.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            values = f"({' '.join(word.choices)})" if word.choices else "_files"
            value = f":value:{values}" if word.takes else ""
            yield f"        {_quoted(f'{word.flag}[{tells}]{value}')} \\"
        yield "        '*:value:_files';;"
    yield "  esac"
    yield "}"
    yield '_ttlproxy "$@"'


def _fish(words: Words) -> Iterator[str]:
    names = " ".join(SUMMARIES)
    yield "complete -c ttlproxy -n __fish_use_subcommand -f"
    for name, tells in SUMMARIES.items():
        yield f"complete -c ttlproxy -n __fish_use_subcommand -a {name} -d {_quoted(tells)}"
    for name, each in words.items():
        seen = f"__fish_seen_subcommand_from {name or names}"
        where = _quoted(seen if name else f"not {seen}")
        for word in each:
            values = f" -x -a {_quoted(' '.join(word.choices))}" if word.choices else " -r"
            value = values if word.takes else ""
            long = word.flag.removeprefix("--")
            yield f"complete -c ttlproxy -n {where} -l {long}{value} -d {_quoted(word.tells)}"


def _quoted(text: str) -> str:
    """Returns the word in single quotes, as these shells read them."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


SHELLS: Final[Mapping[str, Callable[[Words], Iterator[str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


async def _completion(settings: Settings, own: argparse.Namespace) -> int:
    """Raises SettingsError if no shell is named."""
    if len(own.words) != 1 or own.words[0] not in SHELLS:
        raise SettingsError([f"completion: say one of {', '.join(SHELLS)}"])
    say(completion_of(own.words[0]))
    return 0


def completion_of(shell: str) -> str:
    """Returns the completion for one of SHELLS."""
    return "\n".join(SHELLS[shell](_words()))


SUBCOMMANDS: Final = {
    "completion": Subcommand(_DESCRIPTION, {}, _completion, (), takes="|".join(SHELLS))
}
