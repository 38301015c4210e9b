"""Command templates: `agent --prompt {PROMPT} --out {OUTPUT_FILE}` → a command (docs/reference/providers/cli.md).

A template that needs no shell becomes an argument list with the values filled in. Any other template runs in sh,
which gets each value in an environment variable, or the files of {FILES} as its arguments: no value is ever part of the
program text, whatever quotes surround it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TypeAlias

from msgspec import Struct

from agentv.types.errors import TemplateError

PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")

_OPERATORS = frozenset("|&;<>()$`*?\n")
_BOUNDARIES = frozenset(" \t\n;&|()")
# `NAME=value command`, `~/command`: without an operator, but only a shell understands them.
_SHELL_ONLY = re.compile(r"\s*[A-Za-z_]\w*=|(?:.*\s)?~", re.DOTALL)


class Placeholder(Struct, frozen=True):
    """A placeholder to fill. `is_word` is True for an unquoted word of its own: {FILES} then becomes several words."""

    name: str
    is_word: bool


Word: TypeAlias = tuple[str | Placeholder, ...]


def variable_of(name: str) -> str:
    """Return the environment variable that carries a placeholder's value to the shell."""
    return f"AGENTV_{name}"


class Reader:
    """Reads a template character by character as sh would, and builds the parts of a CommandTemplate.

    `called` is the name of the template in messages. `_open` is the stack of open constructs: `'`, `"`, a back quote,
    `(` (a subshell or `$(`), `((` (arithmetic), `${`. Even if the stack were wrong about a quote, no value could
    become code, because the script refers to values only by variables.
    """

    def __init__(self, text: str, called: str) -> None:
        self.text = text
        self._called = called
        self.script: list[str] = []
        self.words: list[list[str | Placeholder]] = []
        self.single_values: set[str] = set()
        self.needs_shell = _SHELL_ONLY.match(text) is not None
        self._position = 0
        self._open: list[str] = []
        self._in_word = False

    def read(self) -> None:
        """Read the whole text. Raises TemplateError for an unclosed construct or an unsafe placeholder."""
        while self._position < len(self.text):
            char = self.text[self._position]
            placeholder = PLACEHOLDER.match(self.text, self._position)
            if placeholder is not None and not self.text.endswith("$", 0, self._position):
                self._read_placeholder(placeholder)
            elif self._innermost == "'":
                self._read_single_quoted(char)
            elif char == "\\":
                self._read_escape()
            elif char in "\"'":
                self._read_quote(char)
            elif char in "$`":
                self._read_expansion(char)
            elif self._innermost == '"':
                self._add_literal(char)
            else:
                self._read_plain(char)
        if self._open:
            closing = {"(": "parenthesis", "((": "parenthesis", "${": "brace", "`": "back quote"}
            raise TemplateError(f"{self._called} has an unclosed {closing.get(self._open[-1], 'quote')}: {self.text}")

    @property
    def _innermost(self) -> str:
        return self._open[-1] if self._open else ""

    def _current_word(self) -> list[str | Placeholder]:
        """Return the word of the argument list that is being read; after a blank, begin a new word."""
        if not self._in_word:
            self.words.append([])
            self._in_word = True
        return self.words[-1]

    def _add_syntax(self, text: str) -> None:
        """Add text that only the shell understands, such as a quote, to the script."""
        self.script.append(text)
        self._position += len(text)

    def _add_literal(self, text: str) -> None:
        """Add text to the current word and to the script."""
        self._current_word().append(text)
        self._add_syntax(text)

    def _read_placeholder(self, match: re.Match[str]) -> None:
        name = match[1]
        before, after = self.text[: match.start()][-1:], self.text[match.end() :][:1]
        is_word = self._innermost in ("", "(") and all(char in _BOUNDARIES for char in before + after)
        self._current_word().append(Placeholder(name, is_word))
        if is_word and name == "FILES":
            self.script.append('"$@"')
        else:
            self.script.append(self._as_variable(name))
            self.single_values.add(name)
        self._position = match.end()

    def _as_variable(self, name: str) -> str:
        """Return the script's reference to a value: a variable, quoted as the open constructs require."""
        if "`" in self._open or "${" in self._open:
            raise TemplateError(f"{self._called} has {{{name}}} inside back quotes or ${{…}}; use $( ) instead")
        if "((" in self._open and name != "ATTEMPT":
            raise TemplateError(f"{self._called} has {{{name}}} in arithmetic; only {{ATTEMPT}} is a number")
        variable = f"${{{variable_of(name)}}}"
        if self._innermost == "'":
            return f"'\"{variable}\"'"  # ends the single quotes before the variable, and begins them again
        return variable if self._innermost in ('"', "((") else f'"{variable}"'

    def _read_single_quoted(self, char: str) -> None:
        if char == "'":
            self._open.pop()
            self._add_syntax(char)
        else:
            self._add_literal(char)

    def _read_escape(self) -> None:
        escaped = self.text[self._position + 1 : self._position + 2]
        keeps_backslash = self._innermost == '"' and escaped not in '$`"\\'
        self._current_word().append("\\" + escaped if keeps_backslash else escaped)
        self._add_syntax("\\" + escaped)

    def _read_quote(self, char: str) -> None:
        if char == "'" and self._innermost == '"':
            self._add_literal(char)
            return
        self._current_word().append("")
        if self._innermost == char:
            self._open.pop()
        else:
            self._open.append(char)
        self._add_syntax(char)

    def _read_expansion(self, char: str) -> None:
        self.needs_shell = True
        openings = {"$((": "((", "$(": "(", "${": "${"}
        opening = next((known for known in openings if self.text.startswith(known, self._position)), None)
        if opening is not None:
            self._open.append(openings[opening])
        elif char == "`" and self._innermost == "`":
            self._open.pop()
        elif char == "`":
            self._open.append("`")
        self._add_syntax(opening or char)

    def _read_plain(self, char: str) -> None:
        if self.text.startswith("<<", self._position) and "((" not in self._open:
            raise TemplateError(f"{self._called} has a here-document, which is not supported; use {{PROMPT_FILE}}")
        self.needs_shell = self.needs_shell or char in _OPERATORS
        if char in " \t\n":
            self._in_word = False
            self._add_syntax(char)
        elif char == "#" and not self._in_word:
            self.needs_shell = True
            self._add_syntax(self.text[self._position :].split("\n", 1)[0])
        elif char in "()}":
            self._read_bracket(char)
        else:
            self._in_word = self._in_word and char not in _BOUNDARIES
            self._add_literal(char)

    def _read_bracket(self, char: str) -> None:
        if char == "(":
            self._open.append("(")
        elif self._innermost == "((" and self.text.startswith("))", self._position):
            self._open.pop()
            char = "))"
        elif (self._innermost, char) in (("(", ")"), ("${", "}")):
            self._open.pop()
        self._add_literal(char)


PLACEHOLDERS = (
    "PROMPT",
    "PROMPT_FILE",
    "SYSTEM_PROMPT",
    "GUIDELINES",
    "EVAL_ID",
    "ATTEMPT",
    "FILES",
    "OUTPUT_FILE",
    "CASES_FILE",
)
MAX_VALUE_BYTES = 120_000
"""The size that fits an argument or environment variable on every supported system (Linux refuses 128 KiB)."""

_FILES_FORMAT_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class FilledCommand(Struct, frozen=True):
    """The command to execute: an argument list, and variables to add to its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class CommandTemplate(Struct, frozen=True):
    """A parsed template."""

    text: str
    placeholders: frozenset[str]
    single_values: frozenset[str]
    """The placeholders that become one text: all except a {FILES} that is a word of its own."""
    words: tuple[Word, ...] | None
    """None if the template needs a shell, which then runs `script`."""
    script: str

    def fill(self, values: Mapping[str, str], files: Sequence[str] = ()) -> FilledCommand:
        """Return the command with all placeholders filled: {FILES} with `files`, others from `values` by name.

        Raises TemplateError if a value cannot be an argument: it exceeds 120 kB, or contains a NUL character.
        """
        all_values = {**values, "FILES": " ".join(files)}
        checked = {name: _checked_value(name, all_values[name]) for name in self.single_values}
        if self.words is not None:
            argv = [filled for word in self.words for filled in _fill_word(word, checked, files)]
            return FilledCommand(tuple(argv), {})
        variables = {variable_of(name): value for name, value in checked.items()}
        return FilledCommand(("/bin/sh", "-c", self.script, "sh", *files), variables)


class FilesFormat(Struct, frozen=True):
    """The words that {FILES} becomes for each file, with `{path}` and `{basename}`."""

    words: tuple[str, ...]

    def fill(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the words for all files, in order."""
        return tuple(_file_word(word, path) for path in paths for word in self.words)


def parse_command(
    text: str, *, supported: Sequence[str] = PLACEHOLDERS, called: str = "the command"
) -> CommandTemplate:
    """Parse a command template. `called` is its name in messages.

    Raises TemplateError if it is empty, has an unclosed construct or names an unsupported placeholder.
    """
    if not text.strip():
        raise TemplateError(f"{called} is empty")
    unknown = [name for name in dict.fromkeys(_names_in(text)) if name not in supported]
    if unknown:
        allowed = ", ".join(f"{{{name}}}" for name in supported)
        listed = ", ".join(f"{{{name}}}" for name in unknown)
        hint = f"supported: {allowed}" if supported else "no placeholder is allowed here"
        raise TemplateError(f"{called} has the unsupported placeholder {listed}; {hint}")
    reader = Reader(text, called)
    reader.read()
    return CommandTemplate(
        text=text,
        placeholders=frozenset(_names_in(text)),
        single_values=frozenset(reader.single_values),
        words=None if reader.needs_shell else tuple(tuple(word) for word in reader.words),
        script="".join(reader.script),
    )


def parse_files_format(text: str, *, called: str = "the files format") -> FilesFormat:
    """Parse a files format. Raises TemplateError if it is empty, has an unclosed quote or an unknown placeholder."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TemplateError(f"{called} cannot be read: {error}") from None
    unknown = [name for name in _FILES_FORMAT_PLACEHOLDER.findall(text) if name not in ("path", "basename")]
    if unknown:
        raise TemplateError(
            f"{called} has the unsupported placeholder {{{unknown[0]}}}; supported: {{path}}, {{basename}}"
        )
    if not words:
        raise TemplateError(f"{called} is empty; it may contain {{path}} and {{basename}}")
    return FilesFormat(tuple(words))


def _names_in(text: str) -> list[str]:
    """Return the placeholders of a template. `${NAME}` is not a placeholder: the shell expands it."""
    return [match[1] for match in PLACEHOLDER.finditer(text) if text[match.start() - 1 : match.start()] != "$"]


def _checked_value(name: str, value: str) -> str:
    size = len(value.encode("utf-8", "surrogateescape" if name == "FILES" else "replace"))
    advice = "use {PROMPT_FILE}"
    if name == "SYSTEM_PROMPT":
        advice += " and remove {SYSTEM_PROMPT}: the system prompt is then in the file, too"
    if size > MAX_VALUE_BYTES:
        raise TemplateError(
            f"{{{name}}} is {size / 1000:.0f} kB, but an argument of a command may be at most "
            f"{MAX_VALUE_BYTES // 1000} kB; {advice}"
        )
    if "\0" in value:
        raise TemplateError(
            f"{{{name}}} contains a NUL character, which an argument of a command cannot contain; {advice}"
        )
    return value


def _fill_word(word: Word, values: Mapping[str, str], files: Sequence[str]) -> Sequence[str]:
    if word == (Placeholder("FILES", is_word=True),):
        return files
    return ["".join(piece if isinstance(piece, str) else values[piece.name] for piece in word)]


def _file_word(word: str, path: str) -> str:
    values = {"path": path, "basename": PurePath(path).name}
    return _FILES_FORMAT_PLACEHOLDER.sub(lambda match: values[match[1]], word)
