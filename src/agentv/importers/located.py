"""Values of another program's file with their positions, and a record of those that are not carried over."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.files.composer import compose
from agentv.loading.files.documents import Document, JsonPath, Key, child, shown_path
from agentv.loading.files.path_guard import FileProblemError, find_matching, guard_for
from agentv.loading.files.text import decode, is_file, read_bytes, shown
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem, Severity

_WILDCARD = re.compile(r"[*?\[]")


class Losses(Struct):
    """The values that a conversion could not carry over, or changed, each with its place in the source.

    A problem is an error if something that asks or judges is lost: a test, its prompt, a variable, an assertion, a
    provider; else it is a warning.
    """

    found: dict[Problem, None] = field(default_factory=dict)
    """Each once, in the order of their discovery."""
    errors: list[Problem] = field(default_factory=list)
    """The errors each time that they were met: several tests may lose the same part."""

    def add(self, problem: Problem) -> None:
        """Record a loss; the same loss at the same place is listed once."""
        if problem.severity == "error":
            self.errors.append(problem)
        self.found[problem] = None

    def reasons_since(self, mark: int) -> tuple[str, ...]:
        """Return the messages of the errors that were met since `errors` had the length `mark`, each once."""
        return tuple(dict.fromkeys(problem.message for problem in self.errors[mark:]))


_MOST_REASONS = 3


def lost_reason(lost: Sequence[str]) -> str:
    """Return what is lost of a test as the reason of `skip` and `incomplete`."""
    more = f"; and {len(lost) - _MOST_REASONS} more" if len(lost) > _MOST_REASONS else ""
    return f"lost in conversion: {'; '.join(lost[:_MOST_REASONS])}{more}"


class Located(Struct, frozen=True):
    """A value inside a document, with its path; entries that do not exist are values of None."""

    document: Document
    losses: Losses
    folder: Path
    """The folder that file names in the value are relative to."""
    at: JsonPath = ()
    value: JsonValue = None

    def get(self, key: Key) -> "Located":
        """Return an entry; `{$ref: '#/a/b'}` is followed."""
        return self._follow((*self.at, key), child(self.value, key))

    def _follow(self, at: JsonPath, value: JsonValue, depth: int = 0) -> "Located":
        reference = value.get("$ref") if isinstance(value, Mapping) else None
        if isinstance(reference, str) and reference.startswith("#/") and depth < 20:  # noqa: PLR2004 - a circle ends
            target = tuple(_pointer_key(part) for part in reference[2:].split("/"))
            if self.document.at(target) is not None:
                return self._follow(target, self.document.at(target), depth + 1)
        return Located(self.document, self.losses, self.folder, at=at, value=value)

    def entries(self) -> Iterator[tuple[str, "Located"]]:
        """Yield the entries of an object; none for another value."""
        for key in self.value if isinstance(self.value, Mapping) else ():
            yield key, self.get(key)

    def items(self) -> Iterator["Located"]:
        """Yield the items of a list, or the value itself if it is not a list; nothing if there is no value."""
        if isinstance(self.value, list | tuple):
            for index in range(len(self.value)):
                yield self.get(index)
        elif self.value is not None:
            yield self

    def text(self) -> str:
        """Return a text, number or boolean as text; "" for anything else."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return str(self.value) if isinstance(self.value, str | int | float) else ""

    def number(self) -> float | None:
        """Return a finite number, also if written as a string; else None, and record any other value as a loss."""
        if self.value is None:
            return None
        if not isinstance(self.value, bool) and isinstance(self.value, int | float | str):
            with suppress(ValueError, OverflowError):
                number = float(self.value)
                if isfinite(number):
                    return number if isinstance(self.value, str) else self.value
        written = json.dumps(self.value, ensure_ascii=False)
        self.lose(f"`{self.at[-1] if self.at else ''}` is not a number: {written}; it is not carried over")
        return None

    def drop(self, message: str, advice: str | None = None) -> None:
        """Record that this value is not carried over, or not exactly, and what to do about it."""
        self._record(message, advice, "warning")

    def lose(self, message: str, advice: str | None = None) -> None:
        """Record that a part that asks or judges is not carried over, and what to do about it."""
        self._record(message, advice, "error")

    def _record(self, message: str, advice: str | None, severity: Severity) -> None:
        place = self.document.mark(self.at, on_key=True)
        path = shown_path(self.at)
        self.losses.add(
            Problem(
                self.document.path,
                message,
                place.line,
                place.column,
                json_path=path,
                allowed=advice,
                severity=severity,
            )
        )

    def require_inside(self, path: Path) -> Path:
        """Return a path that the file names. Raises ConfigError if it leads out of the project, also through a link."""
        try:
            guard_for(self.folder, cwd=Path.cwd()).check(path, str(path))
        except FileProblemError:
            place = self.document.mark(self.at)
            raise ConfigError(
                f"{self.document.path}:{place.line}:{place.column}  {path} is outside the project; copy it there first"
            ) from None
        return path

    def files(self, name: str) -> list[Path]:
        """Return the paths of the files that match a pattern, sorted; for another name its path, if there is a file.

        Raises ConfigError for a pattern that is absolute, leads out of the project, or makes the search too long, and
        for a file outside the project.
        """
        if not _WILDCARD.search(name):
            path = self.require_inside(self.folder / name)
            return [path] if is_file(path) else []
        try:
            return find_matching(name, self.folder, guard_for(self.folder, cwd=Path.cwd()))
        except FileProblemError as error:
            place = self.document.mark(self.at)
            raise ConfigError(
                f"{self.document.path}:{place.line}:{place.column}  {error.message}; "
                f"name files of the project, relative to {self.folder.resolve()}"
            ) from None

    def drop_unsupported(self, known: Mapping[str, str | None], owner: str, *, losing: Collection[str] = ()) -> None:
        """Record the keys that are not carried over: `known` has None for a supported key, and advice for any other.

        Keys in `losing` ask or judge.
        """
        for key, value in self.entries():
            if key not in known:
                value.drop(f"`{key}` is not a known key of {owner}; it is not carried over")
            elif known[key] is not None:
                record = value.lose if key in losing else value.drop
                record(f"`{key}` is not carried over", known[key])


def _pointer_key(part: str) -> Key:
    """Return the key or index that a part of a JSON pointer means."""
    name = part.replace("~1", "/").replace("~0", "~")
    return int(name) if name.isdecimal() else name


def open_located(path: Path, losses: Losses) -> Located:
    """Return the content of a YAML or JSON file. Raises EvalFileError when it cannot be read."""
    name = shown(path)
    document, problems = compose(decode(read_bytes(path), name), name)
    if document is None or any(problem.severity == "error" for problem in problems):
        raise EvalFileError(name, problems)
    return Located(document, losses, path.parent, at=(), value=document.value)


class Converted(Struct, frozen=True, kw_only=True):
    """An eval file made from another program's file, with the files that belong to it."""

    program: str
    suite: JsonObject
    cases: int | None
    """The number of cases; None if they stay in a dataset."""
    targets: tuple[JsonObject, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    """Modules to write beside the suite, by name."""
    unread: tuple[str, ...] = ()
    """Code that the suite calls as it is, such as the names of scripts: what it needs is not known."""
    losses: tuple[Problem, ...] = ()


def require(condition: object, path: Path, message: str) -> None:
    """Raise ConfigError unless a condition for the conversion of a file holds; `message` says what is wrong."""
    if not condition:
        raise ConfigError(f"cannot convert {path}: {message}")
