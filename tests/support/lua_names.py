"""Which names a piece of Lua 5.1 declares, and which it takes from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    |(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^\#<>=(){}\[\];:,.])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {
    *("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in"),
    *("local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while"),
}
_CONSTANTS = {"nil", "true", "false", "..."}
_UNARY = {"not", "#", "-"}
_CALLS = {"call", "pcall", "try", "try_all"}
_BINARY = {"and", "or", "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">="}
_BLOCK_ENDS = {"end", "else", "elseif", "until", ""}


class Names(NamedTuple):
    """declared: the locals of the outermost block; free: names used that are not declared before;
    assigned: those of them that get a value."""

    declared: set[str]
    free: set[str]
    assigned: set[str]


def names(source: str) -> Names:
    """The names of a piece of Lua. ValueError if it cannot be read."""
    reader = _Reader(source)
    reader.block()
    if reader.token:
        raise ValueError(f"{reader.token!r} where a statement should begin")
    return Names(reader.scopes[0], reader.free, reader.assigned)


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise ValueError(f"no Lua: {source[at : at + 20]!r}")
        at = found.end()
        if found.lastgroup != "blank":
            yield str(found.lastgroup), found[0]


class _Reader:
    """Reads statements and expressions; knows the scopes that are open."""

    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self._kind = self.token = ""
        self.scopes: list[set[str]] = [set()]
        self.free: set[str] = set()
        self.assigned: set[str] = set()
        self._advance()

    def _advance(self) -> str:
        before = self.token
        self._kind, self.token = next(self._tokens, ("", ""))
        return before

    def _take(self, wanted: str) -> bool:
        """Whether this token comes next; then it is read."""
        found = self.token == wanted
        if found:
            self._advance()
        return found

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise ValueError(f"{self.token!r} instead of {wanted!r}")

    def _name(self) -> str:
        if self._kind != "name" or self.token in _WORDS:
            raise ValueError(f"{self.token!r} instead of a name")
        return self._advance()

    def _use(self, name: str, assigned: bool = False) -> None:
        if not any(name in scope for scope in self.scopes):
            self.free.add(name)
            if assigned:
                self.assigned.add(name)

    def block(self) -> None:
        """Statements, up to the word that ends the block."""
        while self.token not in _BLOCK_ENDS:
            self._statement()
            self._take(";")

    def _inner(self, *declared: str) -> None:
        self.scopes.append(set(declared))
        self.block()
        self.scopes.pop()

    def _statement(self) -> None:
        if self._take("local"):
            self._local()
        elif self._take("function"):
            self._use(self._name(), assigned=self.token == "(")
            while self._take("."):
                self._name()
            self._function()
        elif self._take("if"):
            self._if()
        elif self._take("while"):
            self._expression()
            self._expect("do")
            self._inner()
            self._expect("end")
        elif self._take("for"):
            self._for()
        elif self._take("repeat"):
            self._repeat()
        elif self._take("do"):
            self._inner()
            self._expect("end")
        elif self._take("return"):
            if self.token not in _BLOCK_ENDS:
                self._expressions()
        elif not self._take("break"):
            self._call_or_assignment()

    def _local(self) -> None:
        if self._take("function"):
            self.scopes[-1].add(self._name())
            self._function()
            return
        declared = [self._name()]
        while self._take(","):
            declared.append(self._name())
        if self._take("="):
            self._expressions()
        self.scopes[-1].update(declared)

    def _function(self) -> None:
        """From the opening bracket on."""
        self._expect("(")
        parameters = []
        while not self._take(")"):
            if not self._take("..."):
                parameters.append(self._name())
            self._take(",")
        self._inner(*parameters)
        self._expect("end")

    def _if(self) -> None:
        self._expression()
        self._expect("then")
        self._inner()
        if self._take("elseif"):
            self._if()
            return
        if self._take("else"):
            self._inner()
        self._expect("end")

    def _for(self) -> None:
        declared = [self._name()]
        while self._take(","):
            declared.append(self._name())
        if not self._take("in"):
            self._expect("=")
        self._expressions()
        self._expect("do")
        self._inner(*declared)
        self._expect("end")

    def _repeat(self) -> None:
        self.scopes.append(set())
        self.block()
        self._expect("until")
        self._expression()
        self.scopes.pop()

    def _call_or_assignment(self) -> None:
        targets = []
        while True:
            name = self.token if self._kind == "name" else ""
            targets.append((name, self._suffixed()))
            if not self._take(","):
                break
        if self._take("="):
            for name, is_plain in targets:
                if is_plain:
                    self._use(name, assigned=True)
            self._expressions()

    def _suffixed(self) -> bool:
        """A name or an expression in brackets, with fields and calls; whether it is a bare name."""
        if self._take("("):
            self._expression()
            self._expect(")")
            is_plain = False
        else:
            self._use(self._name())
            is_plain = True
        while True:
            if self._take("."):
                self._name()
            elif self._take("["):
                self._expression()
                self._expect("]")
            elif self._take("("):
                if not self._take(")"):
                    self._expressions()
                    self._expect(")")
            elif self.token == "{" or self._kind == "string":
                self._operand()
            else:
                return is_plain
            is_plain = False

    def _expressions(self) -> None:
        self._expression()
        while self._take(","):
            self._expression()

    def _expression(self) -> None:
        self._operand()
        while self._kind != "string" and self.token in _BINARY:
            self._advance()
            self._operand()

    def _operand(self) -> None:
        while self._kind != "string" and self.token in _UNARY:
            self._advance()
        if self._kind in ("string", "number") or self.token in _CONSTANTS:
            self._advance()
        elif self._take("function"):
            self._function()
        elif self._take("{"):
            self._table()
        else:
            self._suffixed()

    def _table(self) -> None:
        while not self._take("}"):
            if self._take("["):
                self._expression()
                self._expect("]")
                self._expect("=")
                self._expression()
            else:
                self._field()
            if not self._take(","):
                self._take(";")

    def _field(self) -> None:
        """`name = value`, or a value, which may begin with a name too."""
        if self._kind != "name" or self.token in _WORDS:
            self._expression()
            return
        before = (set(self.free), set(self.assigned))
        self._expression()
        if self._take("="):  # it was the name of a field
            self.free, self.assigned = before
            self._expression()


def redis_calls(source: str) -> Iterator[list[list[str]]]:
    """The arguments of each call of Redis by one of _CALLS, as lists of tokens."""
    tokens = [token for _, token in _tokens(source)]
    for at, name in enumerate(tokens):
        declared = tokens[at - 1] == "function" if at else False
        if name in _CALLS and tokens[at + 1] == "(" and not declared:
            yield _arguments(tokens[at + 2 :])


def _arguments(tokens: list[str]) -> list[list[str]]:
    """The arguments up to the closing bracket."""
    found: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{") - (token in ")]}")
        if depth < 0:
            break
        if token == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found
