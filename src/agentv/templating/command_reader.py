"""Reads a command template as sh would: where each placeholder stands, and whether a shell is needed at all."""

import re
from typing import TypeAlias

from msgspec import Struct

from agentv.types.errors import TemplateError

PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")

_OPERATORS = frozenset("|&;<>()$`*?\n")
_BOUNDARIES = frozenset(" \t\n;&|()")
# `NAME=value command`, `~/command`: nothing in decisions.md's list of operators, but no program would be found.
_SHELL_ONLY = re.compile(r"\s*[A-Za-z_]\w*=|(?:.*\s)?~", re.DOTALL)


class Slot(Struct, frozen=True):
    """A place to be filled. `is_word`: it stands alone, unquoted, so that a list may become several words."""

    name: str
    is_word: bool


Word: TypeAlias = tuple[str | Slot, ...]


def variable_of(name: str) -> str:
    """Return the environment variable that carries a placeholder's value to the shell."""
    return f"AGENTV_{name}"


class Reader:
    """Reads a template character by character as sh would, building both of its forms.

    `_inside` names what is open, innermost last: `'`, `"`, a back quote, `(` (a subshell or `$(`), `((` (arithmetic),
    `${`. Were it ever wrong about a quote, a value would still be nothing but a variable in the script.
    """

    def __init__(self, text: str, called: str) -> None:
        self.text = text
        self._called = called
        self.script: list[str] = []
        self.words: list[list[str | Slot]] = []
        self.singles: set[str] = set()
        self.needs_shell = _SHELL_ONLY.match(text) is not None
        self._at = 0
        self._inside: list[str] = []
        self._in_word = False

    def read(self) -> None:
        """Read the whole text. Raises TemplateError when something stays open or cannot be filled safely."""
        while self._at < len(self.text):
            char = self.text[self._at]
            slot = PLACEHOLDER.match(self.text, self._at)
            if slot is not None and not self.text.endswith("$", 0, self._at):
                self._read_slot(slot)
            elif self._where == "'":
                self._read_single_quoted(char)
            elif char == "\\":
                self._read_escape()
            elif char in "\"'":
                self._read_quote(char)
            elif char in "$`":
                self._read_expansion(char)
            elif self._where == '"':
                self._keep(char)
            else:
                self._read_plain(char)
        if self._inside:
            closing = {"(": "parenthesis", "((": "parenthesis", "${": "brace", "`": "back quote"}
            raise TemplateError(f"{self._called} has an unclosed {closing.get(self._inside[-1], 'quote')}: {self.text}")

    @property
    def _where(self) -> str:
        return self._inside[-1] if self._inside else ""

    @property
    def _word(self) -> list[str | Slot]:
        """The word of the argument list that is being read; a new one after a blank."""
        if not self._in_word:
            self.words.append([])
            self._in_word = True
        return self.words[-1]

    def _skip(self, text: str) -> None:
        """Take what means something to the shell alone."""
        self.script.append(text)
        self._at += len(text)

    def _keep(self, text: str) -> None:
        """Take what stands for itself."""
        self._word.append(text)
        self._skip(text)

    def _read_slot(self, match: re.Match[str]) -> None:
        name = match[1]
        before, after = self.text[: match.start()][-1:], self.text[match.end() :][:1]
        is_word = self._where in ("", "(") and all(char in _BOUNDARIES for char in before + after)
        self._word.append(Slot(name, is_word))
        if is_word and name == "FILES":
            self.script.append('"$@"')
        else:
            self.script.append(self._asvariable_of(name))
            self.singles.add(name)
        self._at = match.end()

    def _asvariable_of(self, name: str) -> str:
        """Return what stands in the script for a value: a variable in quotes, whatever is open around it."""
        if "`" in self._inside or "${" in self._inside:
            raise TemplateError(f"{self._called} has {{{name}}} inside back quotes or ${{…}}; use $( ) instead")
        if "((" in self._inside and name != "ATTEMPT":
            raise TemplateError(f"{self._called} has {{{name}}} in arithmetic; only {{ATTEMPT}} is a number")
        variable = f"${{{variable_of(name)}}}"
        if self._where == "'":
            return f"'\"{variable}\"'"
        return variable if self._where in ('"', "((") else f'"{variable}"'

    def _read_single_quoted(self, char: str) -> None:
        if char == "'":
            self._inside.pop()
            self._skip(char)
        else:
            self._keep(char)

    def _read_escape(self) -> None:
        escaped = self.text[self._at + 1 : self._at + 2]
        stands_for_itself = self._where == '"' and escaped not in '$`"\\'
        self._word.append("\\" + escaped if stands_for_itself else escaped)
        self._skip("\\" + escaped)

    def _read_quote(self, char: str) -> None:
        if char == "'" and self._where == '"':
            self._keep(char)
            return
        self._word.append("")
        if self._where == char:
            self._inside.pop()
        else:
            self._inside.append(char)
        self._skip(char)

    def _read_expansion(self, char: str) -> None:
        self.needs_shell = True
        openings = {"$((": "((", "$(": "(", "${": "${"}
        opening = next((known for known in openings if self.text.startswith(known, self._at)), None)
        if opening is not None:
            self._inside.append(openings[opening])
        elif char == "`" and self._where == "`":
            self._inside.pop()
        elif char == "`":
            self._inside.append("`")
        self._skip(opening or char)

    def _read_plain(self, char: str) -> None:
        if self.text.startswith("<<", self._at) and "((" not in self._inside:
            raise TemplateError(f"{self._called} has a here-document; use {{PROMPT_FILE}} to hand over a text")
        self.needs_shell = self.needs_shell or char in _OPERATORS
        if char in " \t\n":
            self._in_word = False
            self._skip(char)
        elif char == "#" and not self._in_word:
            self.needs_shell = True
            self._skip(self.text[self._at :].split("\n", 1)[0])
        elif char in "()}":
            self._read_bracket(char)
        else:
            self._in_word = self._in_word and char not in _BOUNDARIES
            self._keep(char)

    def _read_bracket(self, char: str) -> None:
        if char == "(":
            self._inside.append("(")
        elif self._where == "((" and self.text.startswith("))", self._at):
            self._inside.pop()
            char = "))"
        elif (self._where, char) in (("(", ")"), ("${", "}")):
            self._inside.pop()
        self._keep(char)
