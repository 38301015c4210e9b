"""Command templates: `agent --prompt {PROMPT} --out {OUTPUT_FILE}` → what is executed (decisions.md, "cli templates").

A template that needs no shell becomes an argument list with the values filled in. Any other runs in sh, and each value
reaches it as an environment variable: no value is ever part of the program text, whatever quotes stand around it.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from agentv.templating.command_reader import PLACEHOLDER, Reader, Slot, Word, variable_of
from agentv.types.errors import TemplateError

PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "GUIDELINES", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE", "CASES_FILE")
MAX_VALUE_BYTES = 120_000
"""What fits an argument or environment variable on every system that we run on (Linux refuses 128 KiB)."""

_FILE_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class FilledCommand(Struct, frozen=True):
    """What to execute: an argument list, and variables to add to its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class CommandTemplate(Struct, frozen=True):
    """A template that was read: `words` when it needs no shell, else `script`, which names variables for its values.

    `singles` are those of its placeholders that are filled as one piece of text: all but a {FILES} that is a word.
    """

    text: str
    placeholders: frozenset[str]
    singles: frozenset[str]
    words: tuple[Word, ...] | None
    script: str

    def fill(self, values: Mapping[str, str], files: Sequence[str] = ()) -> FilledCommand:
        """Return the command with its values. `files` are the words of {FILES}, the other names are keys of `values`.

        Raises TemplateError when a value cannot be an argument: over 120 kB, or with a NUL character.
        """
        given = {**values, "FILES": " ".join(files)}
        used = {name: _fit(name, given[name]) for name in self.singles}
        if self.words is not None:
            argv = [filled for word in self.words for filled in _fill_word(word, used, files)]
            return FilledCommand(tuple(argv), {})
        variables = {variable_of(name): value for name, value in used.items()}
        return FilledCommand(("/bin/sh", "-c", self.script, "sh", *files), variables)


class FilesFormat(Struct, frozen=True):
    """How each file stands in {FILES}: the words of the format, with `{path}` and `{basename}`."""

    words: tuple[str, ...]

    def fill(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the words for all files, in order."""
        return tuple(_file_word(word, path) for path in paths for word in self.words)


def parse_command(
    text: str, *, supported: Sequence[str] = PLACEHOLDERS, called: str = "the command"
) -> CommandTemplate:
    """Read a command template, which messages call `called`.

    Raises TemplateError for an empty or unbalanced one, or an unsupported placeholder.
    """
    if not text.strip():
        raise TemplateError(f"{called} is empty")
    unknown = [name for name in dict.fromkeys(_names_in(text)) if name not in supported]
    if unknown:
        allowed = ", ".join(f"{{{name}}}" for name in supported)
        listed = ", ".join(f"{{{name}}}" for name in unknown)
        hint = f"supported: {allowed}" if supported else "it can have none"
        raise TemplateError(f"{called} has the unsupported placeholder {listed}; {hint}")
    reader = Reader(text, called)
    reader.read()
    return CommandTemplate(
        text=text,
        placeholders=frozenset(_names_in(text)),
        singles=frozenset(reader.singles),
        words=None if reader.needs_shell else tuple(tuple(word) for word in reader.words),
        script="".join(reader.script),
    )


def parse_files_format(text: str, *, called: str = "the files format") -> FilesFormat:
    """Read a files format. Raises TemplateError for an empty or unbalanced one, or an unknown placeholder."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TemplateError(f"{called} cannot be read: {error}") from None
    unknown = [name for name in _FILE_PLACEHOLDER.findall(text) if name not in ("path", "basename")]
    if unknown:
        raise TemplateError(
            f"{called} has the unsupported placeholder {{{unknown[0]}}}; supported: {{path}}, {{basename}}"
        )
    if not words:
        raise TemplateError(f"{called} is empty; it may hold {{path}} and {{basename}}")
    return FilesFormat(tuple(words))


def _names_in(text: str) -> list[str]:
    """Return the placeholders of a template; `${NAME}` is the shell's own."""
    return [match[1] for match in PLACEHOLDER.finditer(text) if text[match.start() - 1 : match.start()] != "$"]


def _fit(name: str, value: str) -> str:
    size = len(value.encode("utf-8", "surrogateescape" if name == "FILES" else "replace"))
    if size > MAX_VALUE_BYTES:
        raise TemplateError(
            f"{{{name}}} is {size / 1000:.0f} kB, but an argument of a command may be at most "
            f"{MAX_VALUE_BYTES // 1000} kB; use {{PROMPT_FILE}}, which takes a prompt of any length"
        )
    if "\0" in value:
        raise TemplateError(
            f"{{{name}}} holds a NUL character, which no argument of a command can; use {{PROMPT_FILE}}"
        )
    return value


def _fill_word(word: Word, values: Mapping[str, str], files: Sequence[str]) -> Sequence[str]:
    if word == (Slot("FILES", is_word=True),):
        return files
    return ["".join(piece if isinstance(piece, str) else values[piece.name] for piece in word)]


def _file_word(word: str, path: str) -> str:
    values = {"path": path, "basename": PurePath(path).name}
    return _FILE_PLACEHOLDER.sub(lambda match: values[match[1]], word)
