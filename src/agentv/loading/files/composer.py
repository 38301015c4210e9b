"""A composer that turns libyaml's events into values with positions, and its errors into readable messages.

It limits the depth and the number of values copied by aliases and merge keys, so that a small file cannot expand to a
huge value. It reads events one at a time, so that a YAML bomb stops at the first event beyond a limit.
"""

import math
import re
from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple, cast

import yaml
from yaml.reader import ReaderError

from agentv.loading.files.documents import Document, JsonPath, Key, Mark, Spot, shown_path
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

# Part of libyaml's wording, our message, and what is allowed.
_MESSAGES: tuple[tuple[str, str, str | None], ...] = (
    ("block sequence entries are not allowed", "'- ' is not allowed here", "start the list on a new line"),
    ("mapping keys are not allowed", "'? ' is not allowed here", "put text that starts with '?' in quotes"),
    ("found unexpected ':'", "unexpected ':' in a string", "put the string in quotes"),
    ("tab character", "a tab where spaces are required", "indent with spaces"),
    (
        "mapping values are not allowed",
        "unexpected ':' where no key is allowed",
        "check the indentation; quote text that contains ': '",
    ),
    (
        "expected ',' or ']'",
        "a list that starts with '[' is not closed",
        "add ',' between its items and ']' at its end",
    ),
    (
        "expected ',' or '}'",
        "an object that starts with '{' is not closed",
        "add ',' between its entries and '}' at its end",
    ),
    ("unexpected end of stream", "a quoted string is not closed", "add the closing quote"),
    ("expected '-' indicator", "an item of this list does not start with '-'", "check the indentation"),
    ("did not find expected key", "this line does not fit here", "check its indentation, and quotes before it"),
    ("unknown escape character", "'\\' starts an unknown escape sequence", "use single quotes, or write '\\\\'"),
    ("expected hexdecimal number", "this escape needs hexadecimal digits", "use single quotes, or write '\\\\'"),
    ("invalid Unicode character escape", "this '\\u' escape is not a character", "write the character itself"),
    ("could not find expected ':'", "a key without ':'", "write 'key: value'"),
    (
        "expected <document start>",
        "unexpected text after the end of the document",
        "check its indentation, and quotes before it",
    ),
    ("expected node content", "a value is missing here", None),
    (
        "expected alphabetic or numeric",
        "a name must follow '*' and '&'",
        "put text that starts with '*' or '&' in quotes",
    ),
    ("undefined tag handle", "tags are not supported", "put text that starts with '!' in quotes"),
    ("a tag", "tags are not supported", "put text that starts with '!' in quotes"),
    ("directive", "a line starts with '%', but directives are not supported", "put the string in quotes"),
    ("block scalar", "the text after '|' or '>' is not indented correctly", "indent all its lines equally"),
)


_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""The line breaks that libyaml counts."""


def syntax_problem(error: yaml.YAMLError | UnicodeEncodeError, text: str, path: str) -> Problem:
    """Return the problem, with its position, for an error of the parser."""
    if isinstance(error, ReaderError):
        place = place_of(text, error.position)
        return Problem(path, f"the control character U+{int(error.character):04X} is not allowed in YAML", *place)
    if isinstance(error, UnicodeEncodeError):
        return Problem(path, "half of a surrogate pair is not a character", *place_of(text, error.start))
    mark = getattr(error, "problem_mark", None)
    if mark is not None and "cannot start any token" in str(error):
        return _invalid_start_problem(text, path, Mark(mark.line + 1, mark.column + 1))
    wording = f"{getattr(error, 'problem', None) or error} {getattr(error, 'context', None) or ''}"
    message, allowed = _readable_message(wording)
    # A value that is not closed is reported where it starts, since that is what to correct.
    if "not closed" in message and getattr(error, "context_mark", None) is not None:
        mark = getattr(error, "context_mark", None)
    place = Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)
    return Problem(path, message, *place, allowed=allowed)


def _invalid_start_problem(text: str, path: str, place: Mark) -> Problem:
    """Return the problem of a character that cannot start a value, most often a tab."""
    character = _LINE_BREAK.split(text)[place.line - 1][place.column - 1 : place.column]
    if character == "\t":
        return Problem(path, "a tab where spaces are required", *place, allowed="indent with spaces")
    message = f"the character {character!r} cannot start a value"
    return Problem(path, message, *place, allowed="put the string in quotes")


def _readable_message(wording: str) -> tuple[str, str | None]:
    for part, message, allowed in _MESSAGES:
        if part in wording:
            return message, allowed
    return f"not valid YAML ({wording.strip()})", None


def place_of(text: str, offset: int) -> Mark:
    """Return the line and column of a character."""
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Only text that starts with one of these characters can be a value other than text.
_SPECIAL_STARTS = frozenset("-+.0123456789~nNtTfF")


def resolve_plain(text: str) -> bool | int | float | str | None:
    """Return the value of an unquoted scalar. Raises ValueError with a message for numbers out of range."""
    if text and text[0] not in _SPECIAL_STARTS:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text)


def _number(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return to_integer(text)
    if _OCTAL.fullmatch(text):
        return int(text, 0)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return to_float(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("infinity and NaN are not allowed")
    return text


def to_integer(text: str) -> int:
    """Return a decimal integer. Raises ValueError with a message when it has thousands of digits."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a number of {len(text):,} digits is too long") from None


def to_float(text: str) -> float:
    """Return a decimal fraction. Raises ValueError with a message when it exceeds the range of a float."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("this number is too large")
    return value


MAX_DEPTH = 100
MAX_EXPANSION = 1_000_000
"""The number of values that aliases and merge keys may add to one file; 100 characters of text count as one value."""


class YamlLimitError(Exception):
    """A limit of the composer was exceeded; `args[0]` is the problem."""


class _Size(NamedTuple):
    """The size of a value with every alias in it expanded: number of values, levels of nesting."""

    values: int
    depth: int


_CHARACTERS_PER_VALUE = 100
_VALUES_PER_MERGED_ENTRY = 4  # a merged entry is copied; an aliased value is shared
_SCALAR_SIZE = _Size(1, 0)


class _Anchored(NamedTuple):
    value: JsonValue
    size: _Size


def compose(text: str, path: str) -> tuple[Document | None, tuple[Problem, ...]]:
    """Return one YAML document and its problems; None with a syntax error or an exceeded limit."""
    composer = _Composer(text, path)
    try:
        return composer.document(), tuple(composer.problems)
    except YamlLimitError as error:
        return None, (*composer.problems, cast(Problem, error.args[0]))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        return None, (*composer.problems, syntax_problem(error, text, path))


def _start_of(event: yaml.Event) -> Mark:
    mark = cast(yaml.Mark, event.start_mark)
    return Mark(mark.line + 1, mark.column + 1)


class _Composer:
    """A composer of one document. `problems` has the errors that do not stop it: bad keys, tags and numbers."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self._anchors: dict[str, _Anchored | None] = {}
        self._marks: dict[int, MutableMapping[Key, Spot]] = {}
        self._sizes: dict[int, _Size] = {}
        self._expansion = 0
        self._path: list[Key] = []

    def document(self) -> Document | None:
        """Compose the only document; record a problem if there is none, or a second one."""
        next(self._events)  # stream start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            self._report(Mark(1, 1), "the file is empty")
            return None
        first = next(self._events)
        value = self._node(first)
        next(self._events)  # document end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._report(_start_of(event), "a second document starts here", "a file has one document; remove the '---'")
        return Document(self.path, value, _start_of(first), self._marks)

    def _report(self, place: Mark, message: str, allowed: str | None = None) -> None:
        self.problems.append(self._problem(place, message, allowed))

    def _problem(self, place: Mark, message: str, allowed: str | None = None) -> Problem:
        shown = shown_path(cast(JsonPath, tuple(self._path)))
        return Problem(
            path=self.path, message=message, line=place.line, column=place.column, json_path=shown, allowed=allowed
        )

    def _node(self, event: yaml.Event) -> JsonValue:
        """Compose the value that starts with `event`."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(value, self._size(value))
            return value
        if not isinstance(event, yaml.CollectionStartEvent):
            raise TypeError(f"libyaml gave {event!r} where a value starts")
        self._check_depth(len(self._path) + 1, event)
        self._check_tag(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # not finished: an alias to it would contain itself
        value, size = self._mapping() if isinstance(event, yaml.MappingStartEvent) else self._sequence()
        self._sizes[id(value)] = size
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, size)
        return value

    def _check_depth(self, depth: int, event: yaml.Event) -> None:
        if depth > MAX_DEPTH:
            raise YamlLimitError(self._problem(_start_of(event), f"nested more than {MAX_DEPTH} levels deep"))

    def _check_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            advice = "write the value itself, in quotes if it is text"
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._report(_start_of(event), f"tags such as {tag!r} are not supported", advice)

    def _alias(self, event: yaml.AliasEvent) -> JsonValue:
        anchored = self._anchors.get(str(event.anchor))
        if anchored is None:
            is_inside = event.anchor in self._anchors
            reason = "is inside the value that it refers to" if is_inside else "refers to no anchor above it"
            self._report(_start_of(event), f"the alias *{event.anchor} {reason}")
            return None
        self._count_expansion(anchored.size.values, event)
        self._check_depth(len(self._path) + anchored.size.depth, event)
        return anchored.value

    def _count_expansion(self, values: int, event: yaml.Event) -> None:
        self._expansion += values
        if self._expansion > MAX_EXPANSION:
            message = f"aliases and merge keys would add more than {MAX_EXPANSION:,} values to this file"
            raise YamlLimitError(self._problem(_start_of(event), message, "write the data out"))

    def _scalar(self, event: yaml.ScalarEvent) -> JsonValue:
        self._check_tag(event)
        if event.style:
            return event.value
        try:
            return resolve_plain(event.value)
        except ValueError as error:
            self._report(_start_of(event), str(error), "write it in quotes if it is meant as text")
            return None

    def _size(self, value: JsonValue) -> _Size:
        if isinstance(value, dict | list):
            return self._sizes.get(id(value), _SCALAR_SIZE)
        return _Size(1 + len(value) // _CHARACTERS_PER_VALUE, 0) if isinstance(value, str) else _SCALAR_SIZE

    def _sequence(self) -> tuple[JsonValue, _Size]:
        """Compose the items of a list; return it with its size."""
        items: list[JsonValue] = []
        spots: dict[Key, Spot] = {}
        values, depth = 1, 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            place = _start_of(event)
            spots[len(items)] = Spot(place, place)
            self._path.append(len(items))
            items.append(self._node(event))
            self._path.pop()
            size = self._size(items[-1])
            values, depth = values + size.values, max(depth, size.depth)
        self._marks[id(items)] = spots
        return items, _Size(values, depth + 1)

    def _mapping(self) -> tuple[JsonValue, _Size]:
        """Compose the entries of an object, with those that merge keys insert; return it with its size."""
        entries: dict[str, JsonValue] = {}
        spots: dict[Key, Spot] = {}
        merged: list[dict[str, JsonValue]] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, spots)
            value_event = next(self._events)
            self._path.append(key)
            value = self._node(value_event)
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and not event.style:
                merged += self._merge_sources(value, value_event)
            else:
                entries[key] = value
                spots[key] = Spot(_start_of(event), _start_of(value_event))
            self._path.pop()
        for source in merged:
            for key, value in source.items():
                entries.setdefault(key, value)
        # Merged entries keep the marks of their sources, without a copy.
        self._marks[id(entries)] = ChainMap(spots, *(self._marks[id(source)] for source in merged)) if merged else spots
        sizes = [self._size(value) for value in entries.values()]
        return entries, _Size(1 + sum(s.values for s in sizes), 1 + max((s.depth for s in sizes), default=0))

    def _key(self, event: yaml.Event, seen: dict[Key, Spot]) -> str:
        """Return a key as a string; record a problem if it is not a string, or a duplicate."""
        place = _start_of(event)
        if not isinstance(event, yaml.ScalarEvent):
            self._path.append("?")
            value = self._node(event)
            self._path.pop()
            if not isinstance(value, str):
                self._report(place, "a key must be a string", "write it as one word or in quotes")
            return str(value)
        name: str = event.value
        if not isinstance(self._scalar(event), str) and not event.style:
            self._report(place, f"the key {name!r} must be a string" if name else "a key is missing", f'write "{name}"')
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(name, _SCALAR_SIZE)
        if name in seen:
            first = seen[name].key
            self._report(place, f"the key {name!r} appears twice, first in line {first.line}", "remove one of them")
        return name

    def _merge_sources(self, value: JsonValue, event: yaml.Event) -> list[dict[str, JsonValue]]:
        """Return the objects that a merge key inserts; each counts towards the limit."""
        sources = value if isinstance(value, list) else [value]
        merged: list[dict[str, JsonValue]] = []
        for source in sources:
            if isinstance(source, dict):
                self._count_expansion(_VALUES_PER_MERGED_ENTRY * len(source), event)
                merged.append(source)
            else:
                self._report(_start_of(event), "a merge key '<<' takes an object, or a list of objects")
        return merged
